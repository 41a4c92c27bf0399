"""The calls of a process, with those that a fork inherits from its parents. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import orjson

from seekpoint.producers.durable.replay.call_records import CallRecord, CallTable, asked
from seekpoint.schemas import bodies as b
from seekpoint.schemas.errors import JournalGap, UnknownProcess
from seekpoint.schemas.state.calls import call_of

if TYPE_CHECKING:
    from seekpoint.schemas.bodies.entry import Entry

__all__ = ["calls_of"]


def calls_of(read: Callable[[str], Sequence[Entry]], process_id: str) -> list[CallRecord]:
    """Return every call in the order in which they began. ``read`` returns the applied entries of a process.

    An inherited call has the fact ``inherited_from``, the process that began it, and that process's seq. A call that
    was given another answer has the fact ``answered_by``: the process with that answer, or the fork that was promoted.
    If the log has lost a parent's entries, its calls are missing.
    """
    entries, began_in = _whole(read, process_id, None)
    table = CallTable()
    for entry in entries:
        table.take(entry)
        _put_answers(table.found, entry)
    for call, name in zip(table.found, began_in, strict=True):
        if name != process_id:
            call.facts["inherited_from"] = name
    return table.found


def _whole(
    read: Callable[[str], Sequence[Entry]], process_id: str, stop_seq: int | None
) -> tuple[list[Entry], list[str]]:
    """Return the entries of the process up to a seq, behind those of its parents; and for each call who began it."""
    own = [one for one in read(process_id) if stop_seq is None or one.seq is None or one.seq <= stop_seq]
    forked = next((one.body for one in own if isinstance(one.body, b.Forked)), None)
    before: list[Entry] = []
    began_in: list[str] = []
    if forked is not None:
        with suppress(JournalGap, UnknownProcess):
            before, began_in = _whole(read, forked.parent_id, forked.parent_seq)
    entries = [*before, *own]
    return entries, began_in + [process_id] * (len(asked(entries)) - len(began_in))


def _put_answers(found: Sequence[CallRecord], entry: Entry) -> None:
    """Show the answers that a rewind, a fork or a promotion gave to calls that had begun before."""
    body = entry.body
    if isinstance(body, b.Promoted):
        rows, answers, by = body.content, None, body.fork_id
    elif isinstance(body, b.Forked | b.Rewound) and body.answers is not None:
        rows, answers, by = body.content, set(orjson.loads(body.answers)), entry.process_id
    else:
        return
    told = orjson.loads(rows).get("calls", {})
    for call in {call.key: call for call in found if call.key in told}.values():
        output = orjson.loads(call_of(told[call.key]).output or "null")
        is_answered = call.kind in _ANSWERED and call.output != output if answers is None else call.key in answers
        if is_answered:
            call.status, call.output, call.facts["answered_by"] = "succeeded", output, by


_ANSWERED = ("decision", "sample", "step")
"""The kinds of calls whose output in a state is their whole answer, and to which a fork may give another one."""
