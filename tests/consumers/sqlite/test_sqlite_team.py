"""Teams share the partitions of a journal in a file."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from open_files import OpenFile
from seekpoint.consumers.checkpoints.checkpoint import FLOOR_KEY, Checkpoint, Floor
from seekpoint.consumers.checkpoints.checkpoint_writer import CommitFailed, Save
from seekpoint.consumers.sqlite import sqlite_team
from seekpoint.consumers.sqlite.sqlite_checkpoints import SqliteCheckpoints
from seekpoint.consumers.sqlite.sqlite_team import SqliteTeamMember, shared_out
from seekpoint.schemas.state.process_state import new_state

NAMES = st.sampled_from("abcdef")


@given(st.dictionaries(st.integers(0, 40), NAMES), st.sets(NAMES, min_size=1), st.integers(1, 32))
def test_everybody_gets_a_fair_share_and_keeps_what_it_may(
    before: dict[int, str], members: set[str], partitions: int
) -> None:
    """All partitions are given out; shares differ by one at most; a fair distribution stays as it is."""
    after = shared_out(before, members, partitions)
    assert [*after] == [*range(partitions)]
    shares = Counter(dict.fromkeys(members, 0)) + Counter(after.values())
    counts = [shares[one] for one in members]
    assert max(counts) - min(counts) <= 1
    assert shared_out(after, members, partitions) == after
    had = Counter(member for partition, member in before.items() if partition < partitions)
    for one in members:
        kept = sum(after[at] == one for at, member in before.items() if at < partitions and member == one)
        assert kept >= min(had[one], partitions // len(members))


def look(*members: SqliteTeamMember) -> list[set[int]]:
    """Let all look twice: what one learns the others are told."""
    for one in (*members, *members):
        one.look_soon()
        one.look()
    return [{*one.assigned} for one in members]


def test_members_come_and_go(open_file: OpenFile) -> None:
    """Each partition has one member; another team is apart."""
    first, second, other = (SqliteTeamMember(open_file(partitions=4), team) for team in ("a", "a", "b"))
    assert look(first) == [{0, 1, 2, 3}]
    assert look(first, second, other) == [{0, 1}, {2, 3}, {0, 1, 2, 3}]
    first.leave()
    first.leave()
    assert look(second) == [{0, 1, 2, 3}]


def test_a_member_whose_program_was_killed_is_replaced_at_once(open_file: OpenFile, tmp_path: Path) -> None:
    """The operating system tells that it is gone."""
    own = SqliteTeamMember(open_file(partitions=2), "a")
    program = f"""
import os
from pathlib import Path
from seekpoint.consumers.sqlite.sqlite_file import SqliteFile
from seekpoint.consumers.sqlite.sqlite_team import SqliteTeamMember
from seekpoint.schemas.config.settings import Settings
SqliteTeamMember(SqliteFile(Path({str(tmp_path / "runs.db")!r}), Settings()), "a").look()
os.kill(os.getpid(), 9)
"""
    assert look(own) == [{0, 1}]
    subprocess.run([sys.executable, "-c", program], check=False, timeout=60)
    with open_file().reading() as connection:
        assert connection.execute("SELECT count(*) FROM members").fetchone() == (2,)
    assert look(own) == [{0, 1}]
    with open_file().reading() as connection:
        assert connection.execute("SELECT count(*) FROM members").fetchone() == (1,)


def test_a_member_that_is_not_seen_is_replaced_and_may_come_back(
    open_file: OpenFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stopped program keeps nobody waiting."""
    first, second = (SqliteTeamMember(open_file(partitions=2), "a") for _ in range(2))
    assert look(first, second) == [{0}, {1}] or look(first, second) == [{1}, {0}]
    monkeypatch.setattr(sqlite_team, "_SILENCE_S", -1.0)
    second.look_soon()
    second.look()
    assert second.assigned == {0, 1}
    monkeypatch.undo()
    assert sorted(map(sorted, look(first, second))) == [[0], [1]]


def test_checkpoints_of_a_member_that_lost_its_partition_are_refused(open_file: OpenFile) -> None:
    """Whole: a partition that it still has is not saved either."""
    first, second = (SqliteTeamMember(open_file(partitions=2), "a") for _ in range(2))
    look(first)
    before = first.membership
    checkpoints = SqliteCheckpoints(open_file())
    state = new_state()

    def save(partition: int) -> Save:
        floor = Floor(offset=0, leader_epoch=-1, topic_id="t", since=0)
        return Save(
            partition=partition, checkpoints={b"p": Checkpoint.of("p", partition, state, "t", -1)}, floor=floor,
            next_offset=0,
        )  # fmt: skip

    assert checkpoints.commit([save(0), save(1)], before) == {0: {b"p": 0}, 1: {b"p": 0}}
    assert checkpoints.commit([save(0)], before) == {0: {b"p": 2}}
    assert [key for _, key, _ in checkpoints.records(0, 0, checkpoints.end(0))] == [b"p", FLOOR_KEY]
    look(first, second)
    with pytest.raises(CommitFailed, match="another projector"):
        checkpoints.commit([save(0), save(1)], before)
    assert (checkpoints.end(0), checkpoints.end(1)) == (4, 2)
