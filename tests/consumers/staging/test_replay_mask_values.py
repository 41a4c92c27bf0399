"""Masks of values: paths, regular expressions, and the unchanged structure."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Callable
from functools import reduce
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from masking_examples import CANARY, KEY, entry, mask, rules, unfolded
from seekpoint.consumers.staging.masks.mask_entries import EntryMasks
from seekpoint.consumers.staging.masks.mask_paths import Path
from seekpoint.consumers.staging.masks.mask_values import DROPPED, Mask
from seekpoint.schemas import bodies as b
from seekpoint.schemas.errors import InvalidSetting
from seekpoint.schemas.values.json_values import check, dump, load


@pytest.mark.parametrize(
    ("path", "names", "expected"),
    [
        ("context.email", ("context", "email"), True),
        ("context.email", ("context",), False),
        ("context.email", ("context", "email", "more"), False),
        ("context.*", ("context", "email"), True),
        ("context.*.x", ("context", "x"), False),
        ("**.email", ("email",), True),
        ("**.email", ("a", "b", "email"), True),
        ("context.**", ("context",), True),
        ("a.**.z", ("a", "b", "c", "z"), True),
        ("a.**.z", ("a", "z"), True),
        ('context."e.mail"', ("context", "e.mail"), True),
        (r'"say \"hi\""', ('say "hi"',), True),
    ],
)
def test_a_path_matches_names(path: str, names: tuple[str, ...], expected: bool) -> None:
    """A star is one name, two are any number of names, also none."""
    assert Path.parse(path).matches(names) is expected


@pytest.mark.parametrize("path", ["", ".", "a.", ".a", "a..b", 'a"b', '"a', '"a"b'])
def test_an_invalid_path_is_refused(path: str) -> None:
    """Otherwise it would never match."""
    with pytest.raises(InvalidSetting):
        Path.parse(path)


def test_a_path_of_many_stars_is_matched_quickly() -> None:
    """The matching is dynamic programming without backtracking."""
    assert not Path.parse(".".join(["**"] * 30 + ["x"])).matches(("a",) * 300)


def test_a_redacted_container_keeps_its_structure() -> None:
    """Texts stay texts, numbers numbers, lists as long, and null stays null."""
    tree = {"a": ["x", 1, 2.5, True, None], "b": {"c": "y"}}
    assert mask({"path": "context", "do": "redact"}).value(tree, ("context",)) == {
        "a": ["***", 0, 0, False, None],
        "b": {"c": "***"},
    }


def test_pseudonyms_are_stable_and_keyed() -> None:
    """The same value has the same pseudonym everywhere, so joins work; another key gives another one."""
    hashing = mask({"path": "**", "do": "hash"})
    assert hashing.value({"a": "ann", "b": ["ann", "bob"]}, ("context",))["a"] == hashing.text("ann", ("message",))
    assert hashing.text("ann", ("x",)) != hashing.text("bob", ("x",))
    assert Mask(rules({"path": "**", "do": "hash"}).rules, KEY + b"!").text("ann", ("x",)) != hashing.text(
        "ann", ("x",)
    )
    number = hashing.value(42, ("x",))
    assert type(number) is int
    assert number not in (0, 42)


def test_a_regex_replaces_only_its_matches() -> None:
    """It applies to values, names of members and numbers."""
    phone = mask({"regex": r"\d{4,}", "do": "redact"})
    assert phone.value({"call 5550": ["at 5551 or 12", 123456, 12]}, ("context",)) == {
        "call ***": ["at *** or 12", "***", 12]
    }


def test_json_in_texts_is_parsed() -> None:
    """At any depth and with any escapes; the result is JSON again."""
    inner = json.dumps({"email": "ann@x.org", "note": json.dumps([{"deep": "ann@x.org"}])}).replace("@", "\\u0040")
    found = mask({"regex": r"\S+@\S+\.org", "do": "redact"}).text(inner, ("message", "tool_calls"))
    assert json.loads(found)["email"] == "***"
    assert json.loads(json.loads(found)["note"]) == [{"deep": "***"}]
    by_path = mask({"path": "**.email", "do": "drop"}).text(inner, ("message", "content"))
    assert "email" not in json.loads(by_path)


def test_tagged_values_stay_values() -> None:
    """A Decimal, bytes and a set can still be loaded after masking."""
    value = {"paid": 5, "raw": b"the secret-1 bytes", "when": (1, "secret-3")}
    text = str(mask({"regex": r"secret-\d", "do": "redact"}).json(dump(value), ("context",)))
    found = load(text)
    assert "secret" not in repr(found)
    assert found["paid"] == 5
    assert found["raw"] == "***"
    assert found["when"] == (1, "***")


def test_a_set_whose_masked_members_are_equal_is_redacted() -> None:
    """It would be no legal dynamic value."""
    masks = EntryMasks(rules({"regex": r"secret-\d", "do": "redact"}))
    found = masks.entry(entry(b.ContextUpdated("all", dump({"secret-1", "secret-2"})))).body
    assert isinstance(found, b.ContextUpdated)
    check(found.value)
    assert "secret" not in found.value


def test_drop_removes_members_and_items() -> None:
    """All other values stay in place."""
    dropping = mask({"path": "**.ssn", "do": "drop"})
    assert dropping.value({"people": [{"ssn": "1", "n": 1}], "ssn": 2}, ()) == {"people": [{"n": 1}]}
    assert mask({"regex": "bad", "do": "drop"}).value(["bad", "good"], ()) == ["good"]
    assert dropping.value("x", ("a", "ssn")) is DROPPED


def test_nesting_beyond_the_limit_does_not_pass() -> None:
    """It raises an error, and the policy stops the replay or drops the record."""
    text = "[" * 5_000 + '"secret"' + "]" * 5_000
    with pytest.raises((ValueError, RecursionError)):
        mask({"path": "**", "do": "redact"}).json(text, ())


WRAPPERS: tuple[Callable[[Any], Any], ...] = (
    json.dumps,
    lambda value: json.dumps(value).replace("-", "\\u002d"),
    lambda value: [None, 1, value, True],
    lambda value: {"k": value},
    lambda value: f"see {value}" if isinstance(value, str) and CANARY in value else [value],
    lambda value: {"$tuple": [value]},
)


hidden = st.builds(
    lambda base, wrappers: reduce(lambda value, wrap: wrap(value), wrappers, base),
    st.sampled_from([CANARY, f"x{CANARY}y", {CANARY: 1}, {"$bytes": "Y2FuYXJ5LTdmM2E="}]),
    st.lists(st.sampled_from(WRAPPERS), max_size=6),
)


@given(hidden, st.sampled_from(["redact", "hash", "drop"]))
def test_a_canary_does_not_survive_a_regex(value: Any, do: str) -> None:
    """It may be in texts inside texts, in names, escaped or in base64."""
    found = mask({"regex": re.escape(CANARY), "do": do}).json(json.dumps(value), ("context", "x"))
    assert CANARY not in unfolded(str(found))


def test_unparsable_json_is_masked_as_a_whole_if_a_path_may_match_inside() -> None:
    """JSON lines, a repeated name, unbalanced brackets; a text that no rule may match stays."""
    hiding = mask({"path": "**.email", "do": "redact"})
    deep = "[" * 100_000 + f'{{"email":"{CANARY}"}}' + "]" * 100_000
    lines = f'{{"email":"{CANARY}"}}\n{{"email":"{CANARY}"}}'
    twice = f'{{"email":"{CANARY}","email":null}}'
    for text in (deep, lines, twice, "\ufeff" + f'{{"email":"{CANARY}"}}', f"{{'email': '{CANARY}'}}"):
        assert CANARY not in str(hiding.text(text, ("message", "content"))), text[:40]
    assert hiding.text("[draft] of [1]", ("message", "content")) == "[draft] of [1]"
    elsewhere = mask({"path": "context.email", "do": "redact"})
    assert elsewhere.text(lines, ("message", "content")) == lines


def test_a_name_that_begins_like_a_tag_is_a_name() -> None:
    """In plain JSON topics and in texts; bytes that contain JSON are parsed."""
    by_regex = mask({"regex": CANARY, "do": "redact"})
    assert by_regex.value({f"${CANARY}": "x"}, ("value",)) == {"$***": "x"}
    assert mask({"path": "value.$email", "do": "redact"}).value({"$email": "x"}, ("value",)) == {"$email": "***"}
    raw = b64encode(f'{{"email":"{CANARY}"}}'.encode()).decode()
    assert mask({"path": "**.email", "do": "redact"}).value({"$bytes": raw}, ("value",)) == "***"


def test_numbers_are_matched_in_any_notation() -> None:
    """A card number with an exponent is matched too."""
    card = mask({"regex": r"\d{16}", "do": "redact"})
    assert card.value([4111111111111111, 4111111111111111.0, 4.111111111111111e18], ()) == ["***"] * 3
