"""A record in the checkpoint topic that Seekpoint did not write harms its own key only, and proves nothing."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import pytest

from projection_bench import save_now
from seekpoint.consumers.checkpoints.checkpoint import FLOOR_KEY, Floor
from seekpoint.consumers.checkpoints.trimming import Trim
from seekpoint.consumers.recovery.absence_proof import prove_absence
from seekpoint.consumers.recovery.open_processes import recover_open
from seekpoint.consumers.recovery.process_listing import list_processes
from seekpoint.consumers.recovery.recoverer import Recoverer
from seekpoint.consumers.recovery.recovery_report import Recovered
from seekpoint.consumers.recovery.tiers import Tier
from seekpoint.consumers.recovery.verification import verify_all
from seekpoint.schemas.bodies import AgentStarted
from seekpoint.schemas.errors import JournalGap, NewerFormat, TierUnavailable, UnknownProcess
from seekpoint.schemas.log.manifest import FORMAT, MANIFEST_KEY
from stored_journal import StoredJournal

KEY, NEIGHBOUR = b"case-17", b"neighbour"


class Damaged(StoredJournal):
    """Two processes, projected and saved. The checkpoint topic gets a record of another program behind that."""

    def __init__(self) -> None:
        super().__init__(KEY, NEIGHBOUR)
        for owner in self.owners.values():
            owner.claim()
            owner.own(AgentStarted("agent", "", "", "1"))
            owner.update("n", "1")
        projector = self.projector()
        assert self.project(projector)
        save_now(projector, self)
        self.states = {key: Recoverer(self.log).recover(key.decode()).state for key in self.owners}


DAMAGES: dict[str, Callable[[bytes], bytes | None]] = {
    "null": lambda value: None,
    "empty": lambda value: b"",
    "foreign bytes": lambda value: b"\xff\x00 junk",
    "truncated": lambda value: value[:-7],
    "head alone": lambda value: value.partition(b"\n")[0],
    "another journal": lambda value: value.replace(b"memory.1", b"memory.9"),
    "newer format": lambda value: value.replace(b'"format":1', b'"format":99', 1),
    "newer fold": lambda value: value.replace(b'"fold_version":', b'"fold_version":9', 1),
}
VIEWS = "there", "emptied", "rebuilt", "off"


def damage(name: str, view: str, *, is_trimmed: bool, key: bytes = KEY, is_compacted: bool = False) -> Damaged:
    """Return a journal with the damage. A view is rebuilt by a projector that reads it."""
    made = Damaged()
    if is_trimmed:
        made.log.trim(0, made.log.watermarks(0).high)
    made.checkpoints.write(0, [(key, DAMAGES[name](made.newest(key if key == FLOOR_KEY else KEY)))])
    if is_compacted:
        made.checkpoints.compact(0)
    if view in ("emptied", "rebuilt"):
        made.view.flush()
    if view == "rebuilt":
        made.projector()
    return made


def recoverer_of(made: Damaged, view: str) -> Recoverer:
    return Recoverer(made.log, view=None if view == "off" else made.view, checkpoints=made.checkpoints)


CASES = [*product(DAMAGES, VIEWS, (False, True), (False, True))]


@pytest.mark.parametrize(("name", "view", "is_trimmed", "is_compacted"), CASES)
def test_a_damaged_checkpoint_is_no_proof_of_absence(
    name: str, view: str, is_trimmed: bool, is_compacted: bool
) -> None:
    """The process is what it was, or nobody can say what it is; it never counts as new."""
    made = damage(name, view, is_trimmed=is_trimmed, is_compacted=is_compacted)
    recoverer = recoverer_of(made, view)
    for tier in (None, Tier.VIEW, Tier.CHECKPOINT):
        try:
            state = recoverer.recover("case-17", tier=tier).state
        except (JournalGap, TierUnavailable, NewerFormat) as exc:
            if not (isinstance(exc, NewerFormat) or tier is not None or (is_trimmed and view != "there")):
                raise
        else:
            assert state == made.states[KEY], tier
    proof = prove_absence(recoverer, 0, made.log.watermarks(0).high)
    assert proof is None or KEY in proof.keys or proof.may_have_checkpoint(KEY)


@pytest.mark.parametrize(("name", "view", "is_trimmed"), [*product(DAMAGES, VIEWS, (False, True))])
@pytest.mark.parametrize("key", [KEY, b"foreign", b"\x00other", b"\xff\xfe", FLOOR_KEY], ids=repr)
def test_no_other_process_suffers(name: str, view: str, is_trimmed: bool, key: bytes) -> None:
    """Its neighbour is recovered alone and in bulk, listed, verified and projected."""
    made = damage(name, view, is_trimmed=is_trimmed, key=key)
    recoverer, expected = recoverer_of(made, view), made.states[NEIGHBOUR]
    assert recoverer.recover("neighbour").state == expected
    assert recoverer.recover_many(["neighbour"])["neighbour"].state == expected
    everything = recoverer.recover_partition(0)
    assert everything["neighbour"].state == expected
    assert everything.keys() <= {"neighbour", "case-17"}
    assert "case-17" not in everything or everything["case-17"].state == made.states[KEY]
    assert recover_open(recoverer, 0)["neighbour"].state == expected
    listed = [one.process_id for page in list_processes(recoverer, "", "", None, lambda why: None) for one in page]
    assert "neighbour" in listed
    assert "foreign" not in listed
    assert {one.process_id: one.agrees for one in verify_all(recoverer)}["neighbour"]
    with pytest.raises(UnknownProcess):
        recoverer.recover("unknown")
    made.owners[NEIGHBOUR].update("n", "2")
    made.owners[KEY].update("n", "2")
    projector = made.projector()
    assert made.project(projector)
    save_now(projector, made)
    if not (
        is_trimmed and key == KEY and view in ("there", "off")
    ):  # else the floor stays: only the view has its state
        assert projector.floor == made.log.watermarks(0).high
    for tier in (None, Tier.CHECKPOINT):
        assert recoverer_of(made, view).recover("neighbour", tier=tier).state.context == {"n": 2}


@pytest.mark.parametrize(("name", "view"), [*product(DAMAGES, VIEWS)])
def test_an_entry_after_the_damage_makes_no_new_process(name: str, view: str) -> None:
    """A projector that has no state of the process passes its entries over, and a trim keeps them."""
    made = damage(name, view, is_trimmed=True)
    made.owners[KEY].update("n", "2")
    projector = made.projector()
    assert made.project(projector)
    save_now(projector, made)
    recoverer = recoverer_of(made, view)
    answers: dict[str, Callable[[], dict[str, Recovered]]] = {
        "alone": lambda: {"case-17": recoverer.recover("case-17")},
        "many": lambda: recoverer.recover_many(["case-17", "neighbour"]),
        "all": lambda: recoverer.recover_partition(0),
        "open": lambda: recover_open(recoverer, 0),
    }
    for way, answer in answers.items():
        try:
            found = answer().get("case-17")
        except (JournalGap, NewerFormat):
            assert way in ("alone", "many")
            assert view != "there"
        else:  # what a view kept has the digest that the damaged checkpoint names
            assert (found is None and view != "there") or (found is not None and found.state.context == {"n": 2})


def test_a_damaged_checkpoint_is_written_again_where_the_log_is_whole() -> None:
    """The damage is gone with the next save."""
    made = damage("null", "there", is_trimmed=False)
    save_now(made.projector(), made)
    found = Recoverer(made.log, checkpoints=made.checkpoints).recover("case-17", tier=Tier.CHECKPOINT)
    assert found.state == made.states[KEY]


def test_a_floor_that_cannot_be_read_leaves_the_one_before_it() -> None:
    """An older floor is as true, so recoveries, the projector and a trim go on with it."""
    made = Damaged()
    end = made.log.watermarks(0).high
    made.checkpoints.write(0, [(FLOOR_KEY, None)])
    recoverer = Recoverer(made.log, checkpoints=made.checkpoints)
    assert recoverer.recover("neighbour", tier=Tier.CHECKPOINT).report.seek_point == end
    assert made.projector().floor == end
    assert Trim(made.log, made.checkpoints, made).run(0).target == end


def test_a_foreign_record_does_not_stop_a_trim() -> None:
    """No entry is of its key, so no deleted entry could be in it."""
    made = damage("foreign bytes", "there", is_trimmed=False, key=b"foreign")
    assert Trim(made.log, made.checkpoints, made).run(0).target == made.log.watermarks(0).high


def test_a_trim_keeps_the_entries_of_a_process_whose_checkpoint_is_damaged() -> None:
    """They are the only place where the process is left."""
    made = damage("null", "there", is_trimmed=False)
    with pytest.raises(Exception, match="in no checkpoint"):
        Trim(made.log, made.checkpoints, made).run(0)
    assert made.log.watermarks(0).low == 0


@pytest.mark.parametrize("name", ["newer format", "newer fold"])
def test_a_projector_stops_at_a_newer_checkpoint_once_the_manifest_names_its_format(name: str) -> None:
    """A genuine newer Seekpoint raises the manifest first. Without that, the record is another program's."""
    made = damage(name, "there", is_trimmed=False)
    made.projector()
    manifest = b'{"journal":"memory","format":%d,"partitions":1,"topic_ids":{},"limits":{}}' % (FORMAT + 1)
    made.log.table("schemas").put(MANIFEST_KEY, manifest)
    with pytest.raises(NewerFormat):
        made.projector()


def test_a_floor_of_another_topic_is_passed_over() -> None:
    """A projector uses the newest floor of its own journal."""
    made = Damaged()
    foreign = Floor(offset=3, leader_epoch=-1, topic_id="another", since=0)
    made.checkpoints.write(0, [(FLOOR_KEY, foreign.to_bytes())])
    assert made.projector().floor == made.log.watermarks(0).high
