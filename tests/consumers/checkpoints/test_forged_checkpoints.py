"""Verification compares the newest checkpoint and the newest floor with the log, whatever the view points to."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from projection_bench import save_now
from seekpoint.consumers.checkpoints.checkpoint import FLOOR_KEY, Checkpoint, Floor
from seekpoint.consumers.recovery.recoverer import Recoverer
from seekpoint.consumers.recovery.verification import verify, verify_all
from seekpoint.schemas.bodies import AgentStarted
from stored_journal import StoredJournal

ACCOUNT, NEIGHBOUR = "account", "neighbour"


def forged(made: StoredJournal, seq: int, offset: int | None = None) -> tuple[bytes, bytes]:
    """Return a checkpoint of another state, whose digest fits it."""
    draft = Recoverer(made.log).recover(ACCOUNT).state.thaw()
    draft.seq, draft.offset = seq, draft.offset if offset is None else offset
    return ACCOUNT.encode(), Checkpoint.of(ACCOUNT, 0, draft.freeze(), made.log.topic_id, 0).to_bytes()


def other_state(made: StoredJournal) -> tuple[bytes, bytes]:
    return forged(made, 99)


def later_offset(made: StoredJournal) -> tuple[bytes, bytes]:
    """Return a checkpoint at the offset of an entry that is not the process's last one."""
    return forged(made, 99, made.log.watermarks(0).high - 1)


def floor_above_entries(made: StoredJournal) -> tuple[bytes, bytes]:
    """Return a floor above an entry that no checkpoint has."""
    made.owners[b"account"].update("n", "101")
    high = made.log.watermarks(0).high
    return FLOOR_KEY, Floor(offset=high, leader_epoch=0, topic_id=made.log.topic_id, since=0).to_bytes()


@pytest.mark.parametrize("forge", [other_state, later_offset, floor_above_entries])
@pytest.mark.parametrize("has_view", [True, False])
def test_verify_sees_a_forged_record(forge: Callable[[StoredJournal], tuple[bytes, bytes]], has_view: bool) -> None:
    """Alone and with all others, with a view that points to the checkpoint before it, and without one."""
    made = StoredJournal(ACCOUNT.encode(), NEIGHBOUR.encode())
    for owner in made.owners.values():
        owner.claim()
        owner.own(AgentStarted("agent", "", "", "1"))
        owner.update("n", "100")
    projector = made.projector()
    assert made.project(projector)
    save_now(projector, made)
    recoverer = Recoverer(made.log, view=made.view if has_view else None, checkpoints=made.checkpoints)
    assert all(verified.agrees for verified in verify_all(recoverer))
    made.checkpoints.write(0, [forge(made)])
    assert not verify(recoverer, ACCOUNT).agrees
    assert {verified.process_id: verified.agrees for verified in verify_all(recoverer)} == {
        ACCOUNT: False,
        NEIGHBOUR: True,
    }


@pytest.mark.parametrize("has_view", [True, False])
def test_verify_sees_a_checkpoint_of_a_process_that_the_log_does_not_have(has_view: bool) -> None:
    """The log is whole, so that it proves that there is no such process."""
    made = StoredJournal(ACCOUNT.encode())
    made.owners[b"account"].claim()
    made.owners[b"account"].update("n", "100")
    projector = made.projector()
    assert made.project(projector)
    save_now(projector, made)
    made.checkpoints.write(0, [(b"invented", made.newest(b"account").replace(b'"account"', b'"invented"'))])
    recoverer = Recoverer(made.log, view=made.view if has_view else None, checkpoints=made.checkpoints)
    assert {verified.process_id: verified.agrees for verified in verify_all(recoverer)} == {
        ACCOUNT: True,
        "invented": False,
    }
    assert not verify(recoverer, "invented").agrees
