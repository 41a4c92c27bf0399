"""Bodies for random histories: anything an owner may say, and what fits the state as it is just now."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from seekpoint.schemas import bodies as b
from seekpoint.schemas.state.calls import Call
from seekpoint.schemas.state.process_state import Draft, new_state

__all__ = ["FITTING", "asked", "waited", "wrote"]


def asked(draft: Draft, number: int) -> tuple[b.Body, ...]:
    """Something an agent's code asks for, or the end of what it asked: most fit, some do not."""
    name, which = _turn(draft, number), number % 4
    key, position, waiting = f"{name}call-{which}:1", len(draft.calls) + 1, next(iter(draft.mailbox), None)
    return (
        b.StepStarted(key, position, "call", f"{which:032}", "[1]", estimate='{"usd":"0.5"}'),
        b.StepEnded(key, 1, "succeeded", str(number), ended_at_us=number * 10**10, cost_usd="0.1"),
        b.StepEnded(key, 1, "failed", error='{"type":"ValueError"}'),
        b.StepEnded(key, 1, "retry", retry_at_us=5),
        b.StepStarted(key, position, "call", f"{which:032}", attempt=2),
        b.StepEnded(f"{name}quick:{position}", 1, "succeeded", "1", position=position, digest="q" * 32),
        b.ContextUpdated(f"key-{which}", "7", f"{name}#{position}"),
        b.MessageSaid("assistant", "written", call=f"{name}#{position}"),
        b.Sampled(f"{name}now:{position}", position, "now", value=str(number)),
        b.GateOpened(f"{name}gate:{which}", position, "gate", prompt='"go?"'),
        b.GateResolved(f"{name}gate:{which}", "approved", waiting, "1", "ann"),
        b.Received(waiting or b.NIL_ID, f"{name}receive:{position}", position, "r" * 32, "go"),
        b.Received(f"{which:016}".encode(), f"{name}receive:{position}", position),
        b.EffectIntended(f"effect-{which}:1", position, "effect", "e" * 32, "at_most_once", irreversible=True),
        b.EffectIntended(f"{name}effect-{which}:1", position, "effect", "e" * 32, "idempotent"),
        b.EffectSettled(f"effect-{which}:1", 1, ("succeeded", "failed", "unknown", "stuck")[which], "1"),
        b.EffectSettled(f"{name}effect-{which}:1", 1, "succeeded", "2", external_id=waiting),
        b.ObligationRegistered(f"effect-{which}:1", "undo"),
        b.ObligationSettled(f"effect-{which}:1", "done"),
        b.TurnEnded(draft.turn + 1),
        b.TurnEnded(draft.turn + 1 + which),
        b.ContentBatch(which == 0, {"batch": "1"}, '["key-1"]', '[["user","one"],["user","two"]]'),
        b.AgentStarted("agent", "1", "d", '{"n":1}'),
        b.BudgetSet('{"usd":"5"}', '{"tokens":"100"}'),
        b.BudgetNoted("warned", "usd"),
        b.PatchMarked(f"patch-{which}"),
        b.CallsSetAside(f'["{key}"]', "tried again"),
        b.CancelAccepted(waiting, "enough"),
        b.DecisionStarted(f"{name}ask:{which}", position, "ask", "a" * 32, '[{"role":"user"}]', policy="p1"),
        b.DecisionMade(f"{name}ask:{which}", 1, ("succeeded", "failed", "retry", "lost")[which], '"yes"'),
    )


def wrote(draft: Draft, number: int) -> tuple[b.Body, ...]:
    """Other content than single values and messages."""
    return (
        b.ContextUpdatedMany({"key-1": str(number), "many": "[]"}),
        b.ContextDeleted(f"key-{number % 5}"),
        b.ContextPatched(json.dumps({f"key-{number % 5}": None, "patched": number})),
        b.ContextCleared(),
        *([b.Deleted("asked for")] * 3 if draft.agent is None and not draft.calls else [b.Deleted()]),
        b.ErrorRecorded("ValueError", "no"),
        b.Forked("parent", number, new_state().content_json()),
        b.Forked("parent", number, new_state().content_json(), rerun_of="parent", model="large"),
        b.ParentAnswered('["ask:1"]'),
        b.Diverged("a:1", 1, "input", '"d"', '"e"'),
        *_parts(draft, number),
        b.Detached(f'["{number % 4:064}"]'),
    )


def _parts(draft: Draft, number: int) -> tuple[b.Body, ...]:
    """The next part of an attachment, one that comes again, one that comes too early, and one in a blob store."""
    digest = f"{number % 4:064}"
    known = draft.attachments.get(digest)
    start = 0 if known is None else known.received
    return (
        b.PartAttached(digest, 5, start, b"ab" if start < 4 else b"c", "text/plain"),
        b.PartAttached(digest, 5, 0, b"ab"),
        b.PartAttached(digest, 5, start + 1, b"b"),
        b.PartAttached(f"{number % 3 + 7:064}", number, store="bucket"),
    )


def waited(draft: Draft, number: int) -> tuple[b.Body, ...]:
    """Timers and children: set or spawned, then over, or not in that order."""
    name, which, position = _turn(draft, number), number % 3, len(draft.calls) + 1
    return (
        b.TimerSet(f"{name}sleep:{which}", position, "sleep", fires_at_us=5),
        b.TimerFired(f"{name}sleep:{which}", 4 + which),
        b.ChildSpawned(f"{name}child:{which}", position, "child", child_id="other", agent="agent"),
        b.ChildEnded(f"{name}child:{which}", ("succeeded", "failed", "lost")[which], "1"),
    )


def _turn(draft: Draft, number: int) -> str:
    return f"{draft.turn + 1}/" if number % 2 else ""


# --- what fits --------------------------------------------------------------------------------------------------------
def _invocations(draft: Draft, number: int) -> list[b.Body]:
    if draft.invocation is None:
        return [b.InvocationTriggered("timer", str(number))]
    return [b.InvocationEnded("succeeded", number) if draft.invocation.started else b.InvocationStarted(1)]


def _budgets(draft: Draft, number: int) -> list[b.Body]:
    if draft.budget is None:
        return [b.BudgetSet('{"usd":"5"}', '{"tokens":"100"}')]
    return [b.BudgetNoted(kind, "usd", limit="9") for kind in ("warned", "exceeded", "raised")]


def _owed(draft: Draft, number: int) -> list[b.Body]:
    """An effect that begins, something to be done for each that did, an end of what is to be done."""
    owed = [one.key for one in draft.obligations]
    effects = [key for key, call in draft.calls.items() if call.kind == "effect"]
    bodies: list[b.Body] = [b.ObligationSettled(key, ("done", "dropped", "stuck")[number % 3]) for key in owed]
    bodies += [b.ObligationRegistered(key, "undo", str(number)) for key in effects if key not in owed]
    key, position = f"effect-{number % 4}:{len(draft.calls)}", len(draft.calls) + 1
    return bodies or [b.EffectIntended(key, position, "effect", "e" * 32, "idempotent")]


def _calls(draft: Draft, number: int) -> list[b.Body]:
    """The ends of all calls that are under way; without one, the beginnings of some."""
    ends = [body for key, call in draft.calls.items() for body in _ends(draft, key, call, number)]
    name, position = _turn(draft, number), len(draft.calls) + 1
    return ends or [
        b.StepStarted(f"{name}do:{position}", position, "do", f"{number:032}"),
        b.DecisionStarted(f"{name}ask:{position}", position, "ask", "a" * 32),
        b.TimerSet(f"{name}sleep:{position}", position, "sleep", fires_at_us=5),
        b.GateOpened(f"{name}gate:{position}", position, "gate"),
        b.Received(next(iter(draft.mailbox), b.NIL_ID), f"{name}receive:{position}", position, name="go"),
        b.ChildSpawned(f"{name}child:{position}", position, "child", child_id="other", agent="agent"),
        b.EffectIntended(f"{name}effect:{position}", position, "effect", "e" * 32, "at_most_once"),
    ]


def _failed(draft: Draft, number: int) -> list[b.Body]:
    """Calls that failed, to be made again, one or all of them; without any, what comes next."""
    kinds = ("step", "decision", "child")
    failed = [key for key, call in draft.calls.items() if call.status == "failed" and call.kind in kinds]
    chosen = failed if number % 2 else failed[:1]
    return [b.CallsSetAside(json.dumps(chosen))] if chosen else _calls(draft, number)


def _ends(draft: Draft, key: str, call: Call, number: int) -> Sequence[b.Body]:
    if call.status in ("succeeded", "failed"):
        return ()
    if call.error is not None and call.kind == "step":
        return (b.StepStarted(key, call.position, "again", call.digest, attempt=call.attempt + 1),)
    if call.error is not None and call.kind == "decision":
        return (b.DecisionStarted(key, call.position, "ask", call.digest, attempt=call.attempt + 1),)
    at, outcome, waiting = call.attempt, ("succeeded", "failed")[number % 2], next(iter(draft.mailbox), None)
    ends: dict[str, tuple[b.Body, ...]] = {
        "step": (b.StepEnded(key, at, outcome, str(number)), b.StepEnded(key, at, "retry")),
        "decision": (b.DecisionMade(key, at, outcome, '"yes"', model="m", cost_usd="0.1"),),
        "timer": (b.TimerFired(key, 5),),
        "gate": (
            b.GateResolved(key, "signalled", waiting, "1", "ann"),
            b.AnswerRefused(key=key, external_id=waiting, reason="no number"),
        ),
        "child": (b.ChildEnded(key, outcome, "1"),),
        "effect": (b.EffectSettled(key, at, outcome, "1", external_id=waiting),),
    }
    return ends[call.kind]


FITTING: tuple[Callable[[Draft, int], list[b.Body]], ...] = (
    *(_calls, _owed, _calls, _owed, _invocations),
    *(_calls, _failed, _owed, _invocations, _budgets, _failed),
)
"""By topic: what may be said of it next. Never nothing."""
