"""How changes are declared, and the calls of the API that they become."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta

from seekpoint.console.web.acting.plans import ActionAnswer, ActionOutcome, Drawn, Planned
from seekpoint.console.web.auth.user_identity import Role
from seekpoint.console.web.failures import BadRequest
from seekpoint.console.web.route_declarations import NoQuery, Operation, Visit
from seekpoint.schemas.frozen_struct import FrozenStruct
from seekpoint.schemas.values.process_ids import named_process_key

if TYPE_CHECKING:
    from seekpoint.schemas.state.process_state import State

ProcessId = Annotated[str, Meta(min_length=1, max_length=200)]
Key = Annotated[str, Meta(min_length=1, max_length=1_000)]


class ActionRequest(FrozenStruct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The fields of the body of every request for a change."""

    reason: Annotated[str, Meta(min_length=1, max_length=500, pattern=r"\S")]
    """Why: the entry carries it, beside the name of who asked."""
    plan_id: Annotated[str, Meta(max_length=64)] | None = None
    """The dry run to carry out. Without it nothing is changed, and the answer is the dry run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """A change. ``draw`` makes its dry run, ``act`` carries it out as the visitor, and returns what was done.

    ``draw`` gets the dry run that was shown when it makes it anew.
    """

    name: str
    summary: str
    request: type[ActionRequest]
    draw: Callable[[Visit, Any, Planned | None], Awaitable[Drawn]]
    act: Callable[[Visit, Any, Planned], Awaitable[ActionOutcome]]
    role: Role = Role.OPERATOR

    def operation(self) -> Operation:
        """Return the call of the API."""

        async def call(visit: Visit, query: NoQuery, body: Any) -> ActionAnswer:
            if hasattr(body, "id"):
                named_process_key(body.id)
            plans, who = visit.parts.plans, visit.identity
            request = self.name.encode() + msgspec.json.encode(msgspec.structs.replace(body, plan_id=None))
            if body.plan_id is None:
                return ActionAnswer(planned=plans.keep(who, self.name, request, await self.draw(visit, body, None)))
            return await plans.carry_out(
                body.plan_id, who, request, lambda plan: self.draw(visit, body, plan),
                lambda plan: self.act(visit, body, plan),
            )  # fmt: skip

        call.__name__ = self.name.replace("-", "_")
        return Operation(
            path=f"/api/{self.name}", summary=self.summary, call=call, answer=ActionAnswer, method="POST",
            body=self.request, role=self.role, raises=(404, 409, 410),
        )  # fmt: skip


def standing(state: State) -> dict[str, Any]:
    """Return the facts about a process that a dry run depends on.

    A process that nobody owns stands still, so every entry of it counts. One that runs goes on all the time: of it
    only the owner counts, and what the change itself is about.
    """
    owned = {"epoch": state.epoch, "owner_node": state.owner_node}
    if state.owner is not None:
        return owned
    return {**owned, "seq": state.seq, "offset": state.offset, "lifecycle": str(state.lifecycle)}


def json_in(text: str | None, name: str) -> Any:
    """Return the value of a JSON text in a form. Raises ``BadRequest``."""
    from seekpoint.schemas.errors import SeekpointError
    from seekpoint.schemas.values.json_values import load_written

    try:
        return None if text is None else load_written(text)
    except SeekpointError:
        raise BadRequest(400, "BadBody", f"{name} is not JSON", 'a string needs quotes of its own: "yes"') from None


def process_address(process_id: str, page: str = "process") -> str:
    """Return the address of a page of a process."""
    from urllib.parse import quote

    return f"/{page}?id={quote(process_id, safe='')}"
