"""Masks of the states in seeds: each value has the name that it has in its entry."""

from __future__ import annotations

import json

import pytest

from masking_examples import CANARY, STATE_JSON, entry, rules, unfolded
from seekpoint.consumers.staging.masks.mask_entries import EntryMasks
from seekpoint.schemas import bodies as b
from seekpoint.schemas.folds import Folded
from seekpoint.schemas.state.calls import AgentRun, Call, Frame, Obligation
from seekpoint.schemas.state.process_state import State
from seekpoint.schemas.state.state_parts import Degraded, Failure, InvocationState, MailItem
from seekpoint.schemas.state.state_values import encoded


def busy_state() -> State:
    """One with a canary wherever a run of an agent leaves something."""
    draft = State.from_bytes(STATE_JSON.encode()).thaw()
    text = f'{{"email":"{CANARY}"}}'
    for number, kind in enumerate(("step", "decision", "sample", "timer", "child", "effect", "write")):
        facts = json.dumps({"child_id": CANARY, "name": CANARY, "idempotency_key": CANARY, "epoch": 1})
        draft.calls.put(f"{CANARY} {kind}", Call(kind, number + 1, CANARY, "started", 1, number, text, text, facts))
    answer = json.dumps({"outcome": "approved", "payload": text, "actor": CANARY, "reason": CANARY})
    draft.calls.put("gate:1", Call("gate", 9, "d", "succeeded", 1, 9, answer, None, json.dumps({"prompt": text})))
    item = encoded(MailItem(bytes(16), "signal", CANARY, text, CANARY)).decode()
    draft.calls.put("receive:1", Call("receive", 11, "d", "succeeded", 1, 11, item))
    draft.calls.put("receive:2", Call("receive", 12, "d", "succeeded", 1, 12, "null"))
    draft.calls.put("owed:1", Call("effect", 10, "d", "pending", 1, 10, text, text, json.dumps({"name": CANARY})))
    draft.turn_frame = Frame({"email": f'"{CANARY}"'}, 1, 1, InvocationState(CANARY, text, True))
    draft.agent = AgentRun(CANARY, CANARY, CANARY, text, CANARY)
    draft.failure = Failure(3, CANARY, CANARY, CANARY)
    draft.obligations = (Obligation(CANARY, CANARY, text, "open"),)
    draft.patches, draft.cancelled, draft.forgotten = (CANARY,), CANARY, {CANARY: 1}
    draft.shared_version, draft.shared_json = 1, text
    draft.customs, draft.folds = 2, {"mine": Folded(1, 2, text), "broken": Folded(1, 2, text, 3, CANARY)}
    draft.degraded = Degraded("gap", 4, 6, CANARY)
    draft.result_json = text
    draft.mailbox[bytes(16)] = MailItem(bytes(16), "signal", CANARY, text, CANARY)
    draft.mailbox[bytes([1] * 16)] = MailItem(
        bytes([1] * 16), "effect_verdict", CANARY, json.dumps({"outcome": "failed", "output": text}), CANARY
    )
    draft.mailbox[bytes([2] * 16)] = MailItem(bytes([2] * 16), "cancel_requested", CANARY, "null", CANARY)
    return draft.freeze()


@pytest.mark.parametrize("do", ["redact", "hash"])
def test_no_field_of_a_state_leaks_a_canary(do: str) -> None:
    """Calls, frames, obligations, folds and gaps are masked; the result is a state with the same calls."""
    text = busy_state().to_bytes().decode()
    masked = EntryMasks(rules({"regex": CANARY, "do": do})).entry(entry(b.Seeded(text)))
    assert isinstance(masked.body, b.Seeded)
    assert CANARY not in unfolded(masked.body.state)
    found, before = (State.from_bytes(each.encode()) for each in (masked.body.state, text))
    assert [(call.kind, call.status, call.seq) for call in found.calls.values()] == [
        (call.kind, call.status, call.seq) for call in before.calls.values()
    ]
    assert (found.customs, found.folds["mine"].version, found.shared_version) == (2, 1, 1)
    assert found.degraded is not None
    assert found.degraded.reason == "gap"


def test_a_path_matches_a_value_in_a_state_by_its_name_in_the_entry() -> None:
    """A step's output, a decision's response, a turn's context, an agent's input, a shared value, a fold."""
    names = ("output", "response", "value", "payload", "result", "input", "arguments", "error", "prompt", "folds")
    emails = [{"path": f"{name}.email", "do": "redact"} for name in (*names, "context", "folds.*")]
    others = (
        "key",
        "digest",
        "name",
        "child_id",
        "idempotency_key",
        "actor",
        "reason",
        "trigger",
        "process_id",
        "id",
        "node_id",
        "error",
    )
    failed = ("type", "message", "where")
    whole = [{"path": name, "do": "hash"} for name in (*others, *failed, "agent", "version", "definition", "degraded")]
    text = busy_state().to_bytes().decode()
    masked = EntryMasks(rules(*emails, *whole, {"path": "degraded.**", "do": "hash"})).entry(entry(b.Seeded(text)))
    assert isinstance(masked.body, b.Seeded)
    assert CANARY not in unfolded(masked.body.state)
    State.from_bytes(masked.body.state.encode())


def test_a_masked_seed_is_a_state() -> None:
    """Epoch, seq, owner, context names and the number of messages are unchanged."""
    seed = EntryMasks(rules({"path": "**.email", "do": "redact"}, {"regex": CANARY, "do": "hash"})).entry(
        entry(b.Seeded(STATE_JSON))
    )
    assert isinstance(seed.body, b.Seeded)
    found, before = (State.from_bytes(text.encode()) for text in (seed.body.state, STATE_JSON))
    assert found.context == {"email": "***", "n": 1}
    assert (found.epoch, found.seq, found.owner) == (before.epoch, before.seq, before.owner)
    assert len(found.mailbox) == 1
