"""Masks of values: what a path means, what a regex reaches, and that structure stays."""

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
def test_a_path_means_what_it_says(path: str, names: tuple[str, ...], expected: bool) -> None:
    """A star is one name, two are any number, none included."""
    assert Path.parse(path).matches(names) is expected


@pytest.mark.parametrize("path", ["", ".", "a.", ".a", "a..b", 'a"b', '"a', '"a"b'])
def test_a_path_that_is_none_is_refused(path: str) -> None:
    """Instead of never matching."""
    with pytest.raises(InvalidSetting):
        Path.parse(path)


def test_a_path_of_many_stars_costs_no_time() -> None:
    """It is matched row by row, not by trying."""
    assert not Path.parse(".".join(["**"] * 30 + ["x"])).matches(("a",) * 300)


def test_a_redacted_container_keeps_its_structure() -> None:
    """Texts are texts, numbers numbers, lists as long; null stays null."""
    tree = {"a": ["x", 1, 2.5, True, None], "b": {"c": "y"}}
    assert mask({"path": "context", "do": "redact"}).value(tree, ("context",)) == {
        "a": ["***", 0, 0, False, None],
        "b": {"c": "***"},
    }


def test_pseudonyms_are_stable_and_keyed() -> None:
    """The same value has the same one everywhere, so joins hold; another key gives another."""
    hashing = mask({"path": "**", "do": "hash"})
    assert hashing.value({"a": "ann", "b": ["ann", "bob"]}, ("context",))["a"] == hashing.text("ann", ("message",))
    assert hashing.text("ann", ("x",)) != hashing.text("bob", ("x",))
    assert Mask(rules({"path": "**", "do": "hash"}).rules, KEY + b"!").text("ann", ("x",)) != hashing.text(
        "ann", ("x",)
    )
    number = hashing.value(42, ("x",))
    assert type(number) is int
    assert number not in (0, 42)


def test_a_regex_replaces_what_it_matches_and_no_more() -> None:
    """In values, in names of members, in numbers."""
    phone = mask({"regex": r"\d{4,}", "do": "redact"})
    assert phone.value({"call 5550": ["at 5551 or 12", 123456, 12]}, ("context",)) == {
        "call ***": ["at *** or 12", "***", 12]
    }


def test_json_in_texts_is_opened() -> None:
    """However deep, however its characters are spelt; and written as JSON again."""
    inner = json.dumps({"email": "ann@x.org", "note": json.dumps([{"deep": "ann@x.org"}])}).replace("@", "\\u0040")
    found = mask({"regex": r"\S+@\S+\.org", "do": "redact"}).text(inner, ("message", "tool_calls"))
    assert json.loads(found)["email"] == "***"
    assert json.loads(json.loads(found)["note"]) == [{"deep": "***"}]
    by_path = mask({"path": "**.email", "do": "drop"}).text(inner, ("message", "content"))
    assert "email" not in json.loads(by_path)


def test_tagged_values_stay_values() -> None:
    """A Decimal, bytes, a set: masked as a whole or within, and still loadable."""
    value = {"paid": 5, "raw": b"the secret-1 bytes", "when": (1, "secret-3")}
    text = str(mask({"regex": r"secret-\d", "do": "redact"}).json(dump(value), ("context",)))
    found = load(text)
    assert "secret" not in repr(found)
    assert found["paid"] == 5
    assert found["raw"] == "***"
    assert found["when"] == (1, "***")


def test_a_set_in_which_two_became_one_is_redacted_as_a_whole() -> None:
    """It would be no dynamic value any more."""
    masks = EntryMasks(rules({"regex": r"secret-\d", "do": "redact"}))
    found = masks.entry(entry(b.ContextUpdated("all", dump({"secret-1", "secret-2"})))).body
    assert isinstance(found, b.ContextUpdated)
    check(found.value)
    assert "secret" not in found.value


def test_drop_takes_members_and_items_out() -> None:
    """The rest stays where it was."""
    dropping = mask({"path": "**.ssn", "do": "drop"})
    assert dropping.value({"people": [{"ssn": "1", "n": 1}], "ssn": 2}, ()) == {"people": [{"n": 1}]}
    assert mask({"regex": "bad", "do": "drop"}).value(["bad", "good"], ()) == ["good"]
    assert dropping.value("x", ("a", "ssn")) is DROPPED


def test_bottomless_nesting_does_not_pass() -> None:
    """It is an error, which a policy turns into a stop or a drop."""
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
    """Wherever it is put: in texts in texts, in names, escaped, in base64."""
    found = mask({"regex": re.escape(CANARY), "do": do}).json(json.dumps(value), ("context", "x"))
    assert CANARY not in unfolded(str(found))


def test_what_a_mask_cannot_open_goes_as_a_whole_where_a_path_is_for_something_in_it() -> None:
    """JSON lines, a name that stands twice, brackets without end; text that no rule is for stays."""
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
    """Of a topic that is no journal, or in a text; and bytes that are JSON are looked into."""
    by_regex = mask({"regex": CANARY, "do": "redact"})
    assert by_regex.value({f"${CANARY}": "x"}, ("value",)) == {"$***": "x"}
    assert mask({"path": "value.$email", "do": "redact"}).value({"$email": "x"}, ("value",)) == {"$email": "***"}
    raw = b64encode(f'{{"email":"{CANARY}"}}'.encode()).decode()
    assert mask({"path": "**.email", "do": "redact"}).value({"$bytes": raw}, ("value",)) == "***"


def test_numbers_are_matched_however_they_are_written() -> None:
    """A card's number is one with an exponent too."""
    card = mask({"regex": r"\d{16}", "do": "redact"})
    assert card.value([4111111111111111, 4111111111111111.0, 4.111111111111111e18], ()) == ["***"] * 3
