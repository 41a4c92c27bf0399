"""The session of a replay check: it answers calls from a recorded history, and executes nothing.

A call without a recorded answer is parked: it never returns. So each concurrent branch runs as far as its records go.
The session has no journal, node, clock, body, child or connector.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from seekpoint.consumers.recovery.process_history import Logged
from seekpoint.producers.durable.durable_process import DurableProcess
from seekpoint.producers.durable.replay.conduct import Detail, RunOptions
from seekpoint.producers.durable.replay.history_matcher import CallPlace, HistoryMatcher
from seekpoint.producers.durable.replay.recorded_run import RecordedRun
from seekpoint.producers.durable.replay.scopes import Scope
from seekpoint.producers.durable.replay.writes import Writes
from seekpoint.producers.durable.session import Acknowledged
from seekpoint.producers.writer.clocks import Clock, VirtualClock
from seekpoint.schemas import bodies as b
from seekpoint.schemas.config.limits import Limits
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.errors import Refused, UnknownAttachment

if TYPE_CHECKING:
    from seekpoint.consumers import Recovered
    from seekpoint.producers.durable.call_results import Versioned
    from seekpoint.producers.durable.steps.agent import Agent
    from seekpoint.producers.durable.steps.body_threads import RunInThread
    from seekpoint.producers.tail.followed_values import FollowedValue
    from seekpoint.schemas.state.budget_sums import Budget
    from seekpoint.schemas.state.lifecycle import Lifecycle
    from seekpoint.schemas.state.process_state import MailItem, State
    from seekpoint.schemas.values.attachment_ref import Ref

__all__ = ["HistoryExhausted", "ReplayMatcher", "ReplayProcess", "ReplaySession"]

T = TypeVar("T")

_OVER = frozenset({"succeeded", "failed"})


@dataclass(frozen=True, slots=True)
class HistoryExhausted:
    """A call that the history has no answer for."""

    key: str
    kind: str


class ReplayMatcher(HistoryMatcher):
    """A matcher that collects the calls that the history has no answer for."""

    def __init__(self, run: RecordedRun, task: asyncio.Task[object] | None) -> None:
        super().__init__(run.process_id, run.records, seq_base=run.state.lineage.seq_base, task=task)
        self.answered = 0
        """How many calls were answered."""
        self.asked = 0
        """How many calls were made, answered or not. While it grows, the code makes progress."""
        self.unanswered: dict[str, str] = {}
        """The calls that the history has no answer for, with their kinds."""
        self.is_closed = False
        self._run = run

    def _placed(self, scope: Scope, kind: str, suffix: str, digest: str) -> CallPlace:
        if self.is_closed:
            raise asyncio.CancelledError("the replay check is over")
        self.asked += 1
        place = super()._placed(scope, kind, suffix, digest)
        if place.record is not None and place.record.status in _OVER:
            self.answered += 1
        else:
            self.unanswered[place.key] = kind
        return place

    def patched(self, change: str, marked: Any) -> tuple[bool, str | None]:
        """Return whether the change may run. A turn that is over ran without any change that has no marker."""
        answer, mark = super().patched(change, marked)
        if mark is not None and self._run.is_over(self.turn):
            self._patches[change] = answer = False
        return answer, None


class ReplayWrites(Writes):
    """The content writes of a replay check. They change no journal."""

    def begin_turn(self, number: int) -> None:
        """Begin turn ``number`` with the content that the writes before it made."""

    def _settle(self) -> None:
        if not self._left:
            self.view = None


class ReplayProcess(DurableProcess):
    """The durable side of a process in a replay check: a call gets its recorded answer, or never returns."""

    session: ReplaySession
    matcher: ReplayMatcher

    def __init__(self, run: RecordedRun, agent: Agent, limits: Limits, detail: Detail) -> None:
        super().__init__(ReplaySession(run, limits, self._turn), RunOptions(agent=agent, detail=detail))
        self._run = run

    def _turn(self) -> int:
        return 0 if self._matcher is None else self._matcher.turn

    def _new_matcher(self) -> HistoryMatcher:
        return ReplayMatcher(self._run, self.task)

    def begin_replay(self) -> None:
        """Prepare for the agent's code, which runs next."""
        super().begin_replay()
        self._writes = ReplayWrites(self.matcher, self.written, self.limits, self.append, self.write_in_order)

    def _ordered(
        self, place: CallPlace, check: Callable[[CallPlace], None], answer: Callable[..., Coroutine[Any, Any, T]],
        given: tuple[Any, ...],
    ) -> Coroutine[Any, Any, T]:  # fmt: skip
        """Return the recorded answer of the call at ``place``; without one, a coroutine that never ends."""
        kind = self.matcher.unanswered.get(place.key)
        if kind is None:
            return super()._ordered(place, check, answer, given)
        parked = self.session.parked(HistoryExhausted(place.key, kind))
        return self.session.closing(super()._ordered(place, check, _itself, (parked,)))

    def executes(self, place: CallPlace) -> bool:
        """Return False: no call is carried out."""
        return False


class ReplaySession:
    """A ``durable.session.Session`` over a recorded history."""

    prices = None
    tracer = None
    node_id = "replay check"
    settings = Settings()
    """The default settings. They hold no secret to mask: the texts of the history are masked already."""

    def __init__(self, run: RecordedRun, limits: Limits, turn: Callable[[], int]) -> None:
        self._run = run
        self._turn = turn
        self._over = False
        self._made: list[Coroutine[Any, Any, Any]] = []
        self._tasks: set[asyncio.Task[Any]] = set()
        self.ends: list[HistoryExhausted] = []
        """The calls that are parked, in the order of the program."""
        self.process_id = run.process_id
        self.limits = limits
        self.clock: Clock = VirtualClock()
        self.written: State = run.starting_state()
        """The state at the end of the history, with all of its calls."""
        self.mail: list[MailItem] = []
        self.mail_changed = asyncio.Event()

    # --- state
    @property
    def ahead_lifecycle(self) -> Lifecycle:
        """The lifecycle at the end of the history."""
        return self.written.lifecycle

    @property
    def ahead_budget(self) -> Budget | None:
        """The budget at the end of the history."""
        return self.written.budget

    @property
    def is_open(self) -> bool:
        """Return whether the replay check is under way."""
        return not self._over

    def check(self) -> None:
        """Do nothing: a replay check is never fenced."""

    def check_open(self) -> None:
        """Do nothing: a replay check cannot be closed from outside."""

    def times_forgotten(self, key: str) -> int:
        """Return how often a rewind removed the call ``key``."""
        return self.written.forgotten.get(key, 0)

    def newest(self) -> Acknowledged:
        """Return the last entry of the history."""
        return Acknowledged(self.written.seq, self.written.offset)

    # --- what it does not write
    async def append(self, body: b.Body) -> Acknowledged:
        """Park: nothing is appended."""
        await self.park(HistoryExhausted(body.KIND, "entry"))
        raise AssertionError("a parked call never goes on")

    async def append_once(self, body: b.Body, entry_id: bytes, *, wait: bool) -> Acknowledged:
        """Park: nothing is appended."""
        return await self.append(body)

    async def pipeline(self, body: b.Body) -> Acknowledged:
        """Park: nothing is appended."""
        return await self.append(body)

    async def flush(self) -> None:
        """Return at once: nothing is under way."""

    def send(self, body: b.Body) -> int:
        """Do nothing: nothing is appended."""
        return self.written.seq

    def sent(self, body: b.Body) -> asyncio.Future[int]:
        """Return the end of a turn, which needs no entry here."""
        done: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        done.set_result(self.written.offset)
        return done

    def hold(self, key: str, start: Callable[[], b.StepStarted], characters: int) -> bool:
        """Hold nothing back: no step starts."""
        return True

    def drop_held(self, key: str) -> bool:
        """Do nothing: nothing was held back."""
        return True

    async def end(self, body: b.Released | b.Finished) -> None:
        """Do nothing: nothing is appended."""

    async def confirm(self) -> None:
        """Return at once: a recorded history is confirmed."""

    async def checkpoint(self, timeout_s: float) -> int:
        """Do nothing: no checkpoint is requested."""
        return self.written.offset

    async def past_content(self, to_seq: int) -> b.Json:
        """Raise ``Refused``: an agent does not rewind itself."""
        raise Refused("a replay check rewinds nothing", process_id=self.process_id)

    async def attach(self, ref: Ref, data: bytes) -> None:
        """Do nothing: the reference says all that the code may know."""

    async def read_attachment(self, ref: Ref) -> bytes:
        """Return the bytes that the history has. Raises ``UnknownAttachment`` for others."""
        parts = (entry.body for entry in self._run.entries if isinstance(entry.body, b.PartAttached))
        data = bytearray()
        for part in parts:
            if part.digest == ref.digest and part.start == len(data):
                data += part.data
        if sha256(data).hexdigest() != ref.digest:
            raise UnknownAttachment(
                "the history does not have the attachment", process_id=ref.process_id, digest=ref.digest,
                hint="read it in a step: a replay check has the step's recorded result",
            )  # fmt: skip
        return bytes(data)

    async def detach(self, refs: Collection[Ref]) -> None:
        """Do nothing: nothing is appended."""

    def abandon(self) -> None:
        """Do nothing: a replay check holds nothing."""

    async def before_unrecorded(self, name: str, kind: str) -> None:
        """Park: a call without a place has no record."""
        turn = self._turn()
        await self.park(HistoryExhausted(f"{turn}/{name}" if turn else name, kind))

    # --- what it does not wait for
    @asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        """Park: no mail comes."""
        await self.before_unrecorded("wait", "mail")
        yield

    async def read_log(self, fresh_s: float = 0.0) -> None:
        """Do nothing: there is no log to read."""

    async def run_child(
        self, agent: Agent, child_id: str, input: Any, *, key: str, wait_s: float, retry_failed: bool
    ) -> Any:
        """Raise ``Refused``: no child runs."""
        raise self._refusal("run")

    def shared_value(self, name: str) -> _NoSharedValue:
        """Return a shared value that answers from the records only."""
        return _NoSharedValue(name, self)

    async def body_thread(self, key: str) -> RunInThread:
        """Raise ``Refused``: no body runs."""
        raise self._refusal("body_thread")

    async def in_thread(self, call: Callable[[], Any]) -> Any:
        """Raise ``Refused``: no blocking call runs."""
        raise self._refusal("in_thread")

    async def recover(self, process_id: str, *, missing_ok: bool = False, at_offset: int | None = None) -> Recovered:
        """Raise ``Refused``: no other process is read."""
        raise self._refusal("recover")

    async def entries(self, process_id: str, *, kinds: Collection[str] | None = None) -> AsyncIterator[Logged]:
        """Yield the entries of the history, to compare a changed prompt with."""
        for offset, entry in enumerate(self._run.entries):
            yield Logged(offset, 0, entry)

    async def append_external(
        self, process_id: str, body: b.Body, *, actor: str | None = None, entry_id: bytes | None = None
    ) -> bytes:
        """Raise ``Refused``: nothing is sent to other processes."""
        raise self._refusal("append_external")

    def _refusal(self, name: str) -> Refused:
        return Refused(
            f"a replay check has no node: node.{name} would do something", process_id=self.process_id,
            hint="reach the world through the process: process.step(...), process.effect(...)",
        )  # fmt: skip

    # --- parking
    def parked(self, end: HistoryExhausted) -> Coroutine[Any, Any, Any]:
        """Return the coroutine of a call that has no answer; it counts as parked from now on."""
        self.ends.append(end)
        return self.closing(self.park(end))

    def closing(self, call: Coroutine[Any, Any, T]) -> Coroutine[Any, Any, T]:
        """Return ``call``, and close it when the replay check is over, because the code may never await it."""
        self._made.append(call)
        return call

    async def park(self, end: HistoryExhausted) -> Any:
        """Wait until the replay check, or the code, cancels this."""
        if self._over:
            raise asyncio.CancelledError("the replay check is over")
        if not any(one is end for one in self.ends):
            self.ends.append(end)
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            self._tasks.discard(task)
            self.ends.remove(end)

    @property
    def is_parked(self) -> bool:
        """Whether some of the code waits for a call that the history has no answer for."""
        return bool(self._tasks)

    async def stop(self) -> None:
        """Cancel all parked calls."""
        self._over = True
        tasks = self._tasks - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        for task in tasks:
            with suppress(BaseException):
                await task
        for made in self._made:
            made.close()


async def _itself(parked: Coroutine[Any, Any, Any]) -> Any:
    return await parked


class _NoSharedValue:
    """A shared value of a replay check: every call on it is answered from the record, or parked."""

    def __init__(self, name: str, session: ReplaySession) -> None:
        self.name = name
        self._session = session

    async def get(self) -> Versioned:
        """Read nothing."""
        raise self._session._refusal("shared")

    async def set_text(self, text: str, expected_version: int, actor: str | None, set_id: bytes | None) -> int:
        """Set nothing."""
        raise self._session._refusal("shared")

    def follow(self, on_change: Callable[[], object]) -> FollowedValue:
        """Follow nothing."""
        raise self._session._refusal("shared")

    def unfollow(self, followed: FollowedValue, on_change: Callable[[], object]) -> NoReturn:
        """Follow nothing."""
        raise self._session._refusal("shared")
