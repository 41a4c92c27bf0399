"""The calls of a process, with those that a fork inherits from its parents. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import orjson

from seekpoint.producers.durable.replay.call_records import CallRecord, asked
from seekpoint.schemas import bodies as b
from seekpoint.schemas.errors import JournalGap, UnknownProcess
from seekpoint.schemas.state.calls import call_of

if TYPE_CHECKING:
    from seekpoint.schemas.bodies.entry import Entry

__all__ = ["calls_of"]


def calls_of(read: Callable[[str], Sequence[Entry]], process_id: str) -> list[CallRecord]:
    """Return every call in the order in which they began. ``read`` returns the applied entries of a process.

    An inherited call has the fact ``inherited_from``, the process that began it, and that process's seq. If the log
    has lost a parent's entries, its calls are missing.
    """
    entries, began_in = _whole(read, process_id, None)
    found = asked(entries)
    for call, name in zip(found, began_in, strict=True):
        if name != process_id:
            call.facts["inherited_from"] = name
    _put_answers(found, entries)
    return found


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


def _put_answers(found: Sequence[CallRecord], entries: Sequence[Entry]) -> None:
    """Show the answers that a fork was given instead of its parent's."""
    for entry in entries:
        if isinstance(entry.body, b.Forked) and entry.body.answers is not None:
            rows = orjson.loads(entry.body.content)["calls"]
            for call in found:
                if call.key in orjson.loads(entry.body.answers) and call.key in rows and "inherited_from" in call.facts:
                    call.status, call.facts["answered_by"] = "succeeded", entry.process_id
                    call.output = orjson.loads(call_of(rows[call.key]).output or "null")
