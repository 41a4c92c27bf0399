"""One record by an outsider: whatever it says of whichever process, the fold goes on and its state can be kept."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from entry_examples import an_id, claim, external, own
from example_counts import examples
from folding import folded
from outside_entries import OWNED, STATES, WHOLE, contents, outsiders
from seekpoint.schemas import bodies as b
from seekpoint.schemas.config.limits import Limits
from seekpoint.schemas.folding.fold import Verdict, advance
from seekpoint.schemas.state.process_state import Draft, State, content_width, mailbox_width
from seekpoint.schemas.wire.codec import Codec, encode


@pytest.mark.parametrize("name", STATES)
@given(data=st.data())
@settings(max_examples=examples(200))
def test_whatever_an_outsider_writes_is_folded_and_can_be_kept(name: str, data: st.DataObject) -> None:
    """A verdict, never an exception; the state weighs what it says, and comes back equal from its bytes."""
    codec, draft = Codec(), STATES[name].thaw()
    for offset in range(draft.offset + 1, draft.offset + 1 + data.draw(st.integers(1, 3))):
        entry = data.draw(outsiders(draft.snapshot()))
        if name == "shared":
            entry = entry._replace(process_id="shared:rate")
        assert isinstance(advance(draft, offset, codec.decode(encode(entry))), Verdict)
        kept(draft.snapshot())
    after = draft.snapshot()
    if not after.finished and name != "shared":
        again = folded(claim(9_999, after.epoch, accept_degraded=True), start=after)
        assert again.owner == an_id(9_999)
        kept(folded(own(again.seq + 1, b.ContextUpdated("mine", "1"), epoch=again.epoch, claim_id=9_999), start=again))


@given(data=st.data())
@settings(max_examples=examples(400))
def test_a_hostile_seed_is_a_state_that_goes_on_or_is_forged(data: st.DataObject) -> None:
    """Whatever is in it: what follows is folded, and counts up what it brought."""
    seed = data.draw(st.builds(b.Seeded, contents(WHOLE) | contents(OWNED)))
    draft = Draft()
    verdict = advance(draft, 0, external(seed, 70))
    assert verdict in (Verdict.APPLIED, Verdict.FORGED)
    went_on(draft)


@given(data=st.data())
@settings(max_examples=examples(400))
def test_a_hostile_rewind_is_a_state_that_goes_on_or_a_misfit(data: st.DataObject) -> None:
    """By whoever owns the process."""
    kind = data.draw(st.sampled_from([lambda text: b.Rewound(1, text), lambda text: b.Forked("parent", 1, text)]))
    draft = WHOLE.thaw()
    advance(draft, draft.offset + 1, own(draft.seq + 1, kind(data.draw(contents(WHOLE)))))
    went_on(draft)


def went_on(draft: Draft) -> None:
    """Whatever the state is: everything that counts something counts once more."""
    kept(draft.snapshot())
    for body in (b.InvocationTriggered("cron"), b.InvocationEnded("done"), b.Custom("note", "1"), b.Rewound(1, "{}")):
        owned = own(draft.seq + 1, body, epoch=draft.epoch)._replace(claim_id=draft.owner)
        advance(draft, draft.offset + 1, Codec().decode(encode(owned)))
    owned = own(draft.seq + 1, b.TurnEnded(draft.turn + 1), epoch=draft.epoch)._replace(claim_id=draft.owner)
    advance(draft, draft.offset + 1, Codec().decode(encode(owned)))
    advance(draft, draft.offset + 1, claim(80, draft.epoch, accept_degraded=True))
    advance(draft, draft.offset + 1, external(b.SharedSet("1", -1), 81)._replace(process_id="shared:rate"))
    content = draft.snapshot().content_json()
    advance(draft, draft.offset + 1, own(draft.seq + 1, b.Rewound(1, content), epoch=draft.epoch, claim_id=80))
    kept(draft.snapshot())


def kept(state: State) -> None:
    """What readers ask of every state."""
    again = State.from_bytes(state.to_bytes())
    assert again == state
    assert again.hash == state.hash
    assert state.content_bytes == content_width(state)
    assert state.mailbox_bytes == mailbox_width(state)
    assert len(state.to_bytes()) <= Limits().checkpoint_bytes
    _ = (state.context, list(state.conversation), state.result, state.shared, state.in_doubt, repr(state))
    _ = [item.payload for item in state.mailbox.values()], state.agent and state.agent.input
    _ = [(call.facts, call.output) for call in state.calls.values()], state.invocation and state.invocation.payload
    assert state.seq < 2**63 > state.epoch
