"""Spawn child processes: each is a process of its own, with an owner of its own.

    ChildSpawned, acknowledged -> the child runs -> ChildEnded: its result or its failure

``node.run`` runs the child beside its parent. A worker submits it to the inbox, so that any worker runs it, and waits
for its end by the log.

A parent that runs again spawns again: a child that has not ended is resumed, and the result of one that has ended is
recorded. Children end before the turn, or the run, that spawned them. A request to cancel the parent cancels them too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, overload

from seekpoint.producers.durable.durable_process import DurableCalls, DurableProcess
from seekpoint.producers.durable.effects.real_effects import check_fork_may
from seekpoint.producers.durable.replay.call_digest import text_digest
from seekpoint.producers.durable.steps.agent import Agent, Input, Output, check_is_agent
from seekpoint.producers.durable.steps.agent_values import journaled_input
from seekpoint.producers.durable.waits.shared_values import check_ownable
from seekpoint.schemas import bodies as b
from seekpoint.schemas.errors import Refused, ReplayDivergence
from seekpoint.schemas.values.json_values import dump

if TYPE_CHECKING:
    from seekpoint.producers.durable.waits.child_runs import Child


class ChildCalls(DurableCalls):
    """The child calls of a process."""

    @overload
    def spawn(
        self, agent: Agent[Input, Output], child_id: str, input: Input, *, key: str | None = None,
        budget: Mapping[str, Any] | None = None,
    ) -> Child[Output]: ...  # fmt: skip
    @overload
    def spawn(
        self, agent: Agent[None, Output], child_id: str, *, key: str | None = None,
        budget: Mapping[str, Any] | None = None,
    ) -> Child[Output]: ...  # fmt: skip
    def spawn(
        self, agent: Agent[Any, Output], child_id: str, input: Any = None, *, key: str | None = None,
        budget: Mapping[str, Any] | None = None,
    ) -> Child[Output]:  # fmt: skip
        """Run ``agent`` as the process ``child_id``, beside this code; ``await child.result()`` returns its result.

        The child begins once its spawn is journaled here. An id is never free again: derive it from this process's id,
        as in ``f"{process.process_id}.1"``, so that a fork has children of its own. The child ends before the turn or
        the run does, awaited or not. On a worker that has code for ``agent`` the child is submitted to the inbox, and
        any worker runs it. Elsewhere it runs beside this code, and if this run fails, the child is released as it
        stands and resumed with this process.

        ``budget``, such as ``{"usd": "1"}``, is what the child and its own children may use: this process's budget
        reserves it, and is charged what the child used when it ends. Without it the child may use what the limits of
        this process leave when it begins, nothing is reserved, and several such children at once may exceed them
        together. Limits that its code sets are not higher; a person may raise them.

        Raises ``BudgetExceeded`` (by ``result()``), ``InvalidSetting`` for a budget that is none,
        ``ReplayDivergence``, ``UnserializableValue``, ``InvalidValue`` for an input that does not fit the agent's
        annotation, and ``Refused`` for this process's own id.
        """
        from seekpoint.producers.durable.waits.child_runs import Child

        process = self._durable
        check_is_agent(agent)
        if child_id == process.process_id:
            raise Refused("a process is not its own child", process_id=child_id)
        check_ownable(child_id)
        if budget is not None:
            from seekpoint.producers.durable.budgets.budget_checks import amounts_of

            amounts_of(budget)  # raises before anything is written
        text = dump(input, process.limits, agent.types.input is not None)
        asked_id = _recorded_id(process, agent, child_id, text) if process.matcher.records else child_id
        try:
            place = process.matcher.place("child", agent.name, _digest(agent, asked_id, text), key)
        except ReplayDivergence as exc:  # raised here, where nothing is awaited: the run reports the difference
            exc.asks = exc.asks or b.ChildSpawned(name=agent.name, child_id=child_id, input=text)
            raise
        process.cancellation.check_call(place)
        if process.executes(place) and (place.record is None or place.record.status == "started"):
            check_fork_may(process, "child", place.key)
        child: Child[Output] = Child(process, place, agent, child_id if place.record is None else asked_id, text)
        if not process.executes(place):
            return child
        if place.record is None:
            journaled_input(agent, input, process.limits, child_id)  # raises if it does not fit
            child.begin(
                b.ChildSpawned(
                    key=place.key, position=place.position, name=agent.name, digest=_digest(agent, child_id, text),
                    child_id=child_id, agent=agent.name, version=agent.version, input=text,
                ),
                budget or {},
            )  # fmt: skip
        elif place.record.status == "started":
            child.begin(None)
        return child


def _digest(agent: Agent, child_id: str, text: str) -> str:
    return text_digest(agent.name, f"{child_id}\0{text}")


def _recorded_id(process: DurableProcess, agent: Agent, child_id: str, text: str) -> str:
    """Return the id that the history has for this child, if the code derives the id from that of its process.

    The code of a fork, or of a parent that took over a fork's calls, asks for another id than the one that made the
    record: the record of ``case-17.1`` answers ``case-17-b.1``.
    """
    recorded, ending = process.matcher.recorded_children, child_id.removeprefix(process.process_id)
    if child_id in recorded or ending == child_id or ending[:1].isalnum():
        return child_id
    alike = (one for one, digest in recorded.items() if one.endswith(ending) and digest == _digest(agent, one, text))
    return next(alike, child_id)
