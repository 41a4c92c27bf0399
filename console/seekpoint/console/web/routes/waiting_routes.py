"""Show what waits for a person: all open gates, all effects in doubt; and one of them whole, with its forms."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta

from seekpoint.console.web.acting.gate_actions import gate_facts
from seekpoint.console.web.data.waiting_list import WaitingList, waiting_in
from seekpoint.console.web.formats import moment
from seekpoint.console.web.json_texts import json_lines
from seekpoint.console.web.route_declarations import NoQuery, Operation, Visit, WebPage
from seekpoint.console.web.routes.process_routes import ProcessIdQuery, tab_page
from seekpoint.schemas.frozen_struct import FrozenStruct
from seekpoint.schemas.values.process_ids import named_process_key

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.responses import Response

    from seekpoint.console.services.arguments.target import CommandTarget
    from seekpoint.schemas.state.calls import Call

__all__ = ["OPERATIONS", "PAGES"]


class KeyQuery(ProcessIdQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A gate or an effect of a process."""

    key: Annotated[str, Meta(min_length=1, max_length=1_000)]


class GateQuestion(FrozenStruct, frozen=True, kw_only=True):
    """The question of an open gate."""

    process_id: str
    gate: dict[str, Any]


class EffectAnswer(FrozenStruct, frozen=True, kw_only=True):
    """An effect with every entry about it, as ``seekpoint effects show --json`` has it, and with epochs and times."""

    process_id: str
    effect: dict[str, Any]
    entries: list[dict[str, Any]]
    owner_node: str | None
    epoch: int


async def list_waiting(visit: Visit, query: NoQuery) -> WaitingList:
    """Return what waits for a person."""
    board = await visit.parts.board.current()
    return await visit.parts.in_thread(waiting_in, visit.parts.target, list(board.summaries.values()))


async def get_gate(visit: Visit, query: KeyQuery) -> GateQuestion:
    """Return the question of an open gate."""
    named_process_key(query.id)
    facts = await visit.parts.in_thread(gate_facts, visit.parts.target, query.id, query.key)
    return GateQuestion(process_id=query.id, gate=facts)


async def get_effect(visit: Visit, query: KeyQuery) -> EffectAnswer:
    """Return an effect with the evidence about it."""
    named_process_key(query.id)
    return await visit.parts.in_thread(_effect, visit.parts.target, query)


def _effect(target: CommandTarget, query: KeyQuery) -> EffectAnswer:
    from seekpoint.console.services.facts.effect_details import (
        an_effect,
        effect_entries,
        effect_facts,
        effects_from_journal,
        entry_facts,
    )

    state = target.recoverer.recover(query.id).state
    calls: Mapping[str, Call] = state.calls
    if query.key not in calls and (state.finished or state.turn):
        calls = effects_from_journal(target, query.id)
    facts = effect_facts(query.id, query.key, an_effect(query.id, query.key, calls), state)
    entries = [
        {**entry_facts(one), "epoch": None if one.entry.seq is None else one.entry.epoch, "time": moment(one.entry.ts)}
        for one in effect_entries(target, query.id, query.key)
    ]
    return EffectAnswer(
        process_id=query.id, effect=facts, entries=entries,
        owner_node=state.owner_node, epoch=state.epoch,
    )  # fmt: skip


async def show_waiting(visit: Visit, query: NoQuery) -> Response:
    """Show what waits for a person."""
    found = await list_waiting(visit, query)
    source = (await visit.parts.board.current()).source
    return visit.parts.templates.page(visit, "processes/waiting.html", found=found, source=source)


async def show_gate(visit: Visit, query: KeyQuery) -> Response:
    """Show the question of a gate, with the form that answers it. A script puts its ``#whole`` below a row."""
    facts = (await get_gate(visit, query)).gate
    prompt = facts["prompt"]
    lines = prompt.split("\n") if isinstance(prompt, str) else json_lines(prompt)
    return await tab_page(visit, "process/gate.html", query.id, gate=facts, lines=lines)


async def show_effect(visit: Visit, query: KeyQuery) -> Response:
    """Show an effect with the evidence about it, and the forms that settle it."""
    from seekpoint.schemas.state.calls import UNSETTLED

    found = await get_effect(visit, query)
    effect = found.effect
    asked = next((one["arguments"] for one in found.entries if "arguments" in one), None)
    entries = [{**one, "details": _details(one)} for one in found.entries]
    return await tab_page(
        visit, "process/effect.html", query.id, effect=effect, entries=entries, asked=_lines(asked),
        owner=found.owner_node, epoch=found.epoch, output=json_lines(effect["output"]),
        error=json_lines(effect["error"]), may_settle=effect["status"] in UNSETTLED,
    )  # fmt: skip


def _details(entry: dict[str, Any]) -> str:
    names = ("outcome", "settled_by", "reason", "output", "error", "idempotency_key")
    return ", ".join(f"{name.replace('_', ' ')} {entry[name]}" for name in names if name in entry)


def _lines(text: str | None) -> list[str]:
    """Return a JSON text as indented lines."""
    import orjson

    if text is None:
        return []
    try:
        return json_lines(orjson.loads(text))
    except orjson.JSONDecodeError:
        return text.split("\n")


PAGES = (
    WebPage(path="/waiting", show=show_waiting, nav="Waiting"),
    WebPage(path="/gate", show=show_gate, query=KeyQuery),
    WebPage(path="/effect", show=show_effect, query=KeyQuery),
)
OPERATIONS = (
    Operation(
        path="/api/waiting", summary="List open gates and effects in doubt.", call=list_waiting, answer=WaitingList,
        raises=(409, 410),
    ),
    Operation(
        path="/api/gate", summary="Return the question of an open gate.", call=get_gate, query=KeyQuery,
        answer=GateQuestion, raises=(404, 409, 410),
    ),
    Operation(
        path="/api/effect", summary="Return an effect with the evidence about it.", call=get_effect, query=KeyQuery,
        answer=EffectAnswer, raises=(404, 409, 410),
    ),
)  # fmt: skip
