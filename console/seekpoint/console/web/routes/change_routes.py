"""The forms that change something, and the calls of the API behind them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from seekpoint.console.services.calls.control_checks import is_asked_to_stop
from seekpoint.console.services.facts.effect_details import effects_of
from seekpoint.console.web.acting import (
    bulk_actions,
    control_actions,
    effect_actions,
    gate_actions,
    history_actions,
    rerun_actions,
    staging_actions,
)
from seekpoint.console.web.auth.user_identity import Role
from seekpoint.console.web.data.board import ListQuery
from seekpoint.console.web.data.waiting_list import unanswered
from seekpoint.console.web.route_declarations import Operation, Visit, WebPage
from seekpoint.console.web.routes.process_routes import ProcessIdQuery, tab_page
from seekpoint.schemas.values.process_ids import named_process_key

if TYPE_CHECKING:
    from collections.abc import Collection

    from starlette.responses import Response

    from seekpoint.schemas.state.process_state import State

__all__ = ["ACTIONS", "OPERATIONS", "PAGES"]

ACTIONS = (
    *gate_actions.ACTIONS,
    *effect_actions.ACTIONS,
    *control_actions.ACTIONS,
    *history_actions.ACTIONS,
    *bulk_actions.ACTIONS,
    *rerun_actions.ACTIONS,
    *staging_actions.ACTIONS,
)


async def show_act(visit: Visit, query: ProcessIdQuery) -> Response:
    """Show what can be done with a process as it is now."""
    named_process_key(query.id)
    recoverer = visit.parts.target.recoverer
    state = (await visit.parts.in_thread(lambda: recoverer.recover(query.id))).state
    agents = {one.name for one in visit.parts.options.agents}
    return await tab_page(visit, "process/act.html", query.id, **_choices(query.id, state, agents))


def _choices(process_id: str, state: State, agents: Collection[str]) -> dict[str, Any]:
    """Return which forms fit the state."""
    from seekpoint.schemas.state.calls import UNSETTLED
    from seekpoint.schemas.state.lifecycle import Lifecycle

    is_failed = not state.finished and state.lifecycle is Lifecycle.FAILED and state.agent is not None
    is_open = not state.finished
    return {
        "gates": [*unanswered(process_id, state)],
        "effects": [one for one in effects_of(process_id, state) if is_open and one["status"] in UNSETTLED],
        "may_cancel": is_open and not is_asked_to_stop(state),
        "may_suspend": is_open and not state.is_on_hold,
        "may_resume": is_open and (state.is_on_hold or state.lifecycle is Lifecycle.SUSPENDED),
        "may_redrive": is_failed or (is_open and state.lifecycle is Lifecycle.AWAITING and state.agent is not None),
        "may_rewind": is_open and state.cancelled is None,
        "is_fork": state.lineage.parent_id is not None,
        "has_ended": state.agent is not None and (state.finished or is_failed),
        "has_code": state.agent is not None and state.agent.name in agents,
        "seq": state.seq,
        "keys": [key for key, call in state.calls.items() if call.status != "started"][-200:],
    }


async def show_bulk(visit: Visit, query: ListQuery) -> Response:
    """Show the forms that change all processes that a filter selects."""
    found = (await visit.parts.board.current()).matching(query)
    filters = [(name, value) for name in ("prefix", "agent", "lifecycle", "since") if (value := getattr(query, name))]
    return visit.parts.templates.page(
        visit,
        "processes/bulk.html",
        total=len(found),
        filters=filters,
        only=query.only,
        address=visit.request.url.query,
    )


PAGES: tuple[WebPage, ...] = (
    WebPage(path="/act", show=show_act, query=ProcessIdQuery, tab="Act", role=Role.OPERATOR),
    WebPage(path="/bulk", show=show_bulk, query=ListQuery, role=Role.OPERATOR),
)
OPERATIONS: tuple[Operation, ...] = tuple(action.operation() for action in ACTIONS)
