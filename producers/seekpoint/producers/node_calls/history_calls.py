"""The operations of a node on the histories of processes: fork, rewind, merge, compare."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any

from seekpoint.producers.agent_run import RECORDED, run_agent
from seekpoint.producers.durable.steps.agent_values import journaled_input
from seekpoint.producers.node_runtime import NodeRuntime
from seekpoint.producers.opening import Opener, Opening, OpenRequest, wait_for_death_s
from seekpoint.producers.writer.pending import Cause
from seekpoint.schemas.values.process_ids import named_process_key

if TYPE_CHECKING:
    from seekpoint.producers.durable.steps.agent import Agent
    from seekpoint.producers.history.comparing import ProcessDiff
    from seekpoint.producers.history.forks import ForkPlan
    from seekpoint.producers.history.history_points import HistoryPoint
    from seekpoint.producers.history.history_reads import HistoryReads
    from seekpoint.producers.history.lineages import ProcessLineage
    from seekpoint.producers.history.many_reruns import ScoredRerun
    from seekpoint.producers.history.promoting import PromotePlan
    from seekpoint.producers.history.rerunning import Rerun, RerunRequest
    from seekpoint.producers.history.rewinding import RewindPlan

logger = logging.getLogger("seekpoint.producers")


class HistoryCalls:
    """Go back, branch and compare. Nothing changes what the log has. What most nodes never use is loaded at first use.

    A node has ``_runtime`` and ``_opener``, and reads ``entries``.
    """

    _runtime: NodeRuntime
    _opener: Opener

    def fork(
        self,
        parent_id: str,
        process_id: str,
        *,
        at: HistoryPoint | int | None = None,
        at_seq: int | None = None,
        answers: Mapping[str, Any] | None = None,
        effects: str = "refused",
        permissive: bool = False,
        reason: str | None = None,
        actor: str | None = None,
    ) -> Opening:
        """Start ``process_id`` with the content that ``parent_id`` has, or had ``at`` a moment; it is only read.

        ``async with node.fork("a", "b") as process``. The agent that the parent began with, and its input, are the
        fork's too: ``node.run(agent, "b")`` goes on from there, and so does a worker. ``at`` is a seq (``at_seq`` too)
        or a ``HistoryPoint``. ``answers`` gives calls of the parent another answer, by key; without ``at``, the fork
        begins at the end of that call.

        ``effects`` says what becomes of an effect, and of a child, that no inherited record answers: ``refused``
        (``EffectRefused``), ``recorded`` (the parent's later effects answer equal requests, else refused) or ``live``
        (made, with idempotency keys of the fork). ``permissive``: the parent's later calls of all kinds answer equal
        requests. What the fork does anew is written to the fork only. If somebody claimed ``process_id`` and wrote
        nothing, as a fork that was killed leaves it, this waits until that owner is known to be dead.

        Raises ``UnknownProcess``, ``UnknownPoint``, ``InvalidName``, and what ``open`` raises; ``Refused`` if
        ``process_id`` was ever used, for a moment that is not there, and for an answer that cannot be given.
        """
        from seekpoint.producers.history.forks import ForkRequest, forked_by

        request = ForkRequest(
            parent_id=parent_id, at=at_seq if at is None else at, answers=answers or {}, effects=effects,
            permissive=permissive, reason=reason, actor=actor,
        )  # fmt: skip
        return self._opener.opening(
            OpenRequest(
                process_id=process_id, cause=Cause(actor=actor), inherit=partial(forked_by, self._runtime, request),
                wait_s=wait_for_death_s(self._runtime.settings),
            )
        )  # fmt: skip

    async def plan_fork(
        self,
        parent_id: str,
        *,
        at: HistoryPoint | int | None = None,
        answers: Mapping[str, Any] | None = None,
        effects: str = "refused",
        permissive: bool = False,
    ) -> ForkPlan:
        """Return what such a fork would begin with; nothing is written. Raises what ``fork`` does about the parent."""
        from seekpoint.producers.history.forks import ForkRequest, fork_of

        request = ForkRequest(
            parent_id=parent_id, at=at, answers=answers or {}, effects=effects, permissive=permissive
        )  # fmt: skip
        return (await fork_of(self._runtime, request, looks_ahead=True)).plan

    async def rewind(
        self,
        process_id: str,
        to: HistoryPoint | int | None = None,
        *,
        mode: str = "both",
        answers: Mapping[str, Any] | None = None,
        effects: str | None = None,
        note: str | None = None,
        reason: str | None = None,
        actor: str | None = None,
        take_over: bool = False,
        expected_seq: int | None = None,
        dry_run: bool = False,
    ) -> RewindPlan:
        """Make a process's content what it was at an earlier moment, and release it: its next run goes on from there.

        ``to`` is a seq or a ``HistoryPoint``. ``mode``: ``both``; ``conversation_only``; ``code_only``, all but the
        conversation; ``summarize`` restores nothing and adds ``note`` as a system message. ``answers`` gives calls
        other answers, by key; without ``to`` it goes back to the end of that call. Effects stay, and none is called
        again: they answer equal requests. If effects followed an answer that is replaced, ``effects`` says whether they
        ``keep`` standing or are to ``compensate`` first. ``dry_run`` only returns the plan. With the plan's ``seq`` as
        ``expected_seq``, a process that went on since is not rewound. The history stays.

        Raises ``UnknownProcess``, ``ProcessFinished``, ``Refused``, ``EffectsStand``, ``EffectUnknown``,
        ``EffectFailed``, ``LimitExceeded``, ``JournalGap``, and what ``open`` raises.
        """
        from seekpoint.producers.history.history_points import HistoryPoint
        from seekpoint.producers.history.rewinding import RewindRequest, plan_rewind, rewind

        request = RewindRequest(
            process_id=process_id, to=None if to is None else HistoryPoint.of(to), mode=mode, answers=answers or {},
            effects=effects, note=note, reason=reason, actor=actor, take_over=take_over, expected_seq=expected_seq,
        )  # fmt: skip
        return await (plan_rewind(self._runtime, request) if dry_run else rewind(self._runtime, self._opener, request))

    async def promote(
        self,
        fork_id: str,
        *,
        prefer: str | Mapping[str, str] | None = None,
        reason: str | None = None,
        actor: str | None = None,
        take_over: bool = False,
        dry_run: bool = False,
    ) -> PromotePlan:
        """Merge what a fork did into the process it was forked from, as one entry. The fork stays.

        A part (a context value, the conversation, the calls) that only one side has changed since the fork is that
        side's. ``prefer`` resolves conflicts: ``fork`` or ``parent``, for all or by part (``{"calls": "fork"}``). No
        effect is made again. ``take_over`` claims the parent though its owner looks alive. ``dry_run`` only returns
        the plan.

        Raises ``MergeConflict``, ``EffectsStand`` if the parent made or undid effects that the fork has otherwise,
        ``ChildrenStand`` if children of the parent run that the fork does not have, ``Refused`` for a process that is
        no fork, ``ProcessFinished``, ``UnknownProcess``, ``JournalGap``, and what ``open`` raises.
        """
        from seekpoint.producers.history.promoting import PromoteRequest, plan_promotion, promote

        request = PromoteRequest(fork_id=fork_id, prefer=prefer, reason=reason, actor=actor, take_over=take_over)
        if dry_run:
            return await plan_promotion(self._runtime, request)
        return await promote(self._runtime, self._opener, request)

    async def rerun(
        self,
        agent: Agent,
        process_id: str,
        rerun_id: str | None = None,
        *,
        input: Any = RECORDED,  # the name that users expect
        model: str | None = None,
        effects: str = "recorded",
        timeout_s: float | None = None,
        reason: str | None = None,
        actor: str | None = None,
    ) -> Rerun:
        """Run a finished or failed process again as ``rerun_id``, here and now; return both runs side by side.

        ``agent`` may be other code, ``input`` another input, and ``model`` replaces the model that the requests of
        ``decide`` and ``wrap_model`` name. Records of the first run answer equal requests, so what did not change
        costs nothing; other steps and decisions are made. No effect is made: an equal one is answered
        (``effects="recorded"``), any other is refused, which ends the rerun as failed. Without ``rerun_id`` it is
        ``PROCESS_ID~MODEL``, or ``PROCESS_ID~rerun``. Asked for again, a rerun that was interrupted goes on, and one
        that has ended is only compared again. ``timeout_s`` limits how long it runs.

        Raises ``UnknownProcess``, ``Refused`` for a process that has not ended and for an id in use,
        ``InvalidSetting``, ``JournalGap``, ``LimitExceeded``, and what ``open`` raises. What the agent raises is in the
        result.
        """
        from seekpoint.producers.history.history_reads import HistoryReads
        from seekpoint.producers.history.rerunning import RerunRequest, rerun_id_of

        request = RerunRequest(
            process_id=process_id, rerun_id=rerun_id or rerun_id_of(process_id, model or "rerun"), agent=agent,
            model=model, input_json=self._input_json(agent, input), effects=effects, timeout_s=timeout_s, reason=reason,
            actor=actor,
        )  # fmt: skip
        return await self._rerun(request, HistoryReads(self._runtime))

    async def _rerun(self, request: RerunRequest, reads: HistoryReads) -> Rerun:
        from seekpoint.producers.history.rerunning import rerun

        def run(opening: Opening) -> Coroutine[Any, Any, Any]:
            return run_agent(self._runtime, opening, request.rerun_id, request.agent, RECORDED)

        return await rerun(self._runtime, self._opener, request, run, reads)

    async def rerun_many(
        self,
        agent: Agent,
        process_ids: Iterable[str],
        *,
        label: str | None = None,
        model: str | None = None,
        effects: str = "recorded",
        score: Callable[[Rerun], Any] | None = None,
        concurrency: int = 8,
        budget_usd: Decimal | str | None = None,
        timeout_s: float | None = 300.0,
        reason: str | None = None,
        actor: str | None = None,
    ) -> AsyncIterator[ScoredRerun]:
        """Run many processes again as ``rerun`` does; yield each with its score once it has ended, in no order.

        ``score(rerun)`` returns a number, or an awaitable of one. The id of a rerun is ``PROCESS_ID~LABEL``; the label
        is the model, or ``rerun``. The same call made again goes on where a crash interrupted it, and runs nothing
        twice. ``budget_usd``: no rerun begins once the reruns have cost that; it needs the node's ``prices``. A process
        that cannot be run again is yielded with the reason.

        Raises ``InvalidSetting``, and ``Retryable`` and ``HandleLost`` errors of the journal.
        """
        from seekpoint.producers.history.history_reads import HistoryReads
        from seekpoint.producers.history.many_reruns import RerunLimits, rerun_many
        from seekpoint.producers.history.rerunning import RerunRequest, rerun_id_of
        from seekpoint.schemas.errors import InvalidSetting

        limits = RerunLimits.of(concurrency, budget_usd)
        if limits.budget_usd is not None and self._runtime.prices is None:
            raise InvalidSetting("without prices nobody knows what a rerun costs", setting="prices", hint="give prices")
        name, reads = label or model or "rerun", HistoryReads(self._runtime)

        def again(process_id: str) -> Coroutine[Any, Any, Rerun]:
            request = RerunRequest(
                process_id=process_id, rerun_id=rerun_id_of(process_id, name), agent=agent, model=model,
                effects=effects, timeout_s=timeout_s, reason=reason, actor=actor,
            )  # fmt: skip
            return self._rerun(request, reads)

        async for one in rerun_many(again, process_ids, limits, score):
            yield one

    async def plan_rerun(
        self,
        agent: Agent,
        process_id: str,
        *,
        input: Any = RECORDED,  # the name that users expect
        model: str | None = None,
        effects: str = "recorded",
    ) -> ForkPlan:
        """Return what such a rerun would begin with; nothing is written. Raises as ``rerun`` does."""
        from seekpoint.producers.history.rerunning import RerunRequest, plan_rerun

        request = RerunRequest(
            process_id=process_id, rerun_id="", agent=agent, model=model, input_json=self._input_json(agent, input),
            effects=effects,
        )  # fmt: skip
        return await plan_rerun(self._runtime, request)

    def _input_json(self, agent: Agent, given: Any) -> str | None:
        from seekpoint.producers.durable.steps.agent import check_is_agent

        check_is_agent(agent)
        return None if given is RECORDED else journaled_input(agent, given, self._runtime.reader.limits)

    async def diff(self, left: str, right: str) -> ProcessDiff:
        """Compare two processes, or two moments: ``"PROCESS_ID"`` is as of now, ``"PROCESS_ID@SEQ"`` after seq SEQ.

        Raises ``UnknownProcess``, ``Refused`` for a seq that is not there, and ``JournalGap``.
        """
        from seekpoint.producers.history.comparing import compare
        from seekpoint.producers.history.history_points import named_moment

        (one_id, one_seq), (other_id, other_seq) = [await named_moment(name, self._is_known) for name in (left, right)]
        one = [logged async for logged in self._runtime.recovery.entries(one_id)]
        other = one if other_id == one_id else [logged async for logged in self._runtime.recovery.entries(other_id)]
        limits = self._runtime.reader.limits
        found: ProcessDiff = await self._runtime.in_thread(lambda: compare(one, other, one_seq, other_seq, limits))
        return found

    async def lineage(self, process_id: str) -> ProcessLineage:
        """Return where a process comes from and what comes from it: forks, reruns and children, in both directions.

        As of now. It reads the summaries of all processes: from the view, and without one from checkpoints and the log.
        Raises ``UnknownProcess``, and what a recovery raises.
        """
        from seekpoint.producers.history.lineages import find_lineage

        named_process_key(process_id)
        recoverer = self._runtime.recovery.blocking
        found: ProcessLineage = await self._runtime.in_thread(lambda: find_lineage(recoverer, process_id, _log_no_view))
        return found

    async def _is_known(self, process_id: str) -> bool:
        return (await self._runtime.recovery.recover(process_id, missing_ok=True)).known


def _log_no_view(why: str) -> None:
    logger.info("a lineage is read from checkpoints and the log: %s", why)
