"""States of older folds are read for ever: step by step, by the one registry there is."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from seekpoint.schemas.bodies import Claim, ContextUpdated
from seekpoint.schemas.bodies.entry import Entry
from seekpoint.schemas.errors import JournalMismatch, NewerFormat
from seekpoint.schemas.folding.fold import fold
from seekpoint.schemas.state.migrations import STEPS, converted, step
from seekpoint.schemas.state.process_state import FOLD_VERSION, State, new_state
from seekpoint.schemas.wire.golden import Golden, load_goldens


def state() -> State:
    """A process with one context value."""
    claim = Entry(b"c" * 16, "p", None, 0, None, None, 0, None, None, None, Claim(0, "node", "boot"))
    update = Entry(b"u" * 16, "p", 1, 1, b"c" * 16, None, 0, None, None, None, ContextUpdated("k", "1"))
    return fold(fold(new_state(), 0, claim), 1, update)


def older() -> bytes:
    """The same state as an imagined fold version 0 wrote it: without counters, its lifecycle called otherwise."""
    whole = orjson.loads(state().to_bytes())
    del whole["counters"]
    whole["content"]["phase"] = whole["content"].pop("lifecycle")
    return orjson.dumps({**whole, "fold_version": 0})


def from_zero(whole: dict[str, Any]) -> dict[str, Any]:
    """The step from that version."""
    content = {**whole["content"], "lifecycle": whole["content"]["phase"]}
    del content["phase"]
    counters = orjson.loads(new_state().to_bytes())["counters"]
    return {**whole, "content": content, "counters": counters}


def test_a_state_of_an_older_fold_is_converted(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is the state that this fold would have written."""
    with pytest.raises(JournalMismatch, match="no step leads from fold version 0"):
        State.from_bytes(older())
    monkeypatch.setitem(STEPS, 0, from_zero)
    assert State.from_bytes(older()) == state()
    assert State.from_bytes(older()).hash == state().hash


def test_steps_are_taken_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """From any version to the newest, each once, in order; a state of the newest takes none."""
    taken: list[int] = []
    for version in (0, 1, 2):
        monkeypatch.delitem(STEPS, version, raising=False)
        step(version)(lambda whole, version=version: taken.append(version) or whole)  # type: ignore[misc,func-returns-value]
    try:
        assert converted({"fold_version": 0}, 3) == {"fold_version": 3}
        assert taken == [0, 1, 2]
        assert converted({"fold_version": 2}, 3) == {"fold_version": 3}
        assert converted({"fold_version": 3}, 3) == {"fold_version": 3}
        assert taken == [0, 1, 2, 2]
        with pytest.raises(ValueError, match="there is a step"):
            step(1)(from_zero)
        with pytest.raises(NewerFormat):
            converted({"fold_version": 4}, 3)
    finally:
        for version in (0, 1, 2):
            del STEPS[version]


def test_a_step_that_cannot_be_made_is_a_mismatch(monkeypatch: pytest.MonkeyPatch) -> None:
    """What depends on it takes the next way: the log."""

    def impossible(whole: dict[str, Any]) -> dict[str, Any]:
        raise ValueError("only the entries tell")

    monkeypatch.setitem(STEPS, 0, impossible)
    with pytest.raises(JournalMismatch, match="only the entries tell"):
        State.from_bytes(older())


@pytest.mark.parametrize("version", ["1", None, 1.0, True, [1]])
def test_a_version_that_is_no_number_is_a_mismatch(version: Any) -> None:
    """Bytes that are no state, whatever else is in them."""
    with pytest.raises(JournalMismatch):
        State.from_bytes(orjson.dumps({**orjson.loads(state().to_bytes()), "fold_version": version}))


def test_every_fold_version_there_was_has_its_step() -> None:
    """And none that there was not."""
    assert set(STEPS) == set(range(1, FOLD_VERSION))


@pytest.mark.parametrize("golden", load_goldens(), ids=lambda golden: golden.release)
def test_the_state_of_every_release_is_read(golden: Golden) -> None:
    """By whatever steps lead from it to now; what it becomes is a state like any other."""
    found = State.from_bytes(golden.state.encode())
    assert State.from_bytes(found.to_bytes()) == found
    assert orjson.loads(golden.state)["fold_version"] == golden.fold_version
