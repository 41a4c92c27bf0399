"""Find what waits for a person: open gates, and effects of which nobody knows whether they happened."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from seekpoint.console.render.gate_rows import gates_of, prompt_text
from seekpoint.console.services.facts.effect_details import effects_of
from seekpoint.schemas.frozen_struct import FrozenStruct

if TYPE_CHECKING:
    from collections.abc import Collection

    from seekpoint.console.services.arguments.target import CommandTarget
    from seekpoint.consumers.view.process_summary import Summary
    from seekpoint.schemas.state.process_state import State

PROCESSES_MAX = 500


class GateRow(FrozenStruct, frozen=True, kw_only=True):
    """An open gate that nobody has answered, as ``seekpoint gates ls --json`` has it."""

    process_id: str
    agent: str | None
    key: str
    name: str
    prompt: Any
    deadline: str | None
    seq: int
    refused: str | None = None
    """Why its newest answer was refused."""

    @property
    def question(self) -> str:
        """Return the prompt on one line, shortened."""
        text = " ".join(prompt_text(self.prompt).split())
        return text if len(text) <= 300 else f"{text[:300]}…"


class EffectRow(FrozenStruct, frozen=True, kw_only=True):
    """An effect in doubt."""

    process_id: str
    agent: str | None
    owner_node: str | None
    """Who may be making it now."""
    key: str
    status: str
    semantics: str | None
    business_key: str | None
    attempts: int
    seq: int


class WaitingList(FrozenStruct, frozen=True, kw_only=True):
    """The gates and effects that wait for a person. Gates with the earliest deadline come first."""

    gates: list[GateRow]
    effects: list[EffectRow]
    processes_left_out: int
    """There are so many more processes that wait; answer these first."""


def waiting_in(target: CommandTarget, summaries: Collection[Summary]) -> WaitingList:
    """Return what waits for a person among these processes. Blocks: it recovers those that have something."""
    chosen = [one for one in summaries if not one.finished and ("gate" in one.waits_for or one.unsettled)]
    chosen.sort(key=lambda one: (one.until_us or 2**63, one.updated_us, one.process_id))
    shown = chosen[:PROCESSES_MAX]
    recovered = target.recoverer.recover_many(one.process_id for one in shown) if shown else {}
    known = [(one, recovered[one.process_id].state) for one in shown if recovered[one.process_id].known]
    gates = [
        GateRow(agent=one.agent, **facts) for one, state in known for facts in unanswered(one.process_id, state)
    ]  # fmt: skip
    effects = [_effect_row(one, facts) for one, state in known for facts in _in_doubt(one.process_id, state)]
    return WaitingList(
        gates=sorted(gates, key=lambda gate: (gate.deadline or "~", gate.process_id, gate.seq)), effects=effects,
        processes_left_out=len(chosen) - len(shown),
    )  # fmt: skip


def unanswered(process_id: str, state: State) -> Iterator[dict[str, Any]]:
    """Yield the open gates that nobody has answered, oldest first."""
    from seekpoint.producers.durable.waits.gate_answers import unanswered_gates

    keys = {gate.key for gate in unanswered_gates(state)}
    return (facts for facts in gates_of(process_id, state) if facts["key"] in keys)


def _in_doubt(process_id: str, state: State) -> Iterator[dict[str, Any]]:
    from seekpoint.schemas.state.calls import UNSETTLED

    found: Iterable[dict[str, Any]] = () if state.finished else effects_of(process_id, state)
    return (facts for facts in found if facts["status"] in UNSETTLED)


def _effect_row(one: Summary, facts: dict[str, Any]) -> EffectRow:
    names = ("process_id", "key", "status", "semantics", "business_key", "attempts", "seq")
    return EffectRow(agent=one.agent, owner_node=one.owner_node, **{name: facts[name] for name in names})
