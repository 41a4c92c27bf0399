"""Dry runs that were shown, and what became of them.

    a request without ``plan_id``  ->  its dry run, kept under an id
    the same request with the id   ->  the dry run again; if it is equal: the change, once

So nobody changes anything unseen, what moved in between is a conflict, and a form that is sent twice acts once.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import msgspec

from seekpoint.console.web.failures import BadRequest, plain_text
from seekpoint.schemas.frozen_struct import FrozenStruct

if TYPE_CHECKING:
    from seekpoint.console.web.auth.user_identity import UserIdentity

__all__ = ["ActionAnswer", "ActionOutcome", "Drawn", "Link", "PlanKeeper", "PlanLine", "Planned"]

KEPT_S = 900.0
KEPT_MAX = 200


class PlanLine(FrozenStruct, frozen=True):
    """One consequence. ``kind``: ``does``, ``keeps``, ``drops`` or ``warns``."""

    kind: str
    text: str


class Drawn(FrozenStruct, frozen=True, kw_only=True):
    """A dry run. ``facts`` is what it depends on: if one of them changes, the change is refused."""

    title: str
    lines: list[PlanLine]
    facts: dict[str, Any]


class Planned(FrozenStruct, frozen=True, kw_only=True):
    """A dry run that was shown. Send the request again with its ``plan_id`` to carry it out."""

    plan_id: str
    action: str
    title: str
    lines: list[PlanLine]
    facts: dict[str, Any]


class Link(FrozenStruct, frozen=True):
    """A page to look at next."""

    text: str
    address: str


class ActionOutcome(FrozenStruct, frozen=True, kw_only=True):
    """The result of a change, told in words and links."""

    text: str
    links: tuple[Link, ...] = ()
    facts: dict[str, Any] = msgspec.field(default_factory=dict)


class ActionAnswer(FrozenStruct, frozen=True, kw_only=True):
    """The dry run, and once it was carried out the outcome."""

    planned: Planned
    outcome: ActionOutcome | None = None


@dataclass(slots=True)
class _KeptPlan:
    planned: Planned
    facts: bytes
    owner: UserIdentity
    request: bytes
    since: float = field(default_factory=time.monotonic)
    carried_out: asyncio.Task[ActionOutcome] | None = None


class PlanKeeper:
    """Keeps the newest dry runs for a quarter of an hour. Use it in the event loop that serves."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, _KeptPlan] = OrderedDict()

    def keep(self, owner: UserIdentity, action: str, request: bytes, drawn: Drawn) -> Planned:
        """Keep a dry run and return it with its id. ``request`` is the request without an id."""
        planned = Planned(
            plan_id=uuid4().hex, action=action, title=drawn.title, lines=drawn.lines, facts=drawn.facts
        )  # fmt: skip
        self._kept[planned.plan_id] = _KeptPlan(planned, _encoded(drawn.facts), owner, request)
        self._forget_old()
        return planned

    async def carry_out(
        self,
        plan_id: str,
        owner: UserIdentity,
        request: bytes,
        draw: Callable[[Planned], Awaitable[Drawn]],
        act: Callable[[Planned], Awaitable[ActionOutcome]],
    ) -> ActionAnswer:
        """Carry out a dry run once, and return the outcome as often as it is asked for.

        ``draw`` makes the dry run anew. Raises ``BadRequest`` if it is not that of ``request``, is not kept any more,
        or has changed. After a failure the same id may be tried again.
        """
        self._forget_old()
        kept = self._kept.get(plan_id)
        if kept is None or kept.owner != owner or kept.request != request:
            why = "this dry run is not known" if kept is None else "this dry run is that of another request"
            raise BadRequest(
                409, "NoSuchPlan", f"{why}; nothing was done", "make the dry run again, and carry that out"
            )
        if kept.carried_out is None:
            kept.carried_out = asyncio.create_task(_carried_out(kept, draw, act))
        task = kept.carried_out
        try:
            outcome = await asyncio.shield(task)
        except Exception:
            if kept.carried_out is task:
                kept.carried_out = None
            raise
        return ActionAnswer(planned=kept.planned, outcome=outcome)

    def _forget_old(self) -> None:
        now = time.monotonic()
        while self._kept:
            oldest = next(iter(self._kept.values()))
            if len(self._kept) <= KEPT_MAX and now - oldest.since < KEPT_S:
                return
            self._kept.popitem(last=False)


async def _carried_out(
    kept: _KeptPlan, draw: Callable[[Planned], Awaitable[Drawn]], act: Callable[[Planned], Awaitable[ActionOutcome]]
) -> ActionOutcome:
    drawn = await draw(kept.planned)
    if _encoded(drawn.facts) != kept.facts:
        raise _changed(kept.planned.facts, drawn.facts)
    return await act(kept.planned)


def _changed(before: dict[str, Any], now: dict[str, Any]) -> BadRequest:
    names = sorted(name for name in {*before, *now} if before.get(name) != now.get(name))
    facts: dict[str, Any] = {"changed": ", ".join(name.replace("_", " ") for name in names)}
    for name in names:
        values = before.get(name), now.get(name)
        if not any(isinstance(value, list | dict) for value in values):
            facts[name] = " -> ".join(str(plain_text(value, str)) for value in values)
    return BadRequest(
        409, "PlanChanged", "the process went on since the dry run; nothing was done",
        "look at the new dry run, and decide again", facts,
    )  # fmt: skip


def _encoded(facts: dict[str, Any]) -> bytes:
    return msgspec.json.encode(facts, order="deterministic")
