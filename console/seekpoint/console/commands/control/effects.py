"""``seekpoint effects ls | show | resolve | revoke``: show external effects, and say what became of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from seekpoint.console.render.output import clean, emit, emit_json, emit_json_list, say, warn
from seekpoint.console.render.progress import ReadingProgress, watched
from seekpoint.console.render.tables import Column, emit_table
from seekpoint.console.services.arguments.target import CommandTarget
from seekpoint.console.services.calls.send_and_confirm import parse_json, user_name, with_node
from seekpoint.console.services.facts.effect_details import (
    SETTLED,
    an_effect,
    effect_entries,
    effect_facts,
    effects_from_journal,
    effects_of,
    entry_facts,
    ordered_effects,
    unresolved_effect,
)

if TYPE_CHECKING:
    from seekpoint.producers import Client
    from seekpoint.producers.durable.effects.effect_history import EffectHistory
    from seekpoint.schemas.state.process_state import State

from seekpoint.console.services.arguments.options import ActorName, AsJson, OptionalProcessId, ProcessId, Reason, Wide
from seekpoint.console.services.calls.client_calls import with_client
from seekpoint.console.services.histories.process_scan import states_of

__all__ = []

_COLUMNS = (
    Column("process"),
    Column("effect"),
    Column("status"),
    *(Column("semantics", wide=True), Column("connector", wide=True), Column("attempts", right=True, wide=True)),
    Column("owed"),
    Column("business key", wraps=True),
)
_NOTHING = "no effect is in doubt"

EffectKey = Annotated[str, typer.Argument(metavar="KEY", help="The effect's key, as ls shows it.", show_default=False)]


def ls(
    target: CommandTarget,
    process_id: OptionalProcessId = None,
    everything: Annotated[bool, typer.Option("--all", help="List settled effects too.")] = False,
    in_doubt: Annotated[
        bool, typer.Option("--in-doubt", help="Only effects in doubt or given up: from the view, not the whole log.")
    ] = False,
    wide: Wide = False,
    json: AsJson = False,
) -> None:
    """List effects in doubt, and compensations that are owed."""
    if everything and in_doubt:
        raise typer.BadParameter("give one of them", param_hint="--all or --in-doubt")
    find = _every_effect if everything else _in_doubt if in_doubt else _unsettled
    found = find(target, process_id)
    if json:
        emit_json_list({"journal": target.settings.journal}, "effects", found)
    elif not emit_table(_COLUMNS, map(_row, found), wide=wide):
        say("there are no effects" if everything else _NOTHING if in_doubt else f"{_NOTHING}, and nothing is owed")


def show(
    target: CommandTarget, process_id: ProcessId, key: EffectKey, wide: Wide = False, json: AsJson = False
) -> None:
    """Show one effect, and every entry about it.

    For turns that are over and for finished processes it is read from the journal.
    """
    state = target.recoverer.recover(process_id).state
    calls: Any = state.calls
    if key not in calls and (state.finished or state.turn):
        calls = effects_from_journal(target, process_id)
        if key in calls:
            why = "the process is finished" if state.finished else "its turn is over"
            say(clean(f"{process_id}: {why}, its state no longer has {key}; read from the journal"))
    facts = effect_facts(process_id, key, an_effect(process_id, key, calls), state)
    entries = [entry_facts(one) for one in effect_entries(target, process_id, key)]
    if json:
        emit_json({**facts, "entries": entries})
        return
    for name, value in facts.items():
        if value is not None:
            emit(clean(f"{name.replace('_', ' '):<18}{value}"))
    for entry in entries:
        hidden = () if wide else ("offset", "seq")
        line = ", ".join(f"{name} {value}" for name, value in entry.items() if value is not None and name not in hidden)
        emit(clean(f"  {line}"))


def resolve(
    target: CommandTarget,
    process_id: ProcessId,
    key: EffectKey,
    succeeded: Annotated[
        str | None, typer.Option("--succeeded", metavar="JSON", help="It happened, with this result (null: none).")
    ] = None,
    failed: Annotated[
        str | None, typer.Option("--failed", metavar="REASON", help="It did not happen and will not, for this reason.")
    ] = None,
    reason: Reason = None,
    by: ActorName = None,
    json: AsJson = False,
) -> None:
    """Record the outcome of an effect in doubt. The process uses it at once, or when it is run again."""
    if (succeeded is None) == (failed is None):
        raise typer.BadParameter("give exactly one outcome", param_hint="--succeeded or --failed")
    output = None if succeeded is None else parse_json(succeeded, "--succeeded")
    state = target.recoverer.recover(process_id).state
    facts = effect_facts(process_id, key, unresolved_effect(process_id, key, state), state)
    actor = by or user_name("--actor")
    outcome = "failed" if succeeded is None else "succeeded"
    reasons = ": ".join(part for part in (failed, reason) if part) or None
    idempotency_key = facts["idempotency_key"] or ""
    with_node(
        target.settings,
        lambda node: node.verdict(
            process_id, key, outcome, output=output, reason=reasons, actor=actor, idempotency_key=idempotency_key
        ),
    )
    if json:
        emit_json({"process_id": process_id, "key": key, "outcome": outcome, "reason": reasons, "actor": actor})
        return
    say(f"{process_id} {key}: {outcome}, as {actor} says; the process settles it when it reaches it")


def revoke(
    target: CommandTarget,
    process_id: ProcessId,
    key: EffectKey,
    reason: Reason = None,
    by: ActorName = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only check that it may be revoked.")] = False,
    json: AsJson = False,
) -> None:
    """Record that a settled effect was undone outside: its compensation is no longer owed."""
    actor = by or user_name("--actor")

    async def send(client: Client) -> None:
        await client.revoke(process_id, key, reason, actor=actor, dry_run=dry_run)

    target.reachable()
    with_client(target.settings, send)
    if json:
        emit_json({"process_id": process_id, "key": key, "revoked": not dry_run, "reason": reason, "actor": actor})
    else:
        said = "may be revoked; nothing was written" if dry_run else f"revoked, as {actor} says"
        say(clean(f"{process_id} {key}: {said}"))


def _row(facts: dict[str, Any]) -> list[object]:
    names = ("process_id", "key", "status", "semantics", "connector", "attempts", "owed", "business_key")
    return ["-" if facts[name] is None else facts[name] for name in names]


# --- reading ----------------------------------------------------------------------------------------------------------
def _unsettled(target: CommandTarget, process_id: str | None) -> Iterator[dict[str, Any]]:
    for name, state in states_of(target, process_id):
        for facts in () if state.finished else effects_of(name, state):
            if facts["status"] not in SETTLED or facts["owed"]:
                yield facts


def _in_doubt(target: CommandTarget, process_id: str | None) -> Iterator[dict[str, Any]]:
    from seekpoint.console.render.listing import open_states
    from seekpoint.schemas.state.calls import UNSETTLED

    for name, state in open_states(target, process_id, lambda one: one.unsettled > 0):
        for facts in () if state.finished else effects_of(name, state):
            if facts["status"] in UNSETTLED:
                yield facts


def _every_effect(target: CommandTarget, process_id: str | None) -> Iterator[dict[str, Any]]:
    """Yield all effects, also the settled ones that states no longer have: they are read from the journal."""
    if process_id is not None:
        yield from _all_effects(target, process_id, target.recoverer.recover(process_id).state)
        return
    for partition in range(target.log.partitions):
        marks = target.log.watermarks(partition)
        if marks.low > 0:
            warn(f"partition {partition} was trimmed: of its settled effects only those in the states are listed")
            states = target.recoverer.recover_partition(partition)
            for name in sorted(states):
                yield from effects_of(name, states.pop(name).state)
            continue
        for name, history in _histories(target, partition, marks.high).items():
            yield from ordered_effects(name, history.effects, history.state)


def _histories(target: CommandTarget, partition: int, stop: int) -> dict[str, EffectHistory]:
    """Read a partition once and return the effects of each of its processes."""
    from seekpoint.consumers.log_reading.scan import entries_of
    from seekpoint.producers.durable.effects.effect_history import EffectHistory

    log, found = target.log, dict[str, EffectHistory]()
    with ReadingProgress("reading", stop) as progress:
        for batch in watched(log, progress.advance).read(partition, 0, stop):
            for record, entry in entries_of(batch.records, log, target.recoverer.add_dead_letter):
                if entry.process_id not in found:
                    found[entry.process_id] = EffectHistory(log.limits)
                found[entry.process_id].take(record.offset, entry)
    return found


def _all_effects(target: CommandTarget, process_id: str, state: State) -> Iterator[dict[str, Any]]:
    """Yield all effects of a process. If its history was trimmed, warn and yield those in its state."""
    from seekpoint.schemas.errors import JournalGap

    try:
        return ordered_effects(process_id, effects_from_journal(target, process_id), state)
    except JournalGap as exc:
        warn(f"{process_id}: only effects in its state: {exc}")
        return effects_of(process_id, state)
