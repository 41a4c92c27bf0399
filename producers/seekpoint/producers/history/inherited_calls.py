"""The calls of a process, with those that it inherits from its parents and those of promoted forks. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

import orjson

from seekpoint.producers.durable.replay.call_records import CallRecord, CallTable
from seekpoint.producers.durable.replay.recorded_run import Admission
from seekpoint.producers.history.content_parts import calls_in
from seekpoint.schemas import bodies as b
from seekpoint.schemas.config.limits import DEFAULT_LIMITS, Limits
from seekpoint.schemas.errors import JournalGap, UnknownProcess
from seekpoint.schemas.state.calls import call_of

if TYPE_CHECKING:
    from seekpoint.schemas.bodies.entry import Entry


class _Told(NamedTuple):
    """An entry that tells something about the calls of a process."""

    entry: Entry
    began_in: str
    """The process that wrote it."""
    fact: str = "inherited_from"
    """How a call that begins with it is marked, if another process wrote it."""


def calls_of(
    read: Callable[[str], Sequence[Entry]], process_id: str, limits: Limits = DEFAULT_LIMITS
) -> list[CallRecord]:
    """Return every call in the order in which they began. ``read`` returns the applied entries of a process.

    An inherited call has the fact ``inherited_from``, the process that began it, and that process's seq; a call that a
    promoted fork made has the fact ``promoted_from`` instead. A call that was given another answer has the fact
    ``answered_by``: the process with that answer, or the fork that was promoted. If the log has lost a parent's
    entries, or a fork's, its calls are missing.
    """
    own = read(process_id)
    taken = _promotions_of_calls(own, limits)
    growing = GrowingCalls(read, process_id, limits)
    for entry in own:
        growing.take(entry, takes_calls=entry.id in taken)
    return growing.found


class GrowingCalls:
    """The calls of a process, which grow with each of its entries, as ``calls_of`` returns them."""

    def __init__(self, read: Callable[[str], Sequence[Entry]], process_id: str, limits: Limits) -> None:
        self._table = CallTable()
        self._read = read
        self._process_id = process_id
        self._limits = limits

    @property
    def found(self) -> list[CallRecord]:
        """Return the calls so far, in the order in which they began. The list grows."""
        return self._table.found

    def take(self, entry: Entry, *, takes_calls: bool = False) -> CallRecord | None:
        """Read the next applied entry of the process, and return the call that it is about; None: about none.

        At the entry of a fork it reads the parent's entries, and at a promotion that ``takes_calls`` those of the fork.
        """
        body = entry.body
        if isinstance(body, b.Forked):
            with suppress(JournalGap, UnknownProcess):
                for told in _whole(self._read, body.parent_id, body.parent_seq, self._limits):
                    self._take(told._replace(fact="inherited_from"))
        elif isinstance(body, b.Promoted) and takes_calls:
            with suppress(JournalGap, UnknownProcess):
                entries = _entries(self._read, body.fork_id, body.fork_seq)
                for told in _with_promoted(self._read, body.fork_id, entries, self._limits):
                    self._take(told._replace(fact="promoted_from"))
        return self._take(_Told(entry, self._process_id))

    def _take(self, told: _Told) -> CallRecord | None:
        known = len(self.found)
        one = self._table.take(told.entry)
        for call in self.found[known:]:
            if told.began_in != self._process_id:
                call.facts[told.fact] = told.began_in
        _put_answers(self.found, told.entry)
        return one


def _whole(
    read: Callable[[str], Sequence[Entry]], process_id: str, stop_seq: int | None, limits: Limits
) -> Iterator[_Told]:
    """Yield the entries of the process up to a seq, behind those of its parents."""
    own = _entries(read, process_id, stop_seq)
    forked = next((one.body for one in own if isinstance(one.body, b.Forked)), None)
    if forked is not None:
        with suppress(JournalGap, UnknownProcess):
            for told in _whole(read, forked.parent_id, forked.parent_seq, limits):
                yield told._replace(fact="inherited_from")
    yield from _with_promoted(read, process_id, own, limits)


def _entries(read: Callable[[str], Sequence[Entry]], process_id: str, stop_seq: int | None) -> list[Entry]:
    return [one for one in read(process_id) if stop_seq is None or one.seq is None or one.seq <= stop_seq]


def _with_promoted(
    read: Callable[[str], Sequence[Entry]], process_id: str, own: Sequence[Entry], limits: Limits
) -> Iterator[_Told]:
    """Yield the entries of a process; before a promotion that took the calls of a fork, those of the fork."""
    taken = _promotions_of_calls(own, limits)
    for entry in own:
        if (promoted := taken.get(entry.id)) is not None:
            with suppress(JournalGap, UnknownProcess):
                entries = _entries(read, promoted.fork_id, promoted.fork_seq)
                for told in _with_promoted(read, promoted.fork_id, entries, limits):
                    yield told._replace(fact="promoted_from")
        yield _Told(entry, process_id)


def _promotions_of_calls(own: Sequence[Entry], limits: Limits) -> dict[bytes, b.Promoted]:
    """Return the promotions that took the fork's calls, by the ids of their entries."""
    if not any(isinstance(one.body, b.Promoted) for one in own):
        return {}
    found, admission = {}, Admission(limits)
    for offset, entry in enumerate(own):
        body = entry.body
        if isinstance(body, b.Promoted):
            before = orjson.loads(admission.draft.snapshot().content_json())
            if calls_in(before) != calls_in(orjson.loads(body.content)):
                found[entry.id] = body
        admission.admits(offset, entry)
    return found


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
