"""Run a child process beside the code that spawned it, and return its result."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Coroutine, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic

from msgspec.structs import replace

from seekpoint.producers.durable.durable_process import DurableProcess
from seekpoint.producers.durable.failures.failed_calls import tagged
from seekpoint.producers.durable.failures.recorded_failures import (
    exact_failure,
    failure_text,
    failure_to_raise,
    is_failure,
    recorded_failure,
)
from seekpoint.producers.durable.replay.history_matcher import CallPlace
from seekpoint.producers.durable.steps.agent import OutputT
from seekpoint.producers.durable.steps.agent_values import rebuilt_result
from seekpoint.producers.durable.waits.children import ChildEnd, ChildFailure
from seekpoint.schemas import bodies as b
from seekpoint.schemas.errors import AlreadyOpen, Cancelled, ClaimLost, Fenced, OwnerAlive, ProcessSuspended, Retryable
from seekpoint.schemas.state.calls import Call
from seekpoint.schemas.values.json_values import dump, load

if TYPE_CHECKING:
    from seekpoint.producers.durable.steps.agent import Agent
logger = logging.getLogger("seekpoint.producers")

_DAY_US = 86_400_000_000
_NO_BUDGET: Mapping[str, Any] = MappingProxyType({})
_WAIT_S = 5.0
"""How long one attempt waits for a child that another node owns."""
_SUSPENDED_S = 1.0
"""After how long to look again whether a suspended child was resumed."""


class Child(Generic[OutputT]):
    """A child process of the code that spawned it."""

    def __init__(
        self, process: DurableProcess, place: CallPlace, agent: Agent[Any, OutputT], child_id: str, input_json: b.Json
    ) -> None:
        self.child_id = child_id
        """The id of the child's process."""
        self.key = place.key
        self._process = process
        self._place = place
        self._agent = agent
        self._input = load(input_json)
        self._task: asyncio.Task[ChildEnd] | None = None

    def result(self) -> Coroutine[Any, Any, OutputT]:
        """Return what the child's agent returned, once it has; the parent is ``awaiting`` meanwhile.

        Raises what the agent raised, in this run and in every later one. Raises ``Cancelled`` if the child was
        cancelled (with the child's ``process_id``), or the parent is.
        """
        record = self._place.record
        if self._task is None and record is not None:
            return self._process.in_order(self._place, _recorded, self, record)
        return self._process.in_order(self._place, self._result)

    async def _result(self) -> Any:
        assert self._task is not None
        end = await self._process.waiting.until_task(self._task)
        if end.outcome == "succeeded":
            return rebuilt_result(self._agent, end.text, self.child_id)
        if end.error is None:
            error = recorded_failure(end.text, key=self.key)
            raise tagged(error, self.key, self._place.scope, recorded=end.text)
        raise tagged(failure_to_raise(end.error, end.text, self.key), self.key, self._place.scope)

    @property
    def _is_set_aside(self) -> bool:
        """Whether the child failed before, and a person asked to retry the failed calls."""
        record = self._place.record
        return record is not None and bool(record.facts.get("set_aside"))

    # --- the run
    def begin(self, spawned: b.ChildSpawned | None, budget: Mapping[str, Any] = _NO_BUDGET) -> None:
        """Run the child beside the code. ``spawned``, if any, is acknowledged first; ``budget`` admits it before."""
        sent: Awaitable[object] | None = None
        if spawned is not None:
            is_free = self._process.ahead_budget is None and not budget
            sent = self._process.sent(spawned) if is_free else self._admitted(spawned, budget)
        self._task = asyncio.create_task(self._run_recorded(sent), name=f"seekpoint-child-{self.child_id}")
        self._task.add_done_callback(self._process.waiting.wake)
        self._process.children.add(self.key, self.child_id, self._task)

    async def _admitted(self, spawned: b.ChildSpawned, budget: Mapping[str, Any]) -> None:
        """Write ``spawned`` with what the child may use, once the parent's budget has room for it."""
        from seekpoint.producers.durable.budgets.budget_checks import admit, amount_texts, amounts_of, rest_of

        process, wanted = self._process, amounts_of(budget)
        await admit(process, self._place, wanted)
        limits, of_parent = wanted, process.ahead_budget
        if of_parent is not None:
            limits = {**rest_of(of_parent, self.key, process.clock.now_us() // _DAY_US), **wanted}
        estimate = amount_texts(wanted) if wanted else None
        await process.sent(replace(spawned, estimate=estimate, limits=amount_texts(limits)))

    async def _spent(self) -> b.Json | None:
        """Return what the child used, for the budget of its parent; None if that limits nothing."""
        if self._process.ahead_budget is None:
            return None
        from seekpoint.producers.durable.budgets.budget_checks import amount_texts

        budget = (await self._process.session.recover(self.child_id, missing_ok=True)).state.budget
        return None if budget is None else amount_texts(budget.used)

    async def _run_recorded(self, sent: Awaitable[object] | None) -> ChildEnd:
        if sent is not None:
            await sent
        if self._process.cancellation.is_accepted and not self._process.cancellation.is_compensating:
            await self._process.children.request_cancel(self.key, self.child_id)
        end = await self._run()
        succeeded = end.outcome == "succeeded"
        await self._process.append(
            b.ChildEnded(
                key=self.key, outcome=end.outcome, result=end.text if succeeded else "null",
                error=None if succeeded else end.text, spent=await self._spent(),
            )
        )  # fmt: skip
        return end

    async def _run(self) -> ChildEnd:
        """Run the child until it has ended, on whichever node. Raises an error that leaves the child in doubt."""
        process = self._process
        while True:
            try:
                result = await process.session.run_child(
                    self._agent, self.child_id, self._input, key=self.key, wait_s=_WAIT_S,
                    retry_failed=self._is_set_aside,
                )  # fmt: skip
                return ChildEnd("succeeded", dump(result, process.limits, True))
            except (OwnerAlive, AlreadyOpen, ClaimLost, Fenced, ProcessSuspended) as exc:
                logger.info("%s waits for its child %s: %s", self._process.process_id, self.child_id, exc)
                self._process.session.check()
                await asyncio.sleep(_SUSPENDED_S if isinstance(exc, ProcessSuspended) else 0.05)
            except ChildFailure as exc:
                return ChildEnd("failed", exact_failure(exc.text))
            except Exception as exc:
                if isinstance(exc, Retryable) or not (is_failure(exc) or isinstance(exc, Cancelled)):
                    raise
                return ChildEnd("failed", failure_text(exc, process.settings, process.limits), exc)


async def _recorded(child: Child[Any], record: Call) -> Any:
    process, place = child._process, child._place
    if record.status == "succeeded":
        return rebuilt_result(child._agent, record.output or "null", child.child_id)
    text = record.error or "{}"
    error = recorded_failure(text, process_id=process.process_id, key=place.key, seq=process.written.entry_seq(record))
    raise tagged(error, place.key, place.scope, recorded=text)
