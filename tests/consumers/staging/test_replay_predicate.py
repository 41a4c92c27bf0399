"""Predicates in CEL: their variables, and records for which they fail."""

from __future__ import annotations

from typing import Any

import pytest

from seekpoint.consumers.staging.copy.memory_topic import StoredMessage
from seekpoint.consumers.staging.copy.predicate import VARIABLES, Predicate
from seekpoint.schemas import bodies as b
from seekpoint.schemas.bodies.entry import Entry, new_id
from seekpoint.schemas.errors import InvalidSetting

pytest.importorskip("cel_expr_python", reason="predicates need the extra `replay`")

SAID = b.MessageSaid("user", "hello", tool_calls='[{"name":"lookup"}]')
ENTRY = Entry(new_id(), "case-17", 3, 2, new_id(), None, 0, "billing", None, None, SAID)
RECORD = StoredMessage(
    1, 7, b"case-17", b'{"customer":{"tier":"gold"},"n":3}', 1_700_000_000_500, [("tenant", b"acme")]
)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ('kind == "message_said" && body.role == "user"', True),
        ('body.tool_calls[0].name == "lookup"', True),
        ('process_id.startsWith("case-") && seq == 3 && epoch == 2', True),
        ('actor == "ann"', False),
        ('headers["tenant"] == "acme"', True),
        ('"tenant" in headers && key == "case-17"', True),
        ("partition == 1 && offset < 7", False),
        ("size > 10 && timestamp_ms == 1700000000500", True),
        ('timestamp >= timestamp("2023-11-14T22:13:20Z")', True),
        ('value.customer.tier == "gold" && value.n >= 3', True),
        ("has(value.nothing)", False),
    ],
)
def test_a_predicate_can_use_all_parts_of_a_record(expression: str, expected: bool) -> None:
    """Coordinates, time, headers, JSON and the fields of an entry are variables."""
    predicate = Predicate(expression)
    assert predicate.matches(RECORD, ENTRY) is expected
    assert predicate.not_evaluated == 0


@pytest.mark.parametrize(
    "expression", ["nonsense", "kind ==", "", "__import__('os')", "kind + 1 == 2", "size", "'text'", "((((" * 500]
)
def test_an_invalid_predicate_is_refused_at_once(expression: str) -> None:
    """A misspelt variable is refused too, instead of selecting nothing."""
    with pytest.raises(InvalidSetting):
        Predicate(expression)


@pytest.mark.parametrize("expression", ['body.nothing == "x"', "value.a.b == 1", "seq > 1"])
def test_a_record_for_which_a_predicate_fails_is_counted_and_not_selected(expression: str) -> None:
    """The predicate counts such records and keeps the first error."""
    predicate = Predicate(expression)
    external = ENTRY._replace(seq=None, body=b.ContextCleared())
    assert not predicate.matches(StoredMessage(0, 0, b"k", b"no JSON", 0), external)
    assert predicate.not_evaluated == 1
    assert predicate.first_error


def test_a_hostile_pattern_costs_no_time() -> None:
    """CEL's regular expressions take linear time."""
    entry = ENTRY._replace(body=b.MessageSaid("user", "a" * 5_000 + "!"))
    assert not Predicate('body.content.matches("^(a+)+$")').matches(RECORD, entry)


def test_entries_are_decoded_only_if_a_predicate_needs_them() -> None:
    """Only expressions with variables of entries need the entry."""
    assert not Predicate("size > 1").needs_entry
    assert Predicate('kind == "x"').needs_entry
    assert set(VARIABLES) >= {"key", "headers", "value", "body"}


def test_a_missing_library_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the package to install."""
    import builtins

    real = builtins.__import__

    def without(name: str, *rest: Any, **more: Any) -> Any:
        if name == "cel_expr_python":
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(InvalidSetting, match=r"seekpoint\[replay\]"):
        Predicate("true")
