"""Name a moment of a process's past: by a seq, a time, a call or a turn; read ``case-17@42``. Pure.

``HistoryPoint.before("charge:1")``  ── entries of the process ──>  the seq of the last entry before the call began
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from datetime import datetime
from typing import TYPE_CHECKING

from seekpoint.consumers.recovery.points import timestamp_ms
from seekpoint.schemas import bodies as b
from seekpoint.schemas.errors import Refused
from seekpoint.schemas.frozen_struct import FrozenStruct
from seekpoint.schemas.values.near_names import did_you_mean
from seekpoint.schemas.values.process_ids import pasted

if TYPE_CHECKING:
    from seekpoint.schemas.bodies.entry import Entry


class HistoryPoint(FrozenStruct, frozen=True):
    """A moment right after one entry of a process's owner. ``kind``: seq, time, before, after, turn or start."""

    kind: str
    at: int | str | float | datetime = 0

    @classmethod
    def of(cls, given: HistoryPoint | int) -> HistoryPoint:
        """Return ``given``; a number is a seq."""
        return given if isinstance(given, HistoryPoint) else cls("seq", given)

    @classmethod
    def seq(cls, seq: int) -> HistoryPoint:
        """Return the moment after the entry with this seq."""
        return cls("seq", seq)

    @classmethod
    def time(cls, time: datetime | float) -> HistoryPoint:
        """Return the moment before the first entry that is not older: an aware datetime, or seconds since 1970."""
        timestamp_ms(time)
        return cls("time", time)

    @classmethod
    def before(cls, key: str) -> HistoryPoint:
        """Return the moment before the call ``key`` began: the newest call of this key, if a rewind forgot others."""
        return cls("before", key)

    @classmethod
    def after(cls, key: str) -> HistoryPoint:
        """Return the moment after the call ``key`` ended."""
        return cls("after", key)

    @classmethod
    def turn(cls, number: int) -> HistoryPoint:
        """Return the moment after turn ``number`` ended."""
        return cls("turn", number)

    @classmethod
    def start(cls) -> HistoryPoint:
        """Return the moment at which the agent had begun, and had made no call."""
        return cls("start")

    def seq_in(self, entries: Iterable[Entry], process_id: str) -> int:
        """Return the seq of this moment. ``entries`` are the applied ones of the process, in log order.

        Of a start, nothing is read behind it.

        Raises ``Refused`` if the history has no such moment.
        """
        found: int | None = None
        newest = begun = 0
        keys: dict[str, None] = {}
        before_ms = timestamp_ms(self.at) if self.kind == "time" else 0  # type: ignore[arg-type]  # a time is given
        for entry in entries:
            if entry.seq is None:
                continue
            if self.kind == "seq":
                found = entry.seq if entry.seq == self.at else found
            elif self.kind == "time":
                if entry.ts < before_ms * 1_000:
                    found = entry.seq
            elif self.kind == "before":
                found = newest if _begins(entry.body, self.at) else found
            elif self.kind == "after":
                found = entry.seq if _ends(entry.body, self.at) else found
                begun = entry.seq if _begins(entry.body, self.at) else begun
            elif self.kind == "start":
                if isinstance(entry.body, b.AgentStarted):
                    return entry.seq
            elif isinstance(entry.body, b.TurnEnded) and entry.body.number == self.at:
                found = entry.seq
            newest = entry.seq
            if (key := getattr(entry.body, "key", None)) is not None and isinstance(self.at, str):
                keys[key] = None
        if not found and begun:
            raise Refused(
                "the call has not ended", process_id=process_id, key=str(self.at), seq=newest,
                hint="let it end first; a gate is answered by seekpoint approve and seekpoint deny",
            )  # fmt: skip
        if not found:
            raise Refused(
                f"the history has no such moment: {self}", process_id=process_id, seq=newest,
                hint=did_you_mean(
                    str(self.at), keys,
                    f"seekpoint steps {pasted(process_id)} shows the keys of calls, seekpoint log PROCESS_ID the seqs",
                ),
            )  # fmt: skip
        return found

    def __str__(self) -> str:
        return self.kind if self.kind == "start" else f"{self.kind} {self.at}"


_ONE_ENTRY = (b.Sampled, b.Received)
_BEGINS = (b.StepStarted, b.DecisionStarted, b.EffectIntended, b.TimerSet, b.GateOpened, b.ChildSpawned, *_ONE_ENTRY)
_ENDS = (*(b.StepEnded, b.DecisionMade, b.EffectSettled, b.TimerFired, b.GateResolved, b.ChildEnded, *_ONE_ENTRY),)


def _begins(body: b.Body, key: object) -> bool:
    """Return whether ``body`` begins the first attempt of the call, or is the content write, ``key``."""
    if isinstance(body, b.StepEnded):
        return body.key == key and body.implied_start is not None and body.attempt == 1
    if isinstance(body, _BEGINS):
        return body.key == key and getattr(body, "attempt", 1) == 1
    return getattr(body, "call", None) == key


def _ends(body: b.Body, key: object) -> bool:
    if isinstance(body, _ENDS):
        return body.key == key and getattr(body, "outcome", None) != "retry"
    return getattr(body, "call", None) == key


async def named_moment(name: str, is_known: Callable[[str], Awaitable[bool]]) -> tuple[str, int | None]:
    """Return process id and seq; None as of now. A process whose own id looks like that has precedence."""
    found = moment_in(name)
    return (name, None) if found is None or await is_known(name) else found


def moment_in(name: str) -> tuple[str, int] | None:
    """Return the process id and the seq of ``PROCESS_ID@SEQ``; None for a name of another form.

    >>> moment_in("case-17@42"), moment_in("case-17"), moment_in("@42")
    (('case-17', 42), None, None)
    """
    process_id, _, seq = name.rpartition("@")
    return (process_id, int(seq)) if process_id and seq.isascii() and seq.isdigit() else None
