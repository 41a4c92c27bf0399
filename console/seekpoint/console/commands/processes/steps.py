"""``seekpoint steps``: list the calls of an agent's code, read from the journal."""

from __future__ import annotations

import sys
from textwrap import indent
from typing import TYPE_CHECKING, Annotated, Any

import typer

from seekpoint.console.render.call_errors import call_note, error_text
from seekpoint.console.render.output import clean, emit, emit_json, is_abandoned, pasted, say
from seekpoint.console.render.tables import Column, emit_table
from seekpoint.console.services.arguments.options import AsJson, ProcessId, Wide
from seekpoint.console.services.arguments.target import CommandTarget
from seekpoint.console.services.histories.process_scan import entries_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from seekpoint.console.services.histories.live_calls import LiveCalls
    from seekpoint.producers.durable.replay.call_records import CallRecord

_COLUMNS = (
    Column("call"),
    Column("kind"),
    Column("status"),
    Column("attempts", right=True),
    Column("took", right=True),
    Column("usd", right=True, wide=True),
    Column("input", cut=True),
    Column("output", cut=True),
)
_USD = 5
_WITH_COSTS = (*_COLUMNS[:_USD], Column("usd", right=True), *_COLUMNS[_USD + 1 :])
_SHOWN_CHARACTERS_MAX = 60


def steps(
    target: CommandTarget,
    process_id: ProcessId,
    key: Annotated[
        str | None,
        typer.Argument(metavar="[CALL]", help="Show this call only, with its whole request and answer."),
    ] = None,
    live: Annotated[bool, typer.Option("--live", help="Follow the calls as a tree until the run is over.")] = False,
    wide: Wide = False,
    json: AsJson = False,
) -> None:
    """Show every call of a process's code, and what it cost.

    Each row has input, output, attempts and time. Calls of earlier turns are included, those that a fork inherits,
    and those of a fork that was promoted.
    """
    if live:
        if key is not None:
            raise typer.BadParameter("--live follows all calls of a process", param_hint="CALL")
        _follow(target, process_id, as_json=json)
        return
    from seekpoint.producers.history.inherited_calls import calls_of

    found = calls_of(lambda name: entries_of(target, name), process_id, target.log.limits)
    if key is not None:
        found = _with_key(process_id, found, key)
    if json:
        emit_json({"process_id": process_id, "calls": [one.to_dict() for one in found]})
    elif key is not None:
        for one in found:
            _emit_whole(one)
    elif found:
        rows = [_row(one, None if wide else _SHOWN_CHARACTERS_MAX) for one in found]
        emit_table(_WITH_COSTS if any(row[_USD] != "-" for row in rows) else _COLUMNS, rows, wide=wide)
    else:
        say(f"{process_id}: its code has made no calls")


def _follow(target: CommandTarget, process_id: str, *, as_json: bool) -> None:
    """Show a tree on a terminal; else a line, or an object, for each call whenever it went on."""
    from seekpoint.console.render.call_tree import call_line, changed_calls, state_line
    from seekpoint.console.services.histories.live_calls import live_calls

    rounds = live_calls(target, process_id)
    if sys.stdout.isatty() and not as_json:
        _show_tree(process_id, rounds)
        return
    before: dict[int, Any] = {}
    last: LiveCalls | None = None
    for found in rounds:
        if found is None:
            if is_abandoned(sys.stdout):
                raise BrokenPipeError
            continue
        for call in changed_calls(before, found.calls):
            if as_json:
                emit_json(call.to_dict(), line=True)
            else:
                emit(call_line(call))
        last = found
        sys.stdout.flush()
    if last is not None and not as_json:
        emit(state_line(process_id, last.state))


def _show_tree(process_id: str, rounds: Iterator[LiveCalls | None]) -> None:
    from rich.console import Console
    from rich.live import Live

    from seekpoint.console.render.call_tree import call_tree

    console = Console(markup=False, highlight=False)
    with Live(console=console, auto_refresh=False, vertical_overflow="ellipsis") as live:
        for found in rounds:
            if found is not None:
                live.update(call_tree(process_id, found, max(5, console.height - 4)), refresh=True)


def _with_key(process_id: str, found: Sequence[CallRecord], key: str) -> list[CallRecord]:
    """Return the calls with this key: several if the process went back and made it again. Raise ``Refused``."""
    from seekpoint.schemas.errors import Refused
    from seekpoint.schemas.values.near_names import did_you_mean

    if chosen := [one for one in found if one.key == key]:
        return chosen
    raise Refused(
        "the process's code has made no such call", process_id=process_id, key=key,
        hint=did_you_mean(key, [one.key for one in found], f"seekpoint steps {pasted(process_id)} lists its calls"),
    )  # fmt: skip


def _emit_whole(call: CallRecord) -> None:
    import orjson

    facts = call.to_dict()
    head = {
        "call": call.key, "kind": call.kind, "status": _status(call), "attempts": len(call.attempts),
        "took": _span(facts["duration_us"]), "usd": facts["cost_usd"], "usage": facts["usage"], **call.facts,
    }  # fmt: skip
    for name, value in head.items():
        if value is not None:
            text = value if isinstance(value, str) else orjson.dumps(value).decode()
            emit(f"{name.replace('_', ' '):<16}{clean(text)}")
    for name in ("input", "output", "error"):
        if facts[name] is not None:
            emit(name)
            emit(indent(orjson.dumps(facts[name], option=orjson.OPT_INDENT_2).decode(), "  "))


def _row(call: CallRecord, room: int | None) -> list[object]:
    """Return the row of a call, with at most ``room`` characters of its input and of its output."""
    facts = call.to_dict()
    cost, has_failed = facts["cost_usd"], call.status == "failed" and facts["error"]
    return [
        call.key,
        call.kind,
        _status(call),
        len(call.attempts),
        _span(facts["duration_us"]),
        "-" if cost is None else cost,
        _asked(call, room),
        _cut(error_text(facts["error"]) if has_failed else _shown(facts["output"]), room),
    ]


def _asked(call: CallRecord, room: int | None) -> str:
    """Return the request of a call, and what it was asked before a redrive mended that."""
    before = "".join(f"; before: {_cut(_shown(one), room)}" for one in call.facts.get("asked_before", ()))
    return f"{_cut(_shown(call.input), room)}{before}"


def _status(call: CallRecord) -> str:
    note = call_note(call)
    return call.status if note is None else f"{call.status}, {note}"


def _span(duration_us: int | None) -> str:
    return "-" if duration_us is None else f"{duration_us / 1000:,.1f} ms"


def _shown(value: Any) -> str:
    import orjson

    return orjson.dumps(value).decode()


def _cut(text: str, room: int | None) -> str:
    return text if room is None or len(text) <= room else f"{text[:room]}…"
