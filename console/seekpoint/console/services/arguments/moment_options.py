"""The options that name a moment of a process's past, and other answers to its calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from seekpoint.console.services.calls.send_and_confirm import parse_json

if TYPE_CHECKING:
    from seekpoint.producers.history.history_points import HistoryPoint


def moment_of(**given: int | str | None) -> HistoryPoint | None:
    """Return the moment that one of the options names: seq, time, before, after or turn, each after ``to_`` or not.

    None if no option is given. Raises ``BadParameter`` for two of them.
    """
    from seekpoint.console.services.arguments.time_option import parse_time
    from seekpoint.producers.history.history_points import HistoryPoint

    chosen = [(name, value) for name, value in given.items() if value is not None]
    options = [f"--{name.replace('_', '-')}" for name in given]
    if len(chosen) > 1:
        raise typer.BadParameter(f"give one of {', '.join(options)}", param_hint=options[0])
    for name, value in chosen:
        if name.endswith("time"):
            return HistoryPoint.time(parse_time(str(value), f"--{name.replace('_', '-')}"))
        return HistoryPoint(name.rpartition("_")[2], value)
    return None


def answer_of(text: str) -> tuple[str, Any]:
    """Return key and answer of ``KEY=JSON``. Raises ``BadParameter``."""
    key, equals, value = text.partition("=")
    if not (key and equals):
        raise typer.BadParameter("an answer is KEY=JSON, such as approve:1='\"denied\"'", param_hint="--answer")
    return key, parse_json(value, "--answer")
