"""Folds of users: what they see, what is kept of them, and when their value is not handed out."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from entry_examples import claim, own
from seekpoint.schemas import bodies as b
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.errors import FoldUnavailable, InvalidSetting
from seekpoint.schemas.folding.fold import fold as apply
from seekpoint.schemas.folds import FOLD_BYTES_MAX, FOLDS_MAX, UserFold, fold, import_folds, only, registered
from seekpoint.schemas.state.process_state import State, new_state


def spent(value: int, kind: str, payload: Any) -> int:
    """Adds what was paid."""
    return value + payload if kind == "paid" else value


def of(name: str, version: int = 1, function: Callable[[Any, str, Any], Any] = spent, initial: str = "0") -> UserFold:
    return UserFold(name, version, initial, function)


@pytest.fixture(autouse=True)
def no_folds() -> Iterator[None]:
    """Each test registers its own."""
    with only():
        yield


def after(*payloads: int, start: State | None = None, kind: str = "paid") -> State:
    """A process whose owner wrote these custom entries."""
    state = start or apply(new_state(), 0, claim(1))
    for payload in payloads:
        state = apply(state, state.offset + 1, own(state.seq + 1, b.Custom(kind, str(payload))))
    return state


def test_a_fold_sees_the_custom_entries_in_order() -> None:
    """Kind and payload, decoded; nothing else advances it."""

    @fold("trail", initial=[])
    def trail(value: list[Any], kind: str, payload: Any) -> list[Any]:
        return [*value, [kind, payload]]

    state = after(3, 4)
    state = apply(state, 9, own(state.seq + 1, b.ContextUpdated("a", "1")))
    assert state.folded("trail") == [["paid", 3], ["paid", 4]]
    assert after(start=None).folded("trail") == []


def test_a_value_that_is_handed_out_changes_nothing() -> None:
    """It is a copy."""
    with only(of("seen", function=lambda value, kind, payload: [*value, payload], initial="[]")):
        state = after(1)
        state.folded("seen").append("more")
        assert state.folded("seen") == [1]
        with pytest.raises(TypeError):
            state.folds["x"] = None  # type: ignore[index]


def test_folds_are_in_neither_hash_and_in_the_bytes() -> None:
    """Readers with and without a fold agree on what a process is; a state carries its results wherever it goes."""
    without = after(3, 4)
    with only(of("spent")):
        state = after(3, 4)
        back = State.from_bytes(state.to_bytes())
        assert (state.hash, state.content_hash) == (without.hash, without.content_hash)
        assert (back, back.folded("spent")) == (state, 7)


def test_a_state_without_custom_entries_is_written_as_ever() -> None:
    """Folds cost a process that has no use for them nothing."""
    plain = apply(new_state(), 0, claim(1)).to_bytes()
    with only(of("spent")):
        assert apply(new_state(), 0, claim(1)).to_bytes() == plain


def test_a_reader_without_the_fold_keeps_what_there_is_and_never_makes_it_look_current() -> None:
    """It goes on counting custom entries; whoever has the fold sees that its result is behind."""
    with only(of("spent")):
        state = after(3)
    state = after(4, start=state)
    assert state.folds["spent"].value_json == "3"
    with only(of("spent")), pytest.raises(FoldUnavailable, match="seen 1 of 2") as caught:
        state.folded("spent")
    assert caught.value.fold == "spent"
    with only(of("spent")), pytest.raises(FoldUnavailable):
        after(5, start=state).folded("spent")  # behind once is behind for ever: never a sum with a hole


def test_a_fold_that_came_later_has_no_value() -> None:
    """It has not seen what was written before it was there."""
    state = after(3)
    with only(of("spent")), pytest.raises(FoldUnavailable, match="not folded along"):
        after(4, start=state).folded("spent")


def test_another_version_is_not_the_fold() -> None:
    """Neither an older nor a newer result is taken for this one, and neither is written over."""
    with only(of("spent", 2)):
        state = after(3)
    for version in (1, 3):
        with only(of("spent", version)):
            with pytest.raises(FoldUnavailable, match="version 2"):
                state.folded("spent")
            assert after(4, start=state).folds["spent"] == state.folds["spent"]


def test_a_name_that_is_not_registered_is_said() -> None:
    """A typing error is not an initial value."""
    with pytest.raises(FoldUnavailable, match="no fold of this name"):
        after(3).folded("spend")


def test_a_finished_process_has_its_result_alone() -> None:
    """The gravestone stays small, and the fold of nothing is not handed out for it."""
    with only(of("spent")):
        state = after(3)
        state = apply(state, 9, own(state.seq + 1, b.Finished("1")))
        assert (state.folds, state.customs) == ({}, 0)
        with pytest.raises(FoldUnavailable, match="finished"):
            state.folded("spent")


def failing(value: int, kind: str, payload: Any) -> int:
    """Cannot bear a four."""
    if payload == 4:
        raise KeyError(object())
    return value + int(payload)


def too_long(value: str, kind: str, payload: Any) -> str:
    return "x" * FOLD_BYTES_MAX


def no_json(value: Any, kind: str, payload: Any) -> Any:
    return object()


@pytest.mark.parametrize("function", [failing, too_long, no_json])
def test_a_function_that_fails_fails_alone_and_alike_for_every_reader(function: Callable[..., Any]) -> None:
    """The entry counts, other folds go on; the value is not handed out, and says since which entry."""
    with only(of("odd", 1, function), of("spent")):
        state = after(4, 5)
        assert (state.seq, state.folded("spent")) == (2, 9)
        assert state == after(4, 5)
        with pytest.raises(FoldUnavailable, match="failed") as caught:
            State.from_bytes(state.to_bytes()).folded("odd")
        assert (caught.value.seq, state.folds["odd"].customs) == (1, 2)


def test_a_rewind_takes_no_custom_entry_back() -> None:
    """The history stays, and so does what is made of it."""
    with only(of("spent")):
        state = after(3)
        content = state.content_json()
        state = after(4, start=state)
        state = apply(state, 9, own(state.seq + 1, b.Rewound(1, content)))
        assert state.folded("spent") == 7


# --- registering ------------------------------------------------------------------------------------------------------
def test_two_functions_of_one_name_are_refused() -> None:
    """Silently the last one would win; the same one, loaded again, is fine."""
    fold("spent", initial=0)(spent)
    fold("spent", initial=0, version=2)(spent)
    assert registered()["spent"].version == 2
    with pytest.raises(InvalidSetting, match="two folds"):
        fold("spent")(failing)


@pytest.mark.parametrize("given", [{"name": ""}, {"name": "a", "version": 0}, {"name": "a", "version": True}])
def test_a_fold_without_a_name_or_a_version_is_refused(given: dict[str, Any]) -> None:
    """Before anything is folded."""
    with pytest.raises(InvalidSetting):
        fold(**given)


def test_a_value_that_is_too_long_and_a_fold_too_many_are_refused() -> None:
    """What a checkpoint has to hold is bounded."""
    with pytest.raises(InvalidSetting):
        fold("long", initial="x" * FOLD_BYTES_MAX)
    for number in range(FOLDS_MAX):
        fold(f"fold-{number}")(spent)
    with pytest.raises(InvalidSetting, match="no more than"):
        fold("one more")(spent)


def test_modules_are_named_by_the_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As keywords, in the environment, in a file; what cannot be imported is said with the reason."""
    (tmp_path / "my_folds.py").write_text(
        "from seekpoint.schemas.folds import fold\n@fold('count', initial=0)\ndef count(v, k, p):\n    return v + 1\n"
    )
    (tmp_path / "no_folds.py").write_text("1 / 0\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(sys.modules, "my_folds", None)
    monkeypatch.delitem(sys.modules, "my_folds")
    settings = Settings.load(environ={"SEEKPOINT_FOLDS": "my_folds, "})
    assert settings.folds == ("my_folds",)
    import_folds(settings.folds)
    assert after(1, 2).folded("count") == 2
    for name, why in (("no_folds", "ZeroDivisionError"), ("nowhere_at_all", "ModuleNotFoundError")):
        with pytest.raises(InvalidSetting, match=why):
            import_folds((name,))
    with pytest.raises(InvalidSetting):
        Settings(folds=("not a module",))
    (tmp_path / "seekpoint.toml").write_text('folds = ["my_folds"]\n')
    assert Settings.load(tmp_path / "seekpoint.toml", environ={}).folds == ("my_folds",)
