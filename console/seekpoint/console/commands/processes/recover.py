"""``seekpoint recover``: recover a process and report the cost; with ``--claim`` also claim and release it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import typer

from seekpoint.console.render.output import clean, emit, emit_json, say
from seekpoint.console.services.arguments.target import CommandTarget
from seekpoint.console.services.calls.send_and_confirm import with_node

if TYPE_CHECKING:
    from seekpoint.producers import Node
    from seekpoint.schemas.config.settings import Settings

from seekpoint.console.services.arguments.options import AsJson, ProcessId, Wide

__all__ = []

_POLL_INTERVAL_S = 0.5

TierName: TypeAlias = Literal["view", "checkpoint", "scan"]
"""The values of ``Tier``. Importing its module would make ``--help`` slow."""


def recover(
    target: CommandTarget,
    process_id: ProcessId,
    tier: Annotated[
        TierName | None, typer.Option("--tier", help="Use only this tier; default: the fastest one available.")
    ] = None,
    must_be_current: Annotated[
        bool, typer.Option("--must-be-current", help="Fail if an open transaction hides the end of the partition.")
    ] = False,
    claim: Annotated[
        bool, typer.Option("--claim", help="Claim the process and release it; its owner is fenced.")
    ] = False,
    take_over: Annotated[bool, typer.Option("--take-over", help="Claim it even if its owner looks alive.")] = False,
    accept_degraded: Annotated[
        bool, typer.Option("--accept-degraded", help="Claim it even if entries are lost.")
    ] = False,
    wide: Wide = False,
    json: AsJson = False,
) -> None:
    """Recover a process and print the recovery report."""
    from seekpoint.console.render.states import process_facts, report_lines
    from seekpoint.consumers.recovery.tiers import Tier
    from seekpoint.schemas.bodies.entry import process_key
    from seekpoint.schemas.log.partition import partition_of

    if (take_over or accept_degraded) and not claim:
        option = "--take-over" if take_over else "--accept-degraded"
        raise typer.BadParameter("it needs --claim", param_hint=option)
    forced = None if tier is None else Tier(tier)
    partition = partition_of(process_key(process_id), target.log.partitions)
    _warm_up(target, partition)
    # Raises UnknownProcess. A claim would create a process with the misspelt id.
    found = target.recoverer.recover(process_id, tier=forced, must_be_current=must_be_current)
    claimed = None
    if claim:
        settings = target.settings
        claimed = with_node(settings, lambda node: _claim(node, settings, process_id, take_over, accept_degraded))
        found = target.recoverer.recover(process_id, tier=forced, must_be_current=must_be_current)
    facts = process_facts(process_id, partition, found.state)
    if json:
        hashes = {"hash": found.state.hash, "content_hash": found.state.content_hash}
        emit_json({**facts, **hashes, "report": found.report.to_dict(), "claim": claimed})
        return
    epoch = f", epoch {facts['epoch']}" if wide else ""
    emit(clean(f"{process_id}: {facts['lifecycle']}, seq {facts['seq']}{epoch}, {_condition(facts)}"))
    for line in report_lines(found.report, found.state, wide=wide):
        emit(clean(line))
    if claimed is not None:
        say(f"claimed as epoch {claimed['epoch']} and released: it can be opened at once")


def _warm_up(target: CommandTarget, partition: int) -> None:
    """Connect as a node would before it recovers, so that the report measures the recovery alone."""
    from contextlib import suppress

    from seekpoint.schemas.errors import SeekpointError

    with suppress(SeekpointError):  # the recovery reports the error better
        target.log.watermarks(partition)
        if target.view is not None:
            target.view.meta(partition)


async def _claim(
    node: Node, settings: Settings, process_id: str, take_over: bool, accept_degraded: bool
) -> dict[str, Any]:
    """Claim the process, release it, and return facts about the claim."""
    from seekpoint.schemas.bodies.entry import id_text

    await _wait_for_owner(node, settings, process_id, take_over)
    async with node.open(process_id, take_over=take_over, accept_degraded=accept_degraded) as process:
        state = process.state
        return {"node_id": node.node_id, "claim_id": id_text(state.owner), "epoch": state.epoch}


async def _wait_for_owner(node: Node, settings: Settings, process_id: str, take_over: bool) -> None:
    """Wait until the owner is known to be dead. Raises ``OwnerAlive`` if its heartbeat moves."""
    import asyncio

    from seekpoint.consumers.heartbeats.liveness import LivenessVerdict
    from seekpoint.schemas.errors import OwnerAlive

    if take_over:
        return
    deadline = time.monotonic() + settings.owner_timeout_s + 2 * settings.heartbeat_interval_s
    has_announced = False
    while True:
        state = (await node.recover(process_id)).state
        if state.owner is None:
            return
        await asyncio.to_thread(node.liveness.observe)
        verdict = node.liveness.judge(state.owner_node or "", state.owner_boot or "", state.owner)
        if verdict in (LivenessVerdict.FREE, LivenessVerdict.DEAD):
            return
        if verdict is not LivenessVerdict.UNKNOWN or time.monotonic() > deadline:
            raise OwnerAlive(
                "the process's owner looks alive",
                process_id=process_id,
                node=state.owner_node,
                epoch=state.epoch,
                hint="wait for it, or fence it: --take-over",
            )
        if not has_announced:
            has_announced = True
            say(f"watching the heartbeat of its owner {state.owner_node}, up to {settings.owner_timeout_s:g} s")
        await asyncio.sleep(_POLL_INTERVAL_S)


def _condition(facts: dict[str, Any]) -> str:
    if facts["degraded"]:
        return f"degraded ({facts['degraded']['reason']})"
    if facts["finished"]:
        return "finished"
    return f"owned by {facts['owner_node']}" if facts["owner_node"] else "owned by nobody"
