"""Facts about effects as plain data, and which of them a person may settle."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from seekpoint.console.render.output import pasted

if TYPE_CHECKING:
    from seekpoint.console.services.arguments.target import CommandTarget
    from seekpoint.consumers.recovery.process_history import Logged
    from seekpoint.schemas.state.calls import Call
    from seekpoint.schemas.state.process_state import State

SETTLED = ("succeeded", "failed", "revoked")
_KINDS = ("effect_intended", "effect_settled", "effect_verdict", "effect_revoked")


def effects_of(process_id: str, state: State) -> Iterator[dict[str, Any]]:
    """Yield the facts of each effect in the state, in the order they began."""
    return ordered_effects(process_id, {key: call for key, call in state.calls.items() if call.kind == "effect"}, state)


def ordered_effects(process_id: str, effects: dict[str, Call], state: State) -> Iterator[dict[str, Any]]:
    """Yield the facts of effects by key, in the order they began."""
    for key, call in sorted(effects.items(), key=lambda one: one[1].seq):
        yield effect_facts(process_id, key, call, state)


def effect_facts(process_id: str, key: str, call: Call, state: State) -> dict[str, Any]:
    """Return an effect as plain data: an object of ``seekpoint effects ls --json``."""
    from seekpoint.schemas.state.calls import is_revoked

    facts = call.facts
    owed = next((one.status for one in state.owed if one.key == key), None)
    return {
        "process_id": process_id,
        "key": key,
        "status": "revoked" if is_revoked(call) else call.status,
        "name": facts.get("name"),
        "semantics": facts.get("semantics"),
        "connector": facts.get("connector"),
        "business_key": facts.get("business_key"),
        "idempotency_key": facts.get("idempotency_key"),
        "compensates": facts.get("compensates"),
        "attempts": call.attempt,
        "seq": state.entry_seq(call),
        "output": None if call.output is None else _plain(call.output),
        "error": None if call.error is None else _plain(call.error),
        "owed": owed,
    }


def effect_entries(target: CommandTarget, process_id: str, key: str) -> list[Logged]:
    """Return every entry about an effect, in log order."""
    from seekpoint.consumers.recovery.process_history import history

    return [
        logged
        for batch in history(target.recoverer, process_id, kinds=_KINDS)
        for logged in batch
        if getattr(logged.entry.body, "key", None) == key
    ]


def entry_facts(logged: Logged) -> dict[str, Any]:
    """Return an entry about an effect, as plain data."""
    from dataclasses import asdict

    entry = logged.entry
    body = {name: value for name, value in asdict(entry.body).items() if name in _SHOWN and value not in (None, "")}
    return {"offset": logged.offset, "kind": entry.kind, "seq": entry.seq, "actor": entry.actor, **body}


_SHOWN = ("attempt", "outcome", "settled_by", "arguments", "output", "error", "reason", "idempotency_key")


def effects_from_journal(target: CommandTarget, process_id: str) -> dict[str, Call]:
    """Return every effect of the process. Raises ``JournalGap`` if the beginning of its history was trimmed."""
    from seekpoint.consumers.recovery.process_history import history
    from seekpoint.producers.durable.effects.effect_history import effects_in

    logged = (one for batch in history(target.recoverer, process_id) for one in batch)
    return effects_in(logged, target.log.limits)


def an_effect(process_id: str, key: str, calls: Mapping[str, Call]) -> Call:
    """Return the call. Raises ``SeekpointError`` if there is none, or if it is no effect."""
    from seekpoint.schemas.errors import SeekpointError
    from seekpoint.schemas.values.near_names import did_you_mean

    call = calls.get(key)
    if call is None or call.kind != "effect":
        raise SeekpointError(
            "the process has no such effect", process_id=process_id, key=key,
            hint=did_you_mean(
                key, [name for name, one in calls.items() if one.kind == "effect"],
                f"list its effects: seekpoint effects ls {pasted(process_id)} --all",
            ),
        )  # fmt: skip
    return call


def unresolved_effect(process_id: str, key: str, state: State) -> Call:
    """Return an effect that a person may settle. Raises ``ProcessFinished`` and ``Refused``."""
    from seekpoint.schemas.errors import ProcessFinished, Refused

    if state.finished:
        raise ProcessFinished(
            "the process is finished: its effects cannot be settled any more", process_id=process_id, key=key,
            hint=f"see its outcome: seekpoint effects show {pasted(process_id, key)}",
        )  # fmt: skip
    call = an_effect(process_id, key, state.calls)
    if call.status in SETTLED:
        raise Refused(
            f"the effect is settled: {call.status}", process_id=process_id, key=key,
            hint="a settled effect is never settled again",
        )  # fmt: skip
    return call


def _plain(text: str) -> Any:
    import orjson

    return orjson.loads(text)
