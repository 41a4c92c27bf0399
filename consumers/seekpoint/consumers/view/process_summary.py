"""The summary of a process: what a list shows and filters by, without the content. A view stores one beside each state.

A summary is a function of the state alone. In the view it is one JSON object without the fields at their defaults, and
the write that changes a state replaces its summary. A CRC-32 before it detects damage.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple
from zlib import crc32

import msgspec
from msgspec.structs import force_setattr

from seekpoint.schemas.bodies import Deleted
from seekpoint.schemas.errors import JournalMismatch
from seekpoint.schemas.folding.fold import SHARED_PREFIX
from seekpoint.schemas.frozen_struct import FrozenStruct, built
from seekpoint.schemas.state.calls import UNDO, Call
from seekpoint.schemas.state.lifecycle import Lifecycle
from seekpoint.schemas.state.process_state import State

_ERROR_CHARS_MAX = 200


class Summary(FrozenStruct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """One process in a list, as of its view, without its content."""

    process_id: str = ""
    partition: int = 0
    lifecycle: Lifecycle
    epoch: int = 0
    owner: bytes | None = None
    """The claim of the owner; None: the process has no owner."""
    owner_node: str | None = None
    seq: int = 0
    offset: int
    """Of the newest folded entry."""
    last_kind: str | None = None
    last_call: str | None = None
    """The key of the newest call that began or ended; None: there is none, or only the gravestone is left."""
    last_call_kind: str | None = None
    """Its kind; None: its turn has ended."""
    finished: bool = False
    degraded: str | None = None
    """The reason of ``Degraded``; None: the process is not degraded."""
    messages: int = 0
    """The number of messages in its conversation."""
    values: int = 0
    """The number of values in its context."""
    mailbox: int = 0
    """The number of external entries that wait for the owner."""
    agent: str | None = None
    """The agent that runs as the process, or that was submitted."""
    version: str | None = None
    """The version of the agent that began; None: none has begun."""
    definition: str | None = None
    on_hold: bool = False
    """Somebody suspended the process, and nobody resumed it since."""
    waits_for: tuple[str, ...] = ()
    """What it waits for: ``timer``, ``gate``, ``child``; ``start`` of a submission and ``retry`` of a failed run at
    their time; ``effect`` that a dispatcher or a person settles; ``signal`` of a process that awaits nothing else."""
    awaits: tuple[str, ...] = ()
    """The same with their names: the kind and the key of each call, the signal that the code receives."""
    until_us: int | None = None
    """The earliest moment among these, in microseconds since 1970; None: none of them has one."""
    since_us: int | None = None
    """When the oldest of these waits began, by its writer's clock, in microseconds since 1970; None: it waits for
    nothing, or the journal does not say."""
    in_doubt: int = 0
    """The number of calls whose body may or may not have run: steps, decisions and effects."""
    unsettled: int = 0
    """The number of effects that are in doubt, or that a person has to settle."""
    owed: int = 0
    """The number of compensations that are owed if the process is cancelled or fails."""
    error: str | None = None
    """Type and message of the newest exception that left the process's code, cut to 200 characters."""
    spent: Mapping[str, str] | None = None
    """What it used, by dimension, as decimal texts; None: it has no budget and recorded nothing."""
    parent_id: str | None = None
    """The process that it was forked from; None: it is no fork."""
    parent_seq: int | None = None
    rerun_of: str | None = None
    """The process that it runs again; None: it is no rerun."""
    spawned_by: str | None = None
    """The process that spawned it as a child; None: it is no child."""
    started_us: int = 0
    updated_us: int = 0

    @property
    def is_shared(self) -> bool:
        """Return whether it is a shared value, which nobody runs."""
        return self.process_id.startswith(SHARED_PREFIX)

    @property
    def is_deleted(self) -> bool:
        """Return whether it was deleted and nothing was written to it since."""
        return self.last_kind == Deleted.KIND and not self.degraded

    @property
    def is_listed(self) -> bool:
        """Return whether lists have it: an entry of it was admitted, and it was not deleted since."""
        return (self.epoch > 0 or self.last_kind is not None) and not self.is_deleted

    @property
    def status(self) -> str:
        """Return ``degraded``, ``finished``, ``deleted`` or the lifecycle, as lists show it."""
        if self.is_deleted:
            return "deleted"
        return "degraded" if self.degraded else "finished" if self.finished else str(self.lifecycle)


def summary_of(partition: int, key: bytes, state: State) -> Summary:
    """Return the summary of ``state``. Its cost does not depend on the size of the state."""
    agent, submission, failure, budget = state.agent, state.submission, state.failure, state.budget
    unsettled, (values, messages, _, mailbox) = state.unsettled_calls, state.counts
    calls: Collection[Call] = unsettled.values() if unsettled else ()
    may_wait = unsettled or submission is not None or state.lifecycle is _AWAITING or state.lifecycle is _FAILED
    waits = waits_of(state) if may_wait else ()
    begun = [wait.since_us for wait in waits if type(wait.since_us) is int and wait.since_us > 0]
    return Summary(
        process_id=key.decode(),
        partition=partition,
        lifecycle=state.lifecycle,
        epoch=state.epoch,
        owner=state.owner,
        owner_node=state.owner_node,
        seq=state.seq,
        offset=state.offset,
        last_kind=state.last_kind,
        last_call=state.last_call,
        last_call_kind=state.last_call_kind,
        finished=state.finished,
        degraded=None if state.degraded is None else state.degraded.reason,
        messages=messages,
        values=values,
        mailbox=mailbox,
        agent=agent.name if agent is not None else submission.agent if submission is not None else None,
        version=None if agent is None else agent.version,
        definition=None if agent is None else agent.definition,
        on_hold=state.is_on_hold,
        waits_for=tuple(sorted({wait.kind for wait in waits})),
        awaits=tuple([wait.text for wait in waits[:_NAMED_MAX]]),
        until_us=min([wait.until_us for wait in waits if type(wait.until_us) is int], default=None),
        since_us=min(begun, default=None),
        in_doubt=sum([call.kind not in _MOMENTS and call.status != "stuck" for call in calls]) if calls else 0,
        unsettled=sum([call.kind == "effect" for call in calls]) if calls else 0,
        owed=len(state.owed),
        error=None if failure is None else f"{failure.type}: {failure.message}"[:_ERROR_CHARS_MAX],
        spent=None if budget is None else budget.spent_texts(),
        parent_id=state.lineage.parent_id,
        parent_seq=state.lineage.parent_seq,
        rerun_of=state.lineage.rerun_of,
        spawned_by=state.lineage.spawned_by,
        started_us=state.started_us,
        updated_us=state.updated_us,
    )


def is_open_process(key: bytes, state: State) -> bool:
    """Return whether the index of open processes has the process: it exists, has not finished, is no shared value."""
    return not state.finished and not state.is_deleted and not key.startswith(_SHARED)


_SHARED = SHARED_PREFIX.encode()
_MOMENTS = {"timer": "fires_at_us", "gate": "deadline_us", "child": ""}
"""By the kind of a call that only waits: the fact that has its moment."""
_FAILED, _AWAITING, _STOPPED = Lifecycle.FAILED, Lifecycle.AWAITING, Lifecycle.STOPPED
_NAMED_MAX = 8
"""How many waits a summary names."""


class Wait(NamedTuple):
    """One thing that a process waits for."""

    kind: str
    name: str
    """The key of a call; of anything else its text."""
    until_us: Any = None
    since_us: Any = None

    @property
    def text(self) -> str:
        """Return the kind and the name."""
        return self.name if self.kind in _NAMELESS else f"{self.kind} {self.name[:_ERROR_CHARS_MAX]}"


_NAMELESS = frozenset({"signal", "start", "retry"})


def _began(item: tuple[str, Call]) -> tuple[int, str]:
    """Return where a call is in the order of the journal."""
    return item[1].seq, item[0]


def waits_of(state: State) -> list[Wait]:
    """Return what a process waits for, in the journal's order, with names, moments and since when, as the journal says.

    A process that has ended waits for nothing, whatever its code left open, but a failed one that is tried again.
    """
    submission, failures, lifecycle = state.submission, state.run_failures, state.lifecycle
    if state.finished or lifecycle is _STOPPED:
        return []
    if lifecycle is _FAILED:
        due_us = None if failures is None or state.redrive is not None else failures.retry_at_us
        return [] if due_us is None else [Wait("retry", "retry", due_us, state.lifecycle_us)]
    if submission is not None and state.agent is None:
        due_us = submission.start_at_us
        return [] if due_us is None else [Wait("start", "start", due_us, state.started_us)]
    waits: list[Wait] = []
    in_doubt = lifecycle is _AWAITING and state.ended_in_doubt
    for key, call in sorted(state.unsettled_calls.items(), key=_began):  # equal states may have them in other orders
        if state.cancelled is not None and not key.startswith(UNDO):
            continue  # only its compensations still run
        if call.kind in _MOMENTS and not in_doubt:
            facts = call.facts
            waits.append(Wait(call.kind, key, facts.get(_MOMENTS[call.kind]), facts.get("since_us")))
        elif call.kind == "effect" and lifecycle is _AWAITING:
            waits.append(Wait("effect", key, None, state.lifecycle_us))
    if not waits and lifecycle is _AWAITING:
        waits.append(Wait("signal", state.awaits or "signal", None, state.lifecycle_us))
    return waits


# --- in the view ------------------------------------------------------------------------------------------------------
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(built(Summary)).decode


def summary_row(key: bytes, state: State) -> bytes:
    """Return the summary as a view stores it under ``key``: a CRC-32 in eight digits, then JSON without the key."""
    row = _encode(summary_of(0, b"", state))
    return b"%08x" % crc32(row, crc32(key)) + row


def summary_in(partition: int, key: bytes, row: bytes | None) -> Summary:
    """Return the summary in a row of ``summary_row``. Raises ``JournalMismatch`` if it was changed or is none."""
    check, text = (row or b"")[:8], (row or b"")[8:]
    if check != b"%08x" % crc32(text, crc32(key)):
        raise JournalMismatch("a summary in the view does not have its hash: it was changed", found=text[:80])
    try:
        found = _decode(text)
        force_setattr(found, "process_id", key.decode())
    except (msgspec.DecodeError, ValueError) as exc:
        raise JournalMismatch("a summary in the view is not valid", cause=repr(exc)[:200]) from exc
    force_setattr(found, "partition", partition)
    return found
