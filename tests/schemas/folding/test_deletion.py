"""What a deletion leaves of a process: the order of its entries, and nothing that it held."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from entry_examples import PLAIN, any_body, claim, external, own
from seekpoint.consumers.recovery.recovery_report import is_known
from seekpoint.schemas import bodies as b
from seekpoint.schemas.folding.fold import Verdict, advance, fold
from seekpoint.schemas.state.process_state import FIELDS, State, new_state
from seekpoint.schemas.values.json_values import dump

CONTENT = st.one_of(
    st.builds(b.ContextUpdated, st.sampled_from("abc"), PLAIN.map(dump)),
    any_body(b.MessageSaid, b.ContextCleared, b.InvocationTriggered, b.InvocationStarted, b.InvocationEnded),
    any_body(b.ErrorRecorded, b.Custom, b.LifecycleChanged, b.Forked, b.Signal, b.CancelRequested, b.CancelAccepted),
    any_body(b.SuspendRequested, b.RedriveRequested, b.BudgetSet, b.PatchMarked, b.Deleted),
).map(lambda body: body if body.call is None else replace(body, call=None))  # a call is an agent's
KEPT = {"offset", "first_offset", "started_us", "updated_us", "epoch", "owner", "owner_node", "owner_boot", "seq"}
KEPT |= {"remembered", "deleted_seq", "last_kind", "degraded"}


def after(bodies: list[b.Body], state: State | None = None) -> State:
    """Return the state after ``bodies``, without those that the process does not take."""
    draft = (state or fold(new_state(), 0, claim(1))).thaw()
    for body in bodies:
        offset = draft.offset + 1
        entry = external(body, offset) if body.EXTERNAL else own(draft.seq + 1, body)
        advance(draft, offset, entry)
        draft.degraded = None  # of a body that does not fit
    return draft.freeze()


@given(st.lists(CONTENT, max_size=8), st.lists(CONTENT, max_size=8))
def test_what_follows_a_deletion_is_what_a_new_process_would_be(old: list[b.Body], new: list[b.Body]) -> None:
    """Whatever was there before. Only epoch, owner, seq and the ids of what was taken tell the two apart."""
    deleted = after([*old, b.Deleted()])
    anew = after(new, deleted)
    fresh = after(new, fold(new_state(), 0, claim(1)))
    assert deleted.deleted_seq == deleted.seq
    assert not is_known(deleted)
    assert anew.seq == deleted.seq + fresh.seq
    for one in FIELDS.fields:
        if one.name not in KEPT and not one.name.endswith(("_us", "entries", "claims", "externals")):
            assert _value(anew, one.name, deleted.seq) == _value(fresh, one.name, 0), one.name


def _value(state: State, name: str, base: int) -> Any:
    """A field, with seqs as they are in a process that begins at ``base``."""
    value = getattr(state, name)
    if name in ("failure", "run_failures") and value is not None:
        return [part - base if part_name == "seq" else part for part_name, part in _parts(value)]
    if name == "mailbox":
        return [(one.kind, one.name, one.payload_json) for one in value.values()]
    if name in ("hold", "redrive") and value is not None:
        return [part for part_name, part in _parts(value) if part_name != "id"]
    return value


def _parts(value: Any) -> list[tuple[str, Any]]:
    return [(name, getattr(value, name)) for name in value.__struct_fields__]


def test_a_deletion_keeps_the_order_of_the_entries() -> None:
    """The owner goes on, an entry that it takes twice stays taken, and a stale one is stale."""
    state = after([b.ContextUpdated("a", "1"), b.Signal("go"), b.Deleted("asked for")])
    assert (state.seq, state.epoch, state.context, dict(state.mailbox)) == (2, 1, {}, {})
    assert (state.deleted_seq, state.last_kind, state.is_deleted, is_known(state)) == (2, "deleted", True, False)
    draft = state.thaw()
    assert advance(draft, 10, external(b.Signal("go"), 2)) is Verdict.DUPLICATE
    assert advance(draft, 11, own(2, b.ContextUpdated("a", "1"))) is Verdict.DUPLICATE
    assert not is_known(draft)
    assert advance(draft, 12, own(3, b.ContextUpdated("b", "1"))) is Verdict.APPLIED
    assert (draft.values_json, is_known(draft), draft.deleted_seq) == ({"b": "1"}, True, 2)


def test_mail_begins_a_deleted_process_anew() -> None:
    """A signal to it is not lost; a claim alone begins nothing."""
    state = after([b.ContextUpdated("a", "1"), b.Deleted()])
    claimed = fold(state, 10, claim(5, 1))
    assert (claimed.epoch, is_known(claimed)) == (2, False)
    assert is_known(after([b.Signal("go")], state))


@pytest.mark.parametrize(
    "body",
    [
        b.AgentStarted("agent", "1", "d", "null"),
        b.Submitted("agent"),
        b.StepEnded("a:1", 1, "succeeded", "1", position=1, name="a", digest="d" * 32),
        b.EffectIntended("pay:1", 1, "pay", "e" * 32, "at_most_once"),
        b.TurnEnded(1),
    ],
    ids=lambda body: body.KIND,
)
def test_a_process_whose_code_made_calls_is_not_deleted(body: b.Body) -> None:
    """Its effects have keys that the id is part of: a next process of the id would mix them up."""
    state = after([b.ContextUpdated("a", "1"), body])
    draft = state.thaw()
    assert advance(draft, 10, own(draft.seq + 1, b.Deleted())) is Verdict.MISFIT
    assert draft.degraded is not None
    assert (draft.degraded.reason, draft.values_json) == ("illegal_delete", {"a": "1"})
