"""Cancel, suspend and redrive all processes that a filter selects."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import Meta

from seekpoint.console.render.output import counted
from seekpoint.console.services.calls.client_calls import with_client
from seekpoint.console.web.acting.actions import Action, ActionRequest, standing
from seekpoint.console.web.acting.control_actions import CANCEL, REDRIVE, SUSPEND, Verb
from seekpoint.console.web.acting.plans import ActionOutcome, Drawn, Link, PlanLine
from seekpoint.console.web.data.board import ListQuery
from seekpoint.console.web.failures import BadRequest

if TYPE_CHECKING:
    from seekpoint.console.services.arguments.target import CommandTarget
    from seekpoint.console.web.acting.plans import Planned
    from seekpoint.console.web.route_declarations import Visit
    from seekpoint.producers import Client

BULK_MAX = 5_000
_LISTED_MAX = 500
_AT_ONCE = 100
_RECOVERED_AT_ONCE = 1_000


class BulkActionRequest(ActionRequest, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The processes that a filter selects: the parameters of the list of processes."""

    prefix: Annotated[str, Meta(max_length=200)] | None = None
    agent: Annotated[str, Meta(max_length=200)] | None = None
    lifecycle: str | None = None
    only: tuple[str, ...] = ()
    since: str | None = None
    in_doubt: bool = False
    """Of a redrive: steps and decisions in doubt begin anew too."""

    def query(self) -> ListQuery:
        """Return the filter."""
        return ListQuery(
            prefix=self.prefix, agent=self.agent, lifecycle=self.lifecycle, only=self.only, since=self.since
        )


async def _draw(verb: Verb, visit: Visit, request: BulkActionRequest, planned: Planned | None) -> Drawn:
    if planned is not None:  # each process is checked when its turn comes; those that are new are not touched
        return Drawn(title=planned.title, lines=planned.lines, facts=planned.facts)
    found = (await visit.parts.board.current()).matching(request.query())
    if len(found) > BULK_MAX:
        raise BadRequest(
            409, "TooMany", f"the filter selects {len(found):,} processes; {BULK_MAX:,} are the most at once",
            "narrow the filter, by agent, status or id",
        )  # fmt: skip
    ids = sorted(one.process_id for one in found)
    may, may_not = await visit.parts.in_thread(_checked, visit.parts.target, verb, ids)
    counts = f"{counted(len(may), 'process')} of {len(ids):,}"
    lines = [PlanLine("does" if may else "warns", f"{_CONSEQUENCES[verb.name]} {counts}")]
    lines += [PlanLine("does", process_id) for process_id in [*may][:_LISTED_MAX]]
    if len(may) > _LISTED_MAX:
        lines.append(PlanLine("does", f"and {len(may) - _LISTED_MAX:,} more"))
    lines += _left_out(may_not)
    title = f"{verb.name.capitalize()} {counted(len(may), 'process')}"
    return Drawn(title=title, lines=lines, facts={"selected": may, "left_out": may_not})


_CONSEQUENCES = {"cancel": "stops, for ever,", "suspend": "puts on hold", "redrive": "tries again"}


def _left_out(may_not: dict[str, str]) -> Iterator[PlanLine]:
    by_reason: dict[str, list[str]] = {}
    for process_id, why in may_not.items():
        by_reason.setdefault(why, []).append(process_id)
    for why, ids in by_reason.items():
        more = f", and {len(ids) - 10:,} more" if len(ids) > 10 else ""
        yield PlanLine("keeps", f"leaves out {', '.join(ids[:10])}{more}: {why}")


def _checked(target: CommandTarget, verb: Verb, ids: list[str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return what each process depends on, and why others are left out. Blocks."""
    from seekpoint.schemas.errors import Refused, SeekpointError

    may: dict[str, str] = {}
    may_not: dict[str, str] = {}
    for some in _chunks(ids, _RECOVERED_AT_ONCE):
        for process_id, found in target.recoverer.recover_many(some, must_be_current=True).items():
            try:
                facts = {**verb.facts(process_id, found.state), **standing(found.state)}
                if facts.get("failure", "") is None:  # a redrive of many is for those that failed
                    raise Refused("the run of the process did not fail", process_id=process_id)
            except SeekpointError as exc:
                may_not[process_id] = exc.message.removesuffix(", nothing was sent")
            else:
                may[process_id] = sha256(msgspec.json.encode(facts, order="deterministic")).hexdigest()[:16]
    return may, may_not


async def _act(verb: Verb, visit: Visit, request: BulkActionRequest, plan: Planned) -> ActionOutcome:
    return await visit.parts.in_thread(_sent, verb, visit.parts.target, request, visit.identity.name, plan)


def _sent(verb: Verb, target: CommandTarget, request: BulkActionRequest, actor: str, plan: Planned) -> ActionOutcome:
    selected: dict[str, str] = plan.facts["selected"]
    now, _ = _checked(target, verb, sorted(selected))
    same = [process_id for process_id, digest in selected.items() if now.get(process_id) == digest]
    moved = sorted(selected.keys() - set(same))
    if not same:
        raise BadRequest(
            409, "PlanChanged", "none of these processes is as the dry run showed it; nothing was done",
            "look at the new dry run, and decide again", {"moved": len(moved)},
        )  # fmt: skip
    sent, failed = with_client(target.settings, lambda client: _send_all(verb, client, request, actor, same))
    failed |= _undelivered(target, sent)
    done = [process_id for process_id in same if process_id not in failed]
    text = f"{counted(len(done), 'process')} {verb.past}, as {actor}"
    if moved:
        text += f"; {counted(len(moved), 'process')} went on since the dry run and were left out: {_some(moved)}"
    if failed:
        text += f"; {counted(len(failed), 'process')} could not be told: {_some(sorted(failed))}"
    return ActionOutcome(
        text=text, links=(Link("all processes", "/processes"),),
        facts={"done": done, "moved": moved, "failed": failed, "actor": actor},
    )  # fmt: skip


async def _send_all(
    verb: Verb, client: Client, request: BulkActionRequest, actor: str, ids: list[str]
) -> tuple[dict[str, bytes], dict[str, str]]:
    """Tell all of them. Return the ids of the entries, and what failed, by process."""
    from seekpoint.schemas.errors import SeekpointError

    sent: dict[str, bytes] = {}
    failed: dict[str, str] = {}
    for some in _chunks(ids, _AT_ONCE):
        outcomes = await asyncio.gather(
            *(verb.send(client, process_id, request, actor) for process_id in some), return_exceptions=True
        )
        for process_id, outcome in zip(some, outcomes, strict=True):
            if isinstance(outcome, bytes):
                sent[process_id] = outcome
            elif isinstance(outcome, SeekpointError):
                failed[process_id] = outcome.message
            else:
                raise outcome
    return sent, failed


def _undelivered(target: CommandTarget, sent: dict[str, bytes]) -> dict[str, str]:
    """Return the processes whose mailbox was full. Blocks."""
    from seekpoint.schemas.errors import Retryable

    found: dict[str, str] = {}
    try:
        for some in _chunks([*sent], _RECOVERED_AT_ONCE):
            for process_id, one in target.recoverer.recover_many(some).items():
                state, entry_id = one.state, sent[process_id]
                if not (state.finished or entry_id in state.remembered or entry_id in state.mailbox):
                    found[process_id] = "its mailbox is full"
    except Retryable:
        return found  # they were sent; a failed check is no reason to say otherwise
    return found


def _chunks(ids: list[str], size: int) -> Iterator[list[str]]:
    return (ids[start : start + size] for start in range(0, len(ids), size))


def _some(ids: list[str]) -> str:
    return ", ".join(ids[:10]) + ("" if len(ids) <= 10 else ", …")


ACTIONS = tuple(
    Action(
        name=f"bulk-{verb.name}", summary=f"{verb.name.capitalize()} all processes that a filter selects.",
        request=BulkActionRequest, draw=partial(_draw, verb), act=partial(_act, verb),
    )
    for verb in (REDRIVE, SUSPEND, CANCEL)
)  # fmt: skip
