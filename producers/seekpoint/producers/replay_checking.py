"""The replay check: run an agent's code again and compare its calls with a recorded history, without executing any.

Every call gets its answer from the history, as in a resume. Unlike a resume, the check covers all turns, and of a
finished process also the result. It stops at the first call or result that differs. Use it before you deploy new code
that has to continue processes that are under way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn, cast

from seekpoint.consumers import Report, Tier
from seekpoint.producers.durable.failures.program_exits import contained
from seekpoint.producers.durable.replay.conduct import Detail
from seekpoint.producers.durable.replay.differences import difference_from
from seekpoint.producers.durable.replay.recorded_run import RecordedRun
from seekpoint.producers.durable.replay.replay_session import HistoryExhausted, ReplayMatcher, ReplayProcess
from seekpoint.producers.durable.replay.value_differences import first_difference
from seekpoint.producers.durable.steps.agent_values import is_same_result, journaled_result, rebuilt_input
from seekpoint.producers.process import Process, ProcessNode
from seekpoint.producers.sync_process import run_in_thread
from seekpoint.schemas.config.limits import DEFAULT_LIMITS, Limits
from seekpoint.schemas.errors import Cancelled, EffectHeld, Refused, ReplayDivergence, SeekpointError
from seekpoint.schemas.frozen_struct import FrozenStruct
from seekpoint.schemas.state.calls import turn_of
from seekpoint.schemas.values.json_values import load

if TYPE_CHECKING:
    from seekpoint.consumers.recovery.process_history import Logged
    from seekpoint.producers.durable.steps.agent import Agent
    from seekpoint.schemas.bodies import Json
    from seekpoint.schemas.bodies.entry import Entry

_TEXT_CHARACTERS_MAX = 2_000
_SPINS = 50
_LOOK_S = 0.01


class Divergence(FrozenStruct, frozen=True):
    """The first difference. ``kind`` is one of ``ReplayDivergence``, or ``result`` or ``error``."""

    kind: str
    key: str
    seq: int | None
    expected: str
    actual: str
    difference: str | None = None
    """Where the requests of a call, or the results, first differ."""


class ReplayCheck(FrozenStruct, frozen=True):
    """The report of a replay check."""

    process_id: str
    agent: str
    version: str
    recorded_version: str
    calls: int
    """How many calls got their recorded answer. Content writes are calls."""
    turns: int
    """How many turns are over in the history."""
    ended_at: str | None
    """The call that the history has no answer for; None if the code ended."""
    ended_by: str
    """What the history ends with: ``result``, ``call``, ``cancelled`` or ``error``."""
    unreached: int
    """Recorded calls after one that is in doubt. They were not compared."""
    divergence: Divergence | None

    @property
    def ok(self) -> bool:
        """Whether the code makes the recorded calls, as far as the history goes."""
        return self.divergence is None

    def to_dict(self) -> dict[str, Any]:
        """Return plain values: what ``seekpoint replay-check --json`` prints."""
        return {"ok": self.ok, **asdict(self)}

    def __str__(self) -> str:
        calls = f"{self.calls} {'call' if self.calls == 1 else 'calls'} replayed"
        found = self.divergence
        if found is not None:
            at = f" at {found.key}" if found.key else ""
            differs = found.difference or f"expected {found.expected}, found {found.actual}"
            return f"{calls}, then it differs{at} ({found.kind}): {differs}"
        ends = {"result": "to the result", "cancelled": "until it was cancelled", "error": "to the recorded failure"}
        end = ends.get(self.ended_by) or f"history ends at {self.ended_at}"
        return f"{calls}, {end}" + (f"; {self.unreached} behind it not reached" if self.unreached else "")


async def check_replay(
    agent: Agent,
    history: Iterable[Logged | Entry],
    *,
    detail: str = Detail.FULL,
    limits: Limits = DEFAULT_LIMITS,
    patience_s: float = 0.5,
) -> ReplayCheck:
    """Run ``agent`` against a process's whole ``history``: ``[one async for one in node.entries(process_id)]``.

    No step, model, effect, child, sample or wait is run, nothing is written. Code between the calls runs, as it does in
    every resume. ``detail`` is what the process ran with: a history does not tell it. Where concurrent branches are at
    the end of their history but others have calls left, it waits ``patience_s`` for those. Raises ``JournalGap`` if the
    history's beginning was trimmed, ``Refused`` if it is not one of this agent's.
    """
    run = RecordedRun.of(history, limits)
    _check_agent(agent, run)
    return await _Check(agent, run, Detail(detail), limits, patience_s).report()


def _check_agent(agent: Agent, run: RecordedRun) -> None:
    began = run.state.agent
    assert began is not None
    if began.name != agent.name:
        raise Refused(
            "the process is another agent's", process_id=run.process_id, agent=began.name, asked=agent.name,
            hint="check it with the agent it began with",
        )  # fmt: skip


class _Check:
    """One replay check."""

    def __init__(self, agent: Agent, run: RecordedRun, detail: Detail, limits: Limits, patience_s: float) -> None:
        self._agent = agent
        self._detail = detail
        self._run = run
        self._limits = limits
        self._patience_s = patience_s
        self._process: ReplayProcess | None = None

    async def report(self) -> ReplayCheck:
        """Run the code, as far as the history goes."""
        began = self._run.state.agent
        assert began is not None
        if self._agent.pinned and began.definition != self._agent.definition:
            pinned = Divergence("definition", "", None, began.definition, self._agent.definition)
            return self._found("error", pinned)
        code = asyncio.create_task(self._code(began.input_json))
        try:
            await self._settled(code)
            return self._judged(code)
        finally:
            await self._end(code)

    async def _code(self, input_json: Json) -> Json:
        self._process = process = ReplayProcess(self._run, self._agent, self._limits, self._detail)
        process.begin_replay()
        agent = self._agent
        run = partial(run_in_thread, agent) if agent.is_plain else agent.run
        asked = rebuilt_input(agent, input_json, self._run.process_id)
        result = await contained(run(self._offered(process), asked), "the code")
        await process.flush()
        await process.check_read()
        return journaled_result(agent, result, self._limits, self._run.process_id)

    def _offered(self, process: ReplayProcess) -> Process:
        """Return the process for the code. Its node refuses every call."""
        end, count = process.written.offset, len(self._run.entries)
        report = Report(
            tier=Tier.SCAN, seek_point=0, log_start=0, log_end=end + 1, entries_scanned=count, entries_applied=count,
            bytes=0, duration_s=0.0, last_kind=None,
        )  # fmt: skip
        return Process(process, cast(ProcessNode, _NoNode(process.process_id)), report)

    async def _settled(self, code: asyncio.Task[Json]) -> None:
        """Return once the code has ended, or every task of it waits for a call without a recorded answer."""
        loop = asyncio.get_running_loop()
        asked, quiet_since, spins = -1, loop.time(), 0
        while not code.done():
            process, matcher = self._process, self._matcher
            if process is None or matcher is None or not process.session.is_parked or matcher.asked != asked:
                asked, quiet_since, spins = (-1 if matcher is None else matcher.asked), loop.time(), 0
            elif spins >= _SPINS and (not self._may_go_on(matcher) or loop.time() - quiet_since >= self._patience_s):
                return
            spins += 1
            await asyncio.sleep(0 if spins < _SPINS else _LOOK_S)

    @property
    def _matcher(self) -> ReplayMatcher | None:
        return None if self._process is None else self._process.matcher

    def _may_go_on(self, matcher: ReplayMatcher) -> bool:
        """Return whether another branch may still make a call."""
        return matcher.divergence is None and (self._run.result_json is not None or bool(matcher.unread()))

    async def _end(self, code: asyncio.Task[Json]) -> None:
        code.cancel()
        if self._process is not None:
            self._process.matcher.is_closed = True
            await self._process.session.stop()
        await asyncio.wait({code})
        if not code.cancelled():
            code.exception()  # looked at

    # --- the verdict
    def _judged(self, code: asyncio.Task[Json]) -> ReplayCheck:
        matcher, error = self._matcher, None
        if code.done():
            error = asyncio.CancelledError() if code.cancelled() else code.exception()
        if matcher is not None and matcher.divergence is not None:
            return self._found("call", self._divergence(matcher.divergence))
        if isinstance(error, ReplayDivergence | EffectHeld):
            return self._found("call", self._divergence(error))
        if not code.done():
            assert self._process is not None
            return self._ended_at(self._process.session.ends[0])
        return self._raised(error) if error is not None else self._returned(code.result())

    def _divergence(self, error: ReplayDivergence | EffectHeld) -> Divergence:
        if isinstance(error, EffectHeld):  # the code came to a new effect, and did not make a recorded one again
            return Divergence("order", error.missing, None, _shown(error.missing), _shown(error.key))
        difference = error.difference
        if difference is None:  # the code did not await the call, or there was nothing to await
            difference = difference_from((entry.body for entry in self._run.entries), error)
        return Divergence(
            error.kind, error.key, error.seq, _shown(error.expected or ""), _shown(error.actual or ""), difference,
        )  # fmt: skip

    def _returned(self, text: Json) -> ReplayCheck:
        expected = self._run.result_json
        if expected is None or is_same_result(self._agent, expected, text):
            return self._found("result")
        where = first_difference(load(expected), load(text))
        return self._found("result", Divergence("result", "", None, _shown(expected), _shown(text), where))

    def _raised(self, error: BaseException) -> ReplayCheck:
        """Compare an exception of the code with the history: it must be recorded, and nothing may follow it."""
        told = (
            self._process is not None and self._process.cancellation.was_raised
        )  # a task group wraps what it was told
        if self._run.state.cancelled is not None and (told or isinstance(error, Cancelled | asyncio.CancelledError)):
            return self._found("cancelled")
        kind = type(error)
        name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
        unread = [] if self._matcher is None else self._matcher.unread()
        if self._run.failure == name and not unread and self._run.result_json is None:
            return self._found("error")
        key = min(unread, key=lambda one: self._run.records[one].seq) if unread else ""
        seq = self._run.state.entry_seq(self._run.records[key]) if key else None
        expected = key or ("the result" if self._run.result_json is not None else self._run.failure or "no failure")
        message = error.message if isinstance(error, SeekpointError) else str(error)
        return self._found("error", Divergence("error", key, seq, expected, _shown(f"{name}: {message}")))

    def _ended_at(self, end: HistoryExhausted) -> ReplayCheck:
        turn = turn_of(end.key)
        if not self._run.is_over(turn):
            return self._found("call", ended_at=end.key)
        over = "the result" if self._run.result_json is not None else f"the end of turn {turn}" if turn else "the turns"
        return self._found("call", Divergence("length", end.key, None, over, f"{end.kind} {end.key}"), end.key)

    def _found(self, ended_by: str, divergence: Divergence | None = None, ended_at: str | None = None) -> ReplayCheck:
        run, began, matcher = self._run, self._run.state.agent, self._matcher
        assert began is not None
        return ReplayCheck(
            process_id=run.process_id, agent=self._agent.name, version=self._agent.version,
            recorded_version=began.version, calls=0 if matcher is None else matcher.answered, turns=run.last_turn,
            ended_at=ended_at, ended_by=ended_by, divergence=divergence,
            unreached=0 if matcher is None or divergence is not None else len(matcher.unread()),
        )  # fmt: skip


class _NoNode:
    """The node that an agent's code gets in a replay check."""

    def __init__(self, process_id: str) -> None:
        self._process_id = process_id

    def __getattr__(self, name: str) -> NoReturn:
        raise Refused(
            f"a replay check has no node: node.{name} would do something", process_id=self._process_id,
            hint="reach the world through the process: process.step(...), process.effect(...)",
        )  # fmt: skip


def _shown(text: str) -> str:
    return text if len(text) <= _TEXT_CHARACTERS_MAX else f"{text[:_TEXT_CHARACTERS_MAX]}…"
