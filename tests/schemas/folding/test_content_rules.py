"""The rules for content, and the limit of the state's size."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from entry_examples import PLAIN, an_id, any_body, claim, external, own
from seekpoint.schemas import bodies as b
from seekpoint.schemas.bodies.entry import Entry
from seekpoint.schemas.config.limits import DEFAULT_LIMITS, Limits
from seekpoint.schemas.errors import UnserializableValue
from seekpoint.schemas.folding.fold import Verdict, advance, fold, try_apply
from seekpoint.schemas.state.lifecycle import TRANSITIONS, Lifecycle
from seekpoint.schemas.state.process_state import Draft, State, content_width, mailbox_width, new_state
from seekpoint.schemas.values.json_values import dump
from seekpoint.schemas.values.merge_patch import merge_patch


def after(*bodies: b.Body, limits: Limits = DEFAULT_LIMITS) -> State:
    """Return the state after an owner's ``bodies``."""
    state = fold(new_state(), 0, claim(1))
    for seq, body in enumerate(bodies, 1):
        state = fold(state, seq, own(seq, body), limits)
    return state


# --- context ----------------------------------------------------------------------------------------------------------
def test_updates_deletes_and_clears_change_the_context() -> None:
    """They set one value, set many, delete one that may be missing, or delete all."""
    assert after(b.ContextUpdated("a", "1"), b.ContextUpdated("a", "2")).context == {"a": 2}
    assert after(b.ContextUpdatedMany({"a": "1", "b": "[]"})).context == {"a": 1, "b": []}
    assert after(b.ContextUpdatedMany({"a": "1", "b": "2"}), b.ContextDeleted("a")).context == {"b": 2}
    assert after(b.ContextDeleted("nobody")).degraded is None
    assert after(b.ContextUpdated("a", "1"), b.ContextCleared()).context == {}


@given(
    st.dictionaries(st.sampled_from("abc"), PLAIN, max_size=3),
    st.dictionaries(st.sampled_from("abcd"), PLAIN, max_size=3),
)
def test_a_patch_is_rfc_7386(context: dict[str, object], patch: dict[str, object]) -> None:
    """The context after a merge patch is the merge of the values."""
    values = {key: dump(value) for key, value in context.items()}
    state = after(b.ContextUpdatedMany(values), b.ContextPatched(dump(patch)))
    assert state.degraded is None
    assert state.context == merge_patch(context, patch)


@given(
    st.dictionaries(st.sampled_from("abcd"), PLAIN, max_size=4),
    st.dictionaries(st.sampled_from("abcd"), PLAIN, max_size=4),
    st.sets(st.sampled_from("abcd")),
)
def test_a_batch_is_its_updates_and_deletions_one_after_the_other(
    context: dict[str, object], changes: dict[str, object], deleted: set[str]
) -> None:
    """In one entry; a value that is set is not deleted."""
    before = b.ContextUpdatedMany({key: dump(value) for key, value in context.items()})
    values = {key: dump(value) for key, value in changes.items()}
    one = after(before, b.ContentBatch(False, values, dump(sorted(deleted))))
    many = after(before, *map(b.ContextDeleted, deleted), b.ContextUpdatedMany(values))
    assert one.seq == 2
    assert one.degraded is None
    assert (one.content_hash, one.content_bytes) == (many.content_hash, many.content_bytes)


def test_a_patch_merges_members_and_removes_null_ones() -> None:
    """Exact values survive on both sides; untouched members keep their text."""
    state = after(
        b.ContextUpdatedMany({"order": '{"id":1,"price":{"$decimal":"1.10"},"note":"x"}', "kept": "1.0", "gone": "1"}),
        b.ContextPatched('{"order":{"note":null,"paid":true},"gone":null,"new":[null]}'),
    )
    assert state.values_json == {
        "order": '{"id":1,"paid":true,"price":{"$decimal":"1.10"}}',
        "kept": "1.0",
        "new": "[null]",
    }


@pytest.mark.parametrize("patch", ["[]", "1", "null", '{"$decimal":"1"}'])
def test_a_patch_that_is_no_object_is_a_misfit(patch: str) -> None:
    """Nothing is applied, and the process is degraded."""
    state = after(b.ContextUpdated("a", "1"), b.ContextPatched(patch))
    assert state.context == {"a": 1}
    assert state.degraded is not None
    assert (state.degraded.reason, state.seq) == ("illegal_patch", 2)


def test_a_patch_cannot_exceed_the_depth_limit() -> None:
    """The limits of depth and items apply to the result, not only to the patch."""
    limits = Limits(depth=3)
    state = after(b.ContextUpdated("a", "[1]"), b.ContextPatched('{"a":{"b":{"c":{}}}}'), limits=limits)
    assert state.degraded is None
    state = after(b.ContextPatched('{"a":{"b":{"c":{"d":{}}}}}'), limits=limits)
    assert state.degraded is not None
    assert state.degraded.reason == "illegal_patch"


# --- lifecycle and invocations ----------------------------------------------------------------------------------------
@pytest.mark.parametrize("start", Lifecycle)
@pytest.mark.parametrize("target", [*Lifecycle, "nonsense"])
def test_the_lifecycle_follows_its_table(start: Lifecycle, target: str) -> None:
    """Each of the 72 transitions is legal exactly if the table has it."""
    draft = after().thaw()
    draft.lifecycle = start
    misfit = try_apply(draft, 1, b.LifecycleChanged(target))
    assert (misfit is None) == (target in TRANSITIONS[start])
    assert draft.lifecycle == (target if misfit is None else start)


def test_an_invocation_is_triggered_started_and_ended() -> None:
    """It is part of the content until it ends; afterwards only the count of invocations grows."""
    triggered = after(b.InvocationTriggered("webhook", "[1]"))
    assert triggered.invocation is not None
    assert (triggered.invocation.trigger, triggered.invocation.payload, triggered.invocation.started) == (
        "webhook",
        [1],
        False,
    )
    started = fold(triggered, 2, own(2, b.InvocationStarted()))
    assert started.invocation is not None
    assert started.invocation.started
    ended = fold(started, 3, own(3, b.InvocationEnded("succeeded")))
    assert (ended.invocation, ended.invocations, ended.content_bytes) == (None, 1, 0)


@pytest.mark.parametrize("body", [b.InvocationStarted(), b.InvocationEnded()])
def test_an_invocation_that_was_never_triggered_is_a_misfit(body: b.Body) -> None:
    """It can neither start nor end."""
    state = after(body)
    assert state.degraded is not None
    assert state.degraded.reason == "illegal_invocation"
    assert state.invocations == 0


@pytest.mark.parametrize("body", [b.ErrorRecorded("ValueError", "no"), b.Custom("note", "1")])
def test_an_informative_body_changes_no_content(body: b.Body) -> None:
    """It becomes the last kind."""
    state = after(body)
    assert (state.content_hash, state.last_kind) == (new_state().content_hash, body.KIND)


# --- rewind and fork --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "content",
    [
        "",
        "{}",
        "[]",
        "null",
        new_state().content_json().replace('"created"', '"nowhere"'),
        new_state().content_json().replace('"invocations":0', '"invocations":"0"'),
        new_state().content_json().replace('"context":{}', '"context":{"a":1}'),
        new_state().content_json().replace('"context":{}', '"context":{"a":"{]"}'),
        new_state().content_json().replace('"conversation":[]', '"conversation":["abcdef"]'),
        new_state().content_json().replace('"conversation":[]', '"conversation":[["user",null,"{]",null,null,null]]'),
        new_state().content_json().replace('"conversation":[]', '"conversation":[["user",null,null,"x",null,null]]'),
        new_state().content_json().replace('"invocation":null', '"invocation":["t","{]",false]'),
        "[" * 100_000,
    ],
)
@pytest.mark.parametrize("kind", [b.Rewound, b.Forked])
def test_invalid_content_is_a_misfit(kind: type[b.Body], content: str) -> None:
    """Nothing of it is applied, so all values of the state can be decoded."""
    body = b.Rewound(1, content) if kind is b.Rewound else b.Forked("parent", 1, content)
    state = after(b.ContextUpdated("a", "1"), body)
    assert state.degraded is not None
    assert state.degraded.reason == "illegal_content"
    assert (state.context, state.lineage) == ({"a": 1}, new_state().lineage)


@pytest.mark.parametrize("mode", ["conversation_only", "summarize"])
def test_a_rewind_of_the_conversation_restores_nothing_else(mode: str) -> None:
    """Whatever else the content has. A frame has no more messages than the conversation."""
    past = after(b.ContextUpdated("a", "1"), b.MessageSaid("user", "one"))
    said = (b.MessageSaid("user", "two"), b.AgentStarted("agent"), b.ContextUpdated("a", "2"))
    state = after(b.ContextUpdated("a", "1"), *said, b.Rewound(2, past.content_json(), mode=mode))
    assert state.degraded is None
    assert state.context == {"a": 2}
    assert [one.content for one in state.conversation] == ["one"]
    assert state.start_frame is not None
    assert state.start_frame.messages == 1
    emptied = after(*said, b.Rewound(1, new_state().content_json(), mode=mode))
    assert emptied.start_frame is not None
    assert (emptied.start_frame.messages, len(emptied.conversation)) == (0, 0)


def test_a_rewind_of_an_unknown_mode_is_a_misfit() -> None:
    state = after(b.ContextUpdated("a", "1"), b.Rewound(1, new_state().content_json(), mode="all"))
    assert state.degraded is not None
    assert state.context == {"a": 1}


def test_a_fork_with_an_illegal_parent_id_is_a_misfit() -> None:
    """The parent's id must be a process id."""
    for parent in ("", "x" * 201, "a\x00"):
        state = after(b.Forked(parent, 1, new_state().content_json()))
        assert state.degraded is not None


def _step(key: str) -> b.StepEnded:
    return b.StepEnded(key=key, attempt=1, outcome="succeeded", output="1", position=int(key[-1]), digest="d", name="s")


def test_the_calls_of_a_fork_come_after_those_that_it_inherits() -> None:
    """Their numbers go on from the parent's, also in a fork of a fork; ``entry_seq`` gives the seq of the entry."""
    content = after(*(b.ContextUpdated("a", "1"),) * 7, _step("s:1")).content_json()
    forked = after(b.Forked("parent", 8, content), b.ContextUpdated("a", "2"), _step("s:2"))
    assert [call.seq for call in forked.calls.values()] == [8, 11]
    assert [forked.entry_seq(call) for call in forked.calls.values()] == [8, 3]
    again = after(b.Forked("child", 3, forked.content_json()), _step("s:3"))
    assert again.content_hash != forked.content_hash
    assert [call.seq for call in again.calls.values()] == [8, 11, 13]
    assert State.from_bytes(again.to_bytes()).lineage.seq_base == 11


def test_a_rewind_of_a_fork_keeps_the_order_of_its_calls() -> None:
    """The numbers that the fork gave its calls stay those of its content."""
    content = after(_step("s:1"), _step("s:2")).content_json()
    forked = after(b.Forked("parent", 2, content), _step("s:3"))
    state = after(b.Forked("parent", 2, content), _step("s:3"), _step("s:4"), b.Rewound(2, forked.content_json()))
    assert (state.lineage.seq_base, state.content_hash) == (2, forked.content_hash)


def test_a_fork_keeps_what_becomes_of_effects_and_why_it_was_made() -> None:
    """Also in its gravestone; an unknown policy is a misfit."""
    empty = new_state().content_json()
    state = after(b.Forked("parent", 4, empty, effects="recorded", reason="r" * 300))
    assert (state.lineage.effects, state.lineage.reason) == ("recorded", "r" * 200)
    assert state.without_content().lineage == state.lineage
    assert after(b.Forked("parent", 4, empty)).lineage.effects == "refused"
    refused = after(b.Forked("parent", 4, empty, effects="all"))
    assert refused.degraded is not None
    assert refused.lineage == new_state().lineage


# --- limits -----------------------------------------------------------------------------------------------------------
TIGHT = Limits(state_bytes=400)
LONG = "x" * 300


@pytest.mark.parametrize(
    "bodies",
    [
        [b.ContextUpdated("a", f'"{LONG}"'), b.ContextUpdated("b", f'"{LONG}"')],
        [b.ContextUpdatedMany({"a": f'"{LONG}"', "b": f'"{LONG}"'})],
        [b.ContextUpdated("a", "1"), b.ContextUpdated("a", f'"{LONG}{LONG}"')],
        [b.ContextPatched(f'{{"a":"{LONG}","b":"{LONG}"}}')],
        [b.ContextUpdated("c", "1"), b.ContentBatch(False, {"a": f'"{LONG}"', "b": f'"{LONG}"'}, '["c"]')],
        [b.MessageSaid("user", LONG), b.MessageSaid("user", LONG)],
        [b.MessageSaid("user", None, None, f'["{LONG}{LONG}"]')],
        [b.InvocationTriggered("t", f'"{LONG}{LONG}"')],
        [b.Rewound(1, after(b.MessageSaid("user", LONG + LONG)).content_json())],
        [b.Forked("p", 1, after(b.MessageSaid("user", LONG + LONG)).content_json())],
        [b.Finished(f'"{LONG}{LONG}"')],
    ],
    ids=lambda bodies: bodies[-1].KIND,
)
def test_a_body_that_exceeds_the_state_limit_is_a_misfit(bodies: list[b.Body]) -> None:
    """Its seq counts, nothing of it is applied, and the process is degraded."""
    draft = after(*bodies[:-1], limits=TIGHT).thaw()
    before = draft.snapshot()
    assert before.degraded is None
    assert advance(draft, 100, own(len(bodies), bodies[-1]), TIGHT) is Verdict.MISFIT
    state = draft.freeze()
    assert state.degraded is not None
    assert (state.degraded.reason, state.seq) == ("state_limit", len(bodies))
    assert (state.content_hash, state.content_bytes) == (before.content_hash, before.content_bytes)
    assert not state.finished


def test_a_state_of_exactly_the_limit_fits() -> None:
    """One byte more does not."""
    body = b.ContextUpdated("a", '"xyz"')
    width = after(body).content_bytes
    assert width == len('"a":"\\"xyz\\"",')
    assert after(body, limits=Limits(state_bytes=width)).degraded is None
    assert after(body, limits=Limits(state_bytes=width - 1)).degraded is not None


def test_a_patch_that_frees_as_much_as_it_adds_fits() -> None:
    """Removed and added bytes are counted together."""
    state = after(b.ContextUpdated("a", f'"{LONG}"'), b.ContextPatched(f'{{"a":null,"b":"{LONG}"}}'), limits=TIGHT)
    assert state.degraded is None
    assert list(state.context) == ["b"]


def test_a_text_that_utf8_cannot_carry_is_refused_before_it_is_sent() -> None:
    """No record can have a lone surrogate; a writer that checks first gets a typed error."""
    with pytest.raises(UnserializableValue):
        try_apply(after().thaw(), 1, b.MessageSaid("user", "\ud800"))


SMALL_KEYS = st.sampled_from("ab")
ROOMY = st.one_of(
    st.builds(b.ContextUpdated, SMALL_KEYS, PLAIN.map(dump)),
    st.builds(b.ContextUpdatedMany, st.dictionaries(SMALL_KEYS, PLAIN.map(dump), max_size=2)),
    st.builds(b.ContextPatched, st.dictionaries(SMALL_KEYS, PLAIN, max_size=2).map(dump)),
    st.builds(b.ContextDeleted, SMALL_KEYS),
    st.builds(
        b.ContentBatch,
        st.booleans(),
        st.dictionaries(SMALL_KEYS, PLAIN.map(dump), max_size=2),
        st.sets(SMALL_KEYS).map(lambda keys: dump([*keys])),
    ),
    any_body(b.MessageSaid, b.InvocationTriggered, b.InvocationEnded, b.ContextCleared, b.Finished, b.Deleted),
    st.builds(
        b.Rewound,
        st.just(1),
        st.sampled_from([new_state().content_json(), after(b.ContextUpdated("a", "1")).content_json()]),
    ),
    any_body(b.Signal, b.CancelRequested),
    st.builds(b.Received, st.integers(1, 12).map(an_id)),
)


@given(st.lists(ROOMY, max_size=12), st.sampled_from([DEFAULT_LIMITS, Limits(state_bytes=300)]))
@settings(max_examples=300)
def test_the_incremental_size_is_the_computed_size(bodies: list[b.Body], limits: Limits) -> None:
    """Every reader computes the same size, so all refuse the same entry."""
    draft: Draft = after().thaw()
    for number, body in enumerate(bodies, 1):
        entry: Entry = external(body, number) if body.EXTERNAL else own(draft.seq + 1, body)
        advance(draft, number, entry, limits)
        assert draft.content_bytes == content_width(draft) <= limits.state_bytes
        assert draft.mailbox_bytes == mailbox_width(draft)
    state = draft.freeze()
    content = state.content_bytes + state.mailbox_bytes
    assert (
        len(state.to_bytes())
        <= content + len(new_state().to_bytes()) + 12 * 40 + 1_000 + len(state.result_json or "") * 2
    )


def test_a_full_state_can_always_be_checkpointed() -> None:
    """With every field at its limit and texts that grow most as JSON, the bytes stay near the limit."""
    limits = Limits(state_bytes=200_000)
    hard = "\x01" * 5_000
    draft = after().thaw()
    draft.degraded = None
    offset = 10
    for body in (b.InvocationTriggered(hard), b.Forked("p" * 200, 2**62, new_state().content_json())):
        advance(draft, offset := offset + 1, own(draft.seq + 1, body), limits)
    for number in range(1_100):
        advance(
            draft, offset := offset + 1, own(draft.seq + 1, b.MessageSaid(hard, hard, None, None, hard, hard)), limits
        )
        advance(draft, offset := offset + 1, external(b.Signal(hard), number, hard), limits)
        advance(
            draft,
            offset := offset + 1,
            own(draft.seq + 1, b.ContextUpdated(f"{number}{hard[:9]}", '"' + '\\"' * 40 + '"')),
            limits,
        )
    late = claim(5, 1)
    advance(draft, offset + 1, late._replace(body=b.Claim(1, hard, hard, accept_degraded=True)), limits)
    advance(draft, offset + 2, own(draft.seq + 1, b.LifecycleChanged(hard), epoch=2, claim_id=5), limits)
    advance(draft, offset + 3, own(draft.seq + 5, epoch=2, claim_id=5), limits)
    state = draft.freeze()
    assert state.degraded is not None
    assert (state.degraded.reason, state.epoch) == ("gap", 2)
    assert state.refused_externals > 0
    assert limits.state_bytes * 0.9 < state.content_bytes <= limits.state_bytes
    assert len(state.to_bytes()) <= limits.checkpoint_bytes
