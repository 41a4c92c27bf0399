"""The states of a process at every seq, on logs in memory: the same as a recovery has them, within bounds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from entry_examples import claim, external, own
from owners import Owner
from seekpoint.console.web.data import moments as moments_module
from seekpoint.console.web.data.histories import Histories
from seekpoint.console.web.data.moments import Moments, ProcessMoments
from seekpoint.console.web.data.refold import refold
from seekpoint.console.web.data.state_diff import StateDifference, differences, path_text, state_tree
from seekpoint.console.web.data.state_sections import state_json
from seekpoint.consumers.recovery.points import Point
from seekpoint.consumers.recovery.recoverer import Recoverer
from seekpoint.schemas import MemoryLog
from seekpoint.schemas import bodies as b
from seekpoint.schemas.bodies.entry import Entry
from seekpoint.schemas.errors import JournalGap, UnknownPoint, UnknownProcess
from seekpoint.schemas.folding.fold import fold
from seekpoint.schemas.state.process_state import State, new_state
from seekpoint.schemas.wire.encoding import encode
from stored_process import KEY, Kept, begin
from written_journals import a_case, many_steps


@dataclass
class _Target:
    """What the console reads of a journal."""

    log: MemoryLog
    recoverer: Recoverer


def _log_of(*entries: Entry) -> MemoryLog:
    log = MemoryLog(partitions=1)
    _append(log, *entries)
    return log


def _append(log: MemoryLog, *entries: Entry) -> None:
    for entry in entries:
        log.append(0, entry.process_id.encode(), encode(entry))


def _moments(log: MemoryLog, recoverer: Recoverer | None = None, process_id: str = "case-17") -> ProcessMoments:
    target: Any = _Target(log, recoverer or Recoverer(log))
    return Moments(target, Histories(target)).of(process_id)


def _folded(*entries: Entry) -> State:
    state = new_state()
    for offset, entry in enumerate(entries):
        state = fold(state, offset, entry)
    return state


def test_each_moment_is_that_of_a_recovery() -> None:
    """In any order, over two owners, a fenced write and a signal."""
    log = _log_of(*a_case())
    moments, recoverer = _moments(log), Recoverer(log)
    for seq in (16, 1, 9, 10, 9, 3, 13, 12, 16):
        found = moments.at(seq)
        wanted = recoverer.recover("case-17", point=Point(seq=seq)).state
        assert (found.after, found.after.offset) == (wanted, wanted.offset)
        assert found.before.seq == found.earlier.seq == seq - 1
    assert (found.first_seq, found.last_seq, found.behind) == (1, 16, 0)


def test_a_moment_tells_the_entries_since_the_seq_before() -> None:
    """Those of others too, with the verdict of each; the state right before the entry has what they changed."""
    found = _moments(_log_of(*a_case())).at(13)
    assert [(one.logged.entry.kind, one.verdict.name) for one in found.entries] == [
        ("signal", "DELIVERED"), ("claim", "CLAIM_WON"), ("context_updated", "STALE"), ("gate_resolved", "APPLIED"),
    ]  # fmt: skip
    assert (found.between, found.earlier.epoch, found.before.epoch, len(found.before.mailbox)) == (3, 1, 2, 1)
    last = _moments(_log_of(*a_case(), external(b.Signal("late", "1"), 90)._replace(process_id="case-17"))).at()
    assert (last.seq, last.behind) == (16, 1)


def test_kept_states_stay_within_their_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fewer are kept of large ones, and each moment is still right. Near ones answer a step back without a read."""
    monkeypatch.setattr(moments_module, "_INTERVAL", 16)
    monkeypatch.setattr(moments_module, "_KEPT_BYTES_MAX", 100_000)
    entries = [one._replace(process_id="case-17") for one in many_steps("case-17", 2_002)]
    moments = _moments(_log_of(*entries))
    for seq in (2001, 1000, 999, 1001, 17, 16, 15):
        assert moments.at(seq).after == _folded(*entries[: seq + 1])
    assert moments.kept_bytes <= 100_000
    assert moments.kept_bytes == sum(one.bytes for one in moments._kept[1:])
    assert sum(one.read_bytes for one in moments._kept) + moments._read_bytes == sum(
        len(encode(one)) for one in entries
    )
    distances = {after.at - one.at for one, after in zip(moments._kept, moments._kept[1:], strict=False)}
    assert len(distances) == 1
    assert distances.pop() > 16
    assert len(moments._near) <= 24


def test_what_is_appended_is_read_once() -> None:
    """And a process that began after the first question is found. A lost end of the log starts it anew."""
    log = _log_of(*a_case())
    moments = _moments(log)
    assert moments.at().seq == 16
    _append(log, own(17, b.ContextUpdated("a", "1"), epoch=2, claim_id=2))
    assert (moments.at().seq, moments.state().context) == (17, {"a": 1})
    with pytest.raises(UnknownProcess):
        _moments(log, process_id="new").at()


def test_an_entry_that_was_deleted_meanwhile_is_missed() -> None:
    """A state without it would be wrong, so there is none."""
    log = _log_of(*[one._replace(process_id="case-17") for one in many_steps("case-17", 300)])
    moments = _moments(log)
    assert moments.at(299).seq == 299
    before, now = iter([log.watermarks(0)]), log.watermarks
    log.trim(0, 50)
    log.watermarks = lambda partition: next(before, now(partition))  # type: ignore[method-assign]
    with pytest.raises(JournalGap, match="deleted from the log meanwhile"):
        moments.at(100)


def test_other_moments_do_not_exist() -> None:
    """Nothing lies before the first seq and behind the last; a process with mail only has its present state."""
    moments = _moments(_log_of(*a_case()))
    for seq in (0, 17):
        with pytest.raises(UnknownPoint, match="from 1 to 16"):
            moments.at(seq)
    mail = _moments(_log_of(external(b.Signal("go", "1"), 1)))
    found = mail.at()
    assert (found.seq, found.first_seq, found.last_seq, len(found.after.mailbox), found.behind) == (0, 0, 0, 1, 0)
    assert [one.verdict.name for one in found.entries] == ["DELIVERED"]


def test_a_trimmed_history_begins_with_its_checkpoint() -> None:
    """Its states from there on are right; those before are gone, and so is the fixture."""
    log = MemoryLog(partitions=4)
    kept = Kept(log, Owner(log.append, 4, "case-17"))
    begin(kept, 3)
    kept.save()
    whole = [kept.state()]
    for number in range(4, 7):
        kept.owner.update("k", str(number))
        whole.append(kept.state())
    log.trim(kept.partition, whole[0].offset + 1)
    moments = _moments(log, kept.recoverer)
    assert [moments.at(seq).after for seq in (3, 4, 5, 6)] == whole
    assert (moments.at(3).entries, moments.at().first_seq) == ([], 3)
    with pytest.raises(UnknownPoint, match="from 3 to 6"):
        moments.at(2)
    with pytest.raises(JournalGap, match="beginning of the history"):
        moments.entries_until(5, 100)
    found = refold(_Target(log, kept.recoverer), moments)  # type: ignore[arg-type]
    assert (found.begins_at, found.agrees, [one.where for one in found.compared]) == ("checkpoint", True, ["console"])
    assert "begins with it" in found.missing["checkpoint"]


# --- verification -----------------------------------------------------------------------------------------------------
def _stored() -> Kept:
    log = MemoryLog(partitions=4)
    kept = Kept(log, Owner(log.append, 4, "case-17"))
    begin(kept, 3)
    kept.save()
    kept.owner.update("k", "4")
    kept.project()
    kept.owner.update("k", "5")
    return kept


def _verified(kept: Kept) -> Any:
    target: Any = _Target(kept.log, kept.recoverer)
    return refold(target, _moments(kept.log, kept.recoverer))


def test_stored_states_that_are_right_agree() -> None:
    """Each is compared with a fold up to where it is, not up to now."""
    found = _verified(_stored())
    assert found.agrees
    assert [(one.where, one.seq) for one in found.compared] == [("checkpoint", 3), ("view", 4), ("console", 5)]
    assert (found.missing, found.begins_at) == ({}, "log")


def test_a_wrong_view_is_found_with_its_first_difference() -> None:
    """Also one that lacks the process. What is right stays right."""
    kept = _stored()
    right = kept.recoverer.recover("case-17", point=Point(seq=4)).state.thaw()
    right.values_json["k"] = "99"
    kept.view.forge(kept.partition, KEY, right.freeze())
    found = _verified(kept)
    assert not found.agrees
    [wrong] = [one for one in found.compared if not one.agrees]
    assert wrong.where == "view"
    assert wrong.first_difference == StateDifference(path=["context", "k"], what="changed", left=99, right=4)
    kept.view.forge(kept.partition, KEY, None)
    [wrong] = [one for one in _verified(kept).compared if not one.agrees]
    assert (wrong.where, wrong.seq) == ("view", 0)


def test_a_wrong_checkpoint_is_found() -> None:
    """Its hash fits its own bytes: only the fold of the log shows that they are wrong."""
    kept = _stored()
    wrong = kept.state().thaw()
    wrong.values_json["k"] = "77"
    state, offset = wrong.freeze(), kept.state().offset
    made = kept.checkpoint()
    kept.save(type(made).of("case-17", kept.partition, state, kept.log.topic_id, made.leader_epoch))
    found = _verified(kept)
    assert [(one.where, one.agrees) for one in found.compared if one.offset == offset + 1] == [
        ("checkpoint", False), ("console", True),
    ]  # fmt: skip


def test_what_cannot_be_compared_is_named() -> None:
    """A journal without a view and checkpoints has the states that the console keeps."""
    log = _log_of(*a_case())
    target: Any = _Target(log, Recoverer(log))
    found = refold(target, _moments(log))
    assert found.agrees
    assert ([one.where for one in found.compared], sorted(found.missing)) == (["console"], ["checkpoint", "view"])
    with pytest.raises(UnknownProcess):
        refold(target, _moments(log, process_id="nobody"))


# --- differences and trees --------------------------------------------------------------------------------------------
def test_differences_lead_to_the_value() -> None:
    """Inside of JSON values too, and 1, 1.0 and true are three things."""
    began = [claim(1), own(1, b.ContextUpdated("order", '{"lines":[{"n":1},{"n":2}],"a b":1,"gone":0}'))]
    left = _folded(*began)
    right = _folded(*began, own(2, b.ContextUpdated("order", '{"lines":[{"n":1.0},{"n":2},3],"a b":true}')))
    found = {path_text(one.path): (one.what, one.left, one.right) for one in differences(left, right)}
    assert found == {
        "context.order.lines[0].n": ("changed", 1, 1.0),
        "context.order.lines[2]": ("added", None, 3),
        'context.order["a b"]': ("changed", 1, True),
        "context.order.gone": ("removed", 0, None),
        "bookkeeping.seq": ("changed", 1, 2),
    }
    assert [*differences(left, left)] == []


def test_what_has_another_hash_differs_somewhere() -> None:
    """After every entry of the case: a difference, if and only if the hash is another one."""
    states = [_folded(*a_case()[:count]) for count in range(21)]
    for one in states:
        for other in states:
            assert any(differences(one, other)) == (one.hash != other.hash)


def test_a_tree_shows_every_change_and_bounds_the_rest() -> None:
    """Of many items the changed ones are shown, whatever their place, and the number of the others."""
    many = {f"key-{number:04}": str(number) for number in range(500)}
    before = _folded(claim(1), own(1, b.ContextUpdatedMany(many)))
    changed = {"key-0250": '"x"', "key-0499": '{"deep":[1]}', "new": "[]"}
    after = _folded(claim(1), own(1, b.ContextUpdatedMany(many)), own(2, b.ContextUpdatedMany(changed)))
    [context] = [one for one in state_tree(before, after) if one.name == "context"]
    marked = {one.name: (one.mark, one.was) for one in context.children if one.mark}
    assert marked == {"key-0250": ("changed", "250"), "key-0499": ("changed", "499"), "new": ("added", None)}
    assert (context.changes, context.count, len(context.children) + context.left_out) == (3, "{501}", 501)
    assert len(context.children) < 100
    long = _folded(claim(1), own(1, b.ContextUpdated("text", f'"{"x" * 100_000}"')))
    [leaf] = next(one for one in state_tree(long, long) if one.name == "context").children
    assert len(leaf.text) < 2_100


def test_the_json_of_a_state_says_what_its_texts_say() -> None:
    """Outputs, errors and inputs are values, not texts of JSON in JSON."""
    found = state_json(_folded(*a_case()))
    assert found["calls"]["look:1"]["output"] == {"found": "desk"}
    assert found["calls"]["charge:1"]["error"]["type"] == "shop:NoRoom"
    assert found["process"]["agent"]["input"] == {"order": 7}
    assert found["conversation"][0]["role"] == "user"
