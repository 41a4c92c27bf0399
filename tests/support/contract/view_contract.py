"""What every ``ViewStore`` promises, as one suite: a test of an implementation inherits it and brings a ``store``."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from batches import fold_batch
from histories import Step, Written, expected_states, steps, write_history
from index_checks import index_problems
from seekpoint.consumers.view.view_store import Change, Loaded, Pointer, ViewBrowser, ViewLookup
from seekpoint.schemas import bodies as b
from seekpoint.schemas.folds import Folded, UserFold, only
from seekpoint.schemas.state.call_table import CallsDraft
from seekpoint.schemas.state.calls import Call
from seekpoint.schemas.state.conversation import Conversation
from seekpoint.schemas.state.process_state import Draft, State, new_state
from seekpoint.schemas.state.state_parts import Attachment
from view_journal import KEY, OTHER, TOPIC, Journal, full_state, small_state, with_messages, with_values

__all__ = ["FieldwiseViewContract", "ViewContract"]


# One contract, several inheritors; and each example takes a partition of its own, so the store may be shared.
slow_store = hypothesis_settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.differing_executors],
)


class ViewContract:
    """The promises."""

    @pytest.fixture
    def journal(self, store: ViewBrowser) -> Journal:
        return Journal(store)

    # --- what is written comes back -----------------------------------------------------------------------------------
    def test_a_state_comes_back_letter_for_letter(self, journal: Journal) -> None:
        """Gaps, mail, counters, texts that are not canonical JSON: the same bytes."""
        state = full_state()
        assert journal.write([Change(key=OTHER, state=state, whole=True)])
        seen = journal.state(OTHER)
        assert seen is not None
        assert seen.to_bytes() == state.to_bytes()
        assert list(seen.mailbox) == list(state.mailbox)
        assert list(seen.remembered) == list(state.remembered)

    def test_a_gravestone_comes_back(self, journal: Journal) -> None:
        """And nothing of what it buried."""
        journal.write([Change(key=KEY, state=full_state(), whole=True)])
        draft = Draft()
        draft.offset, draft.finished, draft.result_json, draft.epoch = 9, True, "[1 ]", 2
        grave = draft.freeze()
        journal.write([Change(key=KEY, state=grave, whole=True)])
        assert journal.state() == grave

    def test_finished_processes_that_have_their_content_are_found_by_offset(self, journal: Journal) -> None:
        """A page at a time; not those that run, nor gravestones. What a value says of itself does not count."""

        def state(offset: int, *, finished: bool, dropped: bool = False) -> State:
            draft = Draft()
            draft.offset, draft.epoch, draft.finished, draft.content_dropped = offset, 1, finished, dropped
            draft.result_json = '{"finished":true,"dropped":true}' if finished else None
            draft.owner_node = '"finished":true'
            return draft.freeze()

        made = [state(4, finished=True), state(5, finished=False), state(6, finished=True, dropped=True)]
        made += [state(7, finished=True), state(9, finished=True)]
        assert journal.write([Change(key=b"p%d" % one.offset, state=one, whole=True) for one in made])
        find = journal.store.finished
        assert find(journal.partition, journal.token, 0, 9, 3) == ([b"p4"], 7)
        assert find(journal.partition, journal.token, 7, 9, 3) == ([b"p7"], 9)
        assert find(journal.partition, journal.token, 5, 10, 10) == ([b"p7", b"p9"], 10)
        assert find(journal.partition, "another", 0, 10, 10) is None

    @slow_store
    @given(history=steps(40), cuts=st.lists(st.integers(1, 40), max_size=6))
    def test_batches_give_what_the_fold_gives(self, store: ViewBrowser, history: list[Step], cuts: list[int]) -> None:
        """Any history in any batches: the view's states are those of a plain fold from zero."""
        with only(UserFold("trail", 1, "[]", lambda value, kind, payload: [*value[-3:], payload])):
            self._batches_give_what_the_fold_gives(Journal(store), store, history, cuts)

    def _batches_give_what_the_fold_gives(
        self, journal: Journal, store: ViewBrowser, history: list[Step], cuts: list[int]
    ) -> None:
        written = write_history(history, _appender(), 1)
        for batch in _cut([one for one in written if one.entry is not None], sorted(set(cuts))):
            keys = {one.key for one in batch if one.key is not None}
            loaded = store.load(journal.partition, journal.token, keys)
            assert loaded is not None
            assert loaded[0] == journal.applied
            changes = fold_batch(loaded[1], [(one.offset, one.key, one.entry) for one in batch])  # type: ignore[misc]
            assert journal.write(changes, batch[-1].offset)
        for process_id, state in expected_states(written).items():
            assert (journal.state(process_id.encode()) or new_state()) == state
        states = {one.key: seen for one in written if one.key and (seen := journal.state(one.key)) is not None}
        assert list(index_problems(store, journal.partition, states)) == []

    def test_only_what_a_change_names_is_written(self, journal: Journal) -> None:
        """Values not named and messages said before stay as they are; a removed value goes."""
        first = with_messages(small_state(0, a="1", b="2", c="3"), 0, "one", "two")
        journal.write([Change(key=KEY, state=first, whole=True)])
        draft = with_messages(first, 1, "three").thaw()
        draft.values_json = {"a": "9", "c": "3"}
        second = draft.freeze()
        journal.write([
            Change(
                key=KEY,
                state=second,
                base=first,
                context_keys=frozenset({"a", "b"}),
                messages=second.conversation.newest(1),
                mail=False,
            )
        ])  # fmt: skip
        assert journal.state() == second

    def test_a_call_that_ends_or_is_forgotten_replaces_its_row(self, journal: Journal) -> None:
        """A view finds the state whole after a call was answered, and after another one was forgotten."""
        draft = small_state(0, a="1").thaw()
        draft.calls = CallsDraft(
            {"a:1": Call("step", 1, "d", "started", 1, 1), "b:1": Call("step", 2, "d", "started", 1, 2)}
        )
        first = draft.freeze()
        journal.write([Change(key=KEY, state=first, whole=True)])
        draft = first.thaw()
        draft.offset, draft.calls = 1, CallsDraft({"a:1": Call("step", 1, "d", "succeeded", 1, 3, "7")})
        second = draft.freeze()
        journal.write([
            Change(key=KEY, state=second, base=first, call_keys=frozenset({"a:1", "b:1"}), mail=False)
        ])  # fmt: skip
        assert journal.state() == second

    def test_an_attachment_that_grows_or_is_detached_replaces_its_row(self, journal: Journal) -> None:
        """A view finds the state whole: a part came, an attachment went, and the others were not written."""
        first = full_state(0)
        journal.write([Change(key=KEY, state=first, whole=True)])
        draft = first.thaw()
        grown, gone, begun = "a" * 64, "b" * 64, "c" * 64
        draft.offset = 1
        draft.attachments[grown] = Attachment(9, "text/plain", 9, 3)
        draft.attached_at[grown] = (3, 2**40, 2**41)
        del draft.attachments[gone]
        draft.attachments[begun] = Attachment(4, "image/png", 2, 1)
        draft.attached_at[begun] = (2**41 + 1,)
        second = draft.snapshot()
        digests = frozenset({grown, gone, begun, "d" * 64})
        journal.write([Change(key=KEY, state=second, base=first, digests=digests, mail=False)])
        assert journal.state() == second
        draft.offset, draft.values_json = 2, {**draft.values_json, "beside": "1"}
        third = draft.freeze()
        journal.write([Change(key=KEY, state=third, base=second, context_keys=frozenset({"beside"}), mail=False)])
        assert journal.state() == third

    def test_more_than_lua_can_unpack_at_once(self, journal: Journal) -> None:
        """20,000 values, 20,000 messages, 9,000 processes in one batch."""
        draft = Draft()
        draft.values_json = {f"key-{number}": str(number) for number in range(20_000)}
        draft.conversation = Conversation(b.MessageSaid("user", str(number)) for number in range(20_000))
        big = draft.freeze()
        small = small_state(3, a="1")
        many = [Change(key=b"p-%d" % number, state=small, whole=True) for number in range(9_000)]
        assert journal.write([Change(key=KEY, state=big, whole=True), *many])
        assert journal.state() == big
        loaded = journal.store.load(journal.partition, journal.token, [change.key for change in many])
        assert loaded is not None
        assert len(loaded[1]) == 9_000
        found = journal.store.offsets_from(journal.partition, journal.token, 4)
        assert found == {}
        found = journal.store.offsets_from(journal.partition, journal.token, 0)
        assert found is not None
        assert len(found) == 9_000
        fewer = with_values(big, {})
        journal.write([Change(key=KEY, state=fewer, base=big, context_keys=frozenset(big.values_json))])
        assert journal.state() == fewer

    # --- the guard (P3) -----------------------------------------------------------------------------------------------
    @pytest.mark.parametrize("position", [0, 4, 5, 7, 10, -1])
    def test_a_write_at_another_position_changes_nothing(self, store: ViewBrowser, position: int) -> None:
        """applied + 1 or nothing: a batch that is replayed, or too far ahead."""
        journal = Journal(store, applied=4)
        journal.write([Change(key=KEY, state=small_state(5), whole=True)])
        before = journal.state(), store.meta(journal.partition)
        change = Change(key=KEY, state=small_state(99, a="1"), whole=True)
        assert not store.write(journal.partition, journal.token, position, 99, 1, [change])
        assert (journal.state(), store.meta(journal.partition)) == before

    def test_a_write_with_another_token_changes_nothing(self, journal: Journal) -> None:
        """Nor do load, put, ready, point and offsets."""
        store, at = journal.store, journal.partition
        journal.write([Change(key=KEY, state=small_state(0), whole=True)])
        before = store.look_up(at, KEY)
        assert not store.write(at, "other", 1, 9, 1, [Change(key=KEY, state=small_state(9), whole=True)])
        assert not store.put(at, "other", {KEY: (small_state(9), Pointer(1, 1))})
        assert not store.ready(at, "other", 9, 1)
        assert not store.point(at, "other", {KEY: Pointer(1, 1)})
        assert store.load(at, "other", [KEY]) is None
        assert store.offsets_from(at, "other", 0) is None
        assert store.look_up(at, KEY) == before

    def test_offsets_beyond_what_a_double_holds_are_exact(self, store: ViewBrowser) -> None:
        """The guard compares texts."""
        journal = Journal(store, applied=2**53)
        assert not store.write(journal.partition, journal.token, 2**53 + 2, 2**53 + 2, 1, [])
        assert journal.write([])
        meta = store.meta(journal.partition)
        assert meta is not None
        assert meta.applied == 2**53 + 1

    def test_a_batch_without_changes_moves_the_applied_offset(self, journal: Journal) -> None:
        """Poison, or entries of nobody: the journal was read that far."""
        assert journal.write([], applied=41)
        meta = journal.store.meta(journal.partition)
        assert meta == (journal.token, 41, TOPIC, 5)

    # --- rebuilds (P1b) -----------------------------------------------------------------------------------------------
    def test_there_is_no_view_before_one_is_installed(self, store: ViewBrowser) -> None:
        """Neither meta nor process."""
        assert store.meta(99) is None
        assert store.look_up(99, KEY) == ViewLookup(None, None, None)
        assert store.load(99, "t", [KEY]) is None

    def test_a_view_that_is_rebuilt_has_no_applied_offset(self, store: ViewBrowser) -> None:
        """It takes states and no batches; ready makes it valid, and again ready changes nothing."""
        token = store.install(90, TOPIC)
        assert store.meta(90) == (token, None, TOPIC, -1)
        assert not store.write(90, token, 0, 1, 1, [])
        assert store.put(90, token, {KEY: (full_state(7), Pointer(3, 2))})
        assert store.put(90, token, {KEY: (full_state(7), Pointer(3, 2))})
        assert store.load(90, token, [KEY, OTHER]) == Loaded(None, {KEY: full_state(7)})
        assert store.ready(90, token, 1, 4)
        assert store.ready(90, token, 1, 4)
        assert store.look_up(90, KEY) == ViewLookup((token, 1, TOPIC, 4), full_state(7), Pointer(3, 2))  # type: ignore[arg-type]
        assert not store.put(90, token, {KEY: (full_state(8), Pointer(9, 9))})
        assert store.write(90, token, 2, 5, 4, [])
        assert not store.ready(90, token, 1, 4)
        assert store.meta(90) == (token, 5, TOPIC, 4)

    def test_of_two_rebuilders_the_later_one_wins(self, journal: Journal) -> None:
        """Whatever the first still does changes nothing; old states are not seen through the new token."""
        store, at = journal.store, journal.partition
        journal.write([Change(key=KEY, state=small_state(0, a="1"), whole=True)])
        first = store.install(at, TOPIC)
        assert store.put(at, first, {KEY: (small_state(0, a="1"), Pointer(0, 0))})
        second = store.install(at, TOPIC)
        assert len({first, second, journal.token}) == 3
        assert not store.put(at, first, {OTHER: (small_state(1), Pointer(0, 0))})
        assert not store.ready(at, first, 0, 0)
        assert not journal.write([])
        assert store.put(at, second, {OTHER: (small_state(1), Pointer(0, 0))})
        assert store.ready(at, second, 1, 0)
        assert store.look_up(at, KEY).state is None
        assert store.look_up(at, OTHER).state == small_state(1)

    # --- indexes ------------------------------------------------------------------------------------------------------
    def test_offsets_are_of_processes_at_or_above_the_floor(self, journal: Journal) -> None:
        """The newest offset of each."""
        journal.write([Change(key=b"p%d" % number, state=small_state(number), whole=True) for number in range(5)], 4)
        journal.write([Change(key=b"p1", state=small_state(9))], 9)
        found = journal.store.offsets_from(journal.partition, journal.token, 3)
        assert found == {b"p3": 3, b"p4": 4, b"p1": 9}
        assert journal.store.offsets_from(journal.partition, journal.token, 9, applied=9) == {b"p1": 9}
        assert journal.store.offsets_from(journal.partition, journal.token, 9, applied=8) is None

    def test_a_rebuild_that_lost_some_of_what_was_put_is_not_ready(self, store: ViewBrowser) -> None:
        """A failover in the middle of it: the count tells."""
        token = store.install(91, TOPIC)
        assert store.put(91, token, {KEY: (full_state(7), Pointer(3, 2))})
        assert not store.ready(91, token, 7, 1, processes=2)
        meta = store.meta(91)
        assert meta is not None
        assert meta.applied is None
        assert store.ready(91, token, 7, 1, processes=1)

    def test_a_pointer_is_seen_with_its_process(self, journal: Journal) -> None:
        """It stays when the process changes; of a process that is not there, none is seen."""
        store, at = journal.store, journal.partition
        journal.write([Change(key=KEY, state=small_state(0), whole=True)])
        assert store.point(at, journal.token, {KEY: Pointer(2**53 + 1, 7), OTHER: Pointer(1, 1)})
        journal.write([Change(key=KEY, state=small_state(1), whole=True)])
        assert store.look_up(at, KEY).pointer == Pointer(2**53 + 1, 7)
        assert store.look_up(at, OTHER).pointer is None

    def test_a_page_lists_processes_by_key(self, journal: Journal) -> None:
        """After a key, with a prefix, at most so many; what it says is the state's."""
        store, at = journal.store, journal.partition
        names = [b"a", b"a-1", b"a-2", b"b*", "bü".encode()]
        journal.write([Change(key=key, state=full_state(), whole=True) for key in reversed(names)])
        assert [one.process_id.encode() for one in store.page(at, b"", b"", 10).summaries] == names
        assert [one.process_id for one in store.page(at, b"a", b"a", 10).summaries] == ["a-1", "a-2"]
        assert [one.process_id for one in store.page(at, b"", b"b", 1).summaries] == ["b*"]
        assert store.page(at, b"b\xc3\xbc", b"b", 10).summaries == ()
        one = store.page(at, b"", b"", 1).summaries[0]
        state = full_state()
        assert (one.lifecycle, one.epoch, one.owner, one.owner_node) == ("running", 3, state.owner, "node-ü")
        assert (one.seq, one.offset, one.last_kind, one.finished) == (state.seq, 7, "custom", False)
        assert (one.degraded, one.messages, one.values) == ("gap", 3, 3)

    @pytest.mark.parametrize("whole", [True, False])
    def test_a_page_of_open_processes_leaves_out_finished_ones_and_shared_values(
        self, journal: Journal, whole: bool
    ) -> None:
        """A process leaves the index in the same call that writes its end, and an index of none is an empty page."""
        store, at = journal.store, journal.partition
        assert store.page(at, b"", b"", 10, open_only=True) == (store.meta(at), ())
        running, names = small_state(0), [b"b", b"a", b"shared:rate", b"c"]
        journal.write([Change(key=key, state=running, whole=True) for key in names])
        draft = running.thaw()
        draft.offset, draft.finished = 1, True
        ended = draft.freeze()
        journal.write([Change(key=b"a", state=ended, base=None if whole else running, whole=whole)])
        journal.write([Change(key=b"b", state=small_state(2), base=running)])
        assert [one.process_id for one in store.page(at, b"", b"", 10, open_only=True).summaries] == ["b", "c"]
        assert [one.process_id for one in store.page(at, b"b", b"", 1, open_only=True).summaries] == ["c"]
        journal.write([Change(key=key, state=ended, whole=True) for key in names])
        assert store.page(at, b"", b"", 10, open_only=True) == (store.meta(at), ())
        assert len(store.page(at, b"", b"", 10).summaries) == 4

    def test_open_processes_are_known_after_a_rebuild(self, journal: Journal) -> None:
        """Of what is put, in several calls, only the processes that have not finished."""
        store, at = journal.store, journal.partition
        token = store.install(at, TOPIC)
        draft = Draft()
        draft.offset, draft.finished = 1, True
        states = {b"a": small_state(0), b"b": draft.freeze(), b"shared:x": small_state(2)}
        for key, state in states.items():
            assert store.put(at, token, {key: (state, Pointer(1, 1))})
        assert store.ready(at, token, 2, -1, 3)
        assert [one.process_id for one in store.page(at, b"", b"", 10, open_only=True).summaries] == ["a"]

    def test_the_offset_of_a_process_is_asked_for_cheaply(self, journal: Journal) -> None:
        """With its partition's meta."""
        journal.write([Change(key=KEY, state=small_state(12), whole=True)], 12)
        meta, offset = journal.store.offset_of(journal.partition, KEY)
        assert meta == (journal.token, 12, TOPIC, 5)
        assert offset == 12
        assert journal.store.offset_of(journal.partition, OTHER) == (meta, None)

    # --- damage -------------------------------------------------------------------------------------------------------


class FieldwiseViewContract(ViewContract):
    """The promises of a view that writes only the fields that a change names."""

    def test_folds_that_did_not_change_are_not_written(self, journal: Journal) -> None:
        """A change without folds leaves what was there; one with them writes those that there are."""
        first = full_state(7)
        journal.write([Change(key=KEY, state=first, whole=True)])
        draft = first.thaw()
        draft.offset, draft.folds = 8, {**first.folds, "spent": Folded(3, 6, "2")}
        journal.write([Change(key=KEY, state=draft.snapshot(), mail=False)])
        seen = journal.state()
        assert seen is not None
        assert (seen.offset, dict(seen.folds)) == (8, dict(first.folds))
        draft.offset = 9
        journal.write([Change(key=KEY, state=draft.snapshot(), base=first, mail=False, folds=True)])
        seen = journal.state()
        assert seen is not None
        assert (seen.offset, dict(seen.folds)) == (9, dict(draft.folds))

    def test_mail_that_did_not_change_is_not_written(self, journal: Journal) -> None:
        """A change without mail leaves what was there."""
        first = full_state(7)
        journal.write([Change(key=KEY, state=first, whole=True)])
        draft = first.thaw()
        draft.offset, draft.mailbox, draft.remembered = 8, {}, {}
        journal.write([Change(key=KEY, state=draft.snapshot(), mail=False)])
        seen = journal.state()
        assert seen is not None
        assert (seen.offset, dict(seen.mailbox)) == (8, dict(first.mailbox))
        draft.offset = 9
        journal.write([Change(key=KEY, state=draft.snapshot())])
        seen = journal.state()
        assert seen is not None
        assert (seen.offset, dict(seen.mailbox), dict(seen.remembered)) == (9, {}, {})

    def test_the_key_nul_is_no_process(self, journal: Journal) -> None:
        """Anybody may write a record with such a key: nothing is damaged by it."""
        assert journal.write([])
        assert journal.store.load(journal.partition, journal.token, [b"\0"]) == Loaded(0, {})
        seen = journal.store.look_up(journal.partition, b"\0")
        assert (seen.state, seen.damage) == (None, None)

    def test_a_change_that_omits_a_field_is_damage(self, journal: Journal) -> None:
        """A state that is not the one its head counts is never handed out; a whole change makes the row anew."""
        store, at = journal.store, journal.partition
        journal.write([Change(key=KEY, state=small_state(0), whole=True)])
        journal.write([Change(key=KEY, state=with_messages(small_state(0), 1, "not named"))])
        journal.write([Change(key=OTHER, state=small_state(2), whole=True)])
        seen = store.look_up(at, KEY)
        assert (seen.meta, seen.state) == (store.meta(at), None)
        assert seen.damage is not None
        assert store.load(at, journal.token, [KEY, OTHER]) == Loaded(
            journal.applied, {OTHER: small_state(2)}, {KEY: seen.damage}
        )
        change = Change(key=KEY, state=small_state(1), whole=True)
        assert store.write(at, journal.token, journal.applied + 1, journal.applied, 5, [change])
        assert journal.state() == small_state(1)


def _appender() -> Callable[[int, bytes | None, bytes | None], int]:
    count = itertools.count()
    return lambda partition, key, value: next(count)


def _cut(written: list[Written], cuts: list[int]) -> list[list[Written]]:
    edges = [0, *cuts, len(written)]
    return [batch for start, stop in itertools.pairwise(edges) if (batch := written[start:stop])]
