"""Teams: the programs of one machine that share the partitions of a journal in a file. A consumer group without Kafka.

A member is dead once its program has ended, which the operating system tells at once, or once its count of beats has
not risen for ``_SILENCE_S`` by the clock of the member that looks: no clock that somebody sets decides. Then the others
share its partitions. A partition stays where it is if it can.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING
from uuid import uuid4

import msgspec

from seekpoint.consumers.heartbeats.host import HostProcess, has_died, this_process
from seekpoint.consumers.sqlite.sqlite_file import SqliteFile
from seekpoint.schemas.errors import JournalFull
from seekpoint.schemas.frozen_struct import FrozenStruct, built

if TYPE_CHECKING:
    from seekpoint.consumers.log_reading.group_members import GroupMember

_SILENCE_S = 6.0
_BEAT_S = 1.0
"""How often a member says that it is there, and looks who else is. As often as Kafka's members, six times as ours."""


class Membership(FrozenStruct, frozen=True):
    """A member of a team, to check in a transaction whether it has some partitions."""

    team: str
    member: str

    def holds(self, connection: sqlite3.Connection, partitions: Iterable[int]) -> bool:
        """Return whether all of ``partitions`` are assigned to the member."""
        return {*partitions} <= _assigned(connection, self.team, self.member)


class SqliteTeamMember:
    """A member of a team. For one thread; ``look`` often, then ``leave``."""

    def __init__(self, file: SqliteFile, team: str) -> None:
        self._file = file
        self._process = msgspec.json.encode(this_process()).decode()
        self._looked_at_s = 0.0
        self._has_left = False
        self._beats = 0
        self._seen: dict[str, tuple[int, float]] = {}
        """The others: the count of beats, and when it was first seen, by this program's monotonic clock."""
        self.membership = Membership(team, uuid4().hex)
        self.assigned: frozenset[int] = frozenset()
        """The partitions that are assigned to the member as of the last look."""

    def look(self) -> bool:
        """Say that the member is there, and share the partitions anew if the team has changed. Once a second.

        Return whether the member's partitions have changed. Without room on the disk nobody can change them.
        """
        if time.monotonic() - self._looked_at_s < _BEAT_S:
            return False
        before = self.assigned
        try:
            self.assigned = self._file.write(self._meet)
        except JournalFull:
            if not before:
                raise
        self._looked_at_s = time.monotonic()
        return self.assigned != before

    def look_soon(self) -> None:
        """Let the next ``look`` look."""
        self._looked_at_s = 0.0

    def leave(self) -> None:
        """Leave the team: the others get the partitions as soon as they look. Idempotent."""
        if not self._has_left:
            self._has_left = True
            self.assigned = frozenset()
            self._file.write(lambda connection: _remove(connection, self.membership.team, [self.membership.member]))

    def _meet(self, connection: sqlite3.Connection) -> frozenset[int]:
        team, me = self.membership.team, self.membership.member
        self._beats += 1
        connection.execute("INSERT OR REPLACE INTO members VALUES (?, ?, ?, ?)", (me, team, self._process, self._beats))
        found = connection.execute("SELECT id, process, beats FROM members WHERE team = ?", (team,)).fetchall()
        silent = self._silent({one: beats for one, _, beats in found if one != me})
        gone = [one for one, process, _ in found if one != me and (one in silent or _has_died(process))]
        _remove(connection, team, gone)
        members = sorted({one for one, _, _ in found} - {*gone})
        rows = connection.execute("SELECT partition, member FROM assignments WHERE team = ?", (team,)).fetchall()
        before = dict(rows)
        after = shared_out(before, members, self._file.manifest.partitions)
        if after != before:
            connection.executemany(
                "INSERT OR REPLACE INTO assignments VALUES (?, ?, ?)", [(team, *one) for one in after.items()]
            )
        return frozenset(partition for partition, member in after.items() if member == me)

    def _silent(self, others: dict[str, int]) -> set[str]:
        """Note the counts of the others; return those whose count has not risen for too long."""
        now_s = time.monotonic()
        before = self._seen
        self._seen = {
            one: before[one] if one in before and before[one][0] == beats else (beats, now_s)
            for one, beats in others.items()
        }
        return {one for one, (_, since_s) in self._seen.items() if now_s - since_s > _SILENCE_S}


def team_members(file: SqliteFile) -> list[GroupMember]:
    """Return the members of all teams of a file. One whose program has ended on this machine is left out.

    One that is silent stays until another member of its team looks.
    """
    from seekpoint.consumers.log_reading.group_members import GroupMember

    with file.reading() as connection:
        members = connection.execute("SELECT id, team, process FROM members ORDER BY team, id").fetchall()
        rows = connection.execute("SELECT team, partition, member FROM assignments ORDER BY partition").fetchall()
    return [
        GroupMember(
            role="projector" if team == "projectors" else "worker",
            group=team,
            member=member,
            host=_place(process),
            partitions=tuple(partition for name, partition, holder in rows if (name, holder) == (team, member)),
        )
        for member, team, process in members
        if not _has_died(process)
    ]


def _place(process: str) -> str:
    """Return the host and the number of a program, as far as it is known."""
    found = msgspec.json.decode(process, type=built(HostProcess | None))
    return "" if found is None else f"{found.host.partition(' ')[0]}, pid {found.pid}"


def shared_out(before: dict[int, str], members: Collection[str], partitions: int) -> dict[int, str]:
    """Return who has which partition: a fair share for each, and as few moves as that needs.

    >>> shared_out({0: "a", 1: "a"}, ["a", "b"], 2)
    {0: 'a', 1: 'b'}
    """
    least, more = divmod(partitions, len(members))
    counts = dict.fromkeys(members, 0)
    kept: dict[int, str] = {}
    with_more = 0
    for partition, member in sorted(before.items()):
        if member not in counts or partition >= partitions:
            continue
        if counts[member] < least or (counts[member] == least and with_more < more):
            with_more += counts[member] == least
            counts[member] += 1
            kept[partition] = member
    for partition in range(partitions):
        if partition not in kept:
            kept[partition] = min(members, key=lambda one: counts[one])
            counts[kept[partition]] += 1
    return dict(sorted(kept.items()))


def _has_died(process: str) -> bool:
    return has_died(msgspec.json.decode(process, type=built(HostProcess | None)))


def _remove(connection: sqlite3.Connection, team: str, members: Iterable[str]) -> None:
    for member in members:
        connection.execute("DELETE FROM members WHERE id = ?", (member,))
        connection.execute("DELETE FROM assignments WHERE team = ? AND member = ?", (team, member))


def _assigned(connection: sqlite3.Connection, team: str, member: str) -> frozenset[int]:
    rows = connection.execute("SELECT partition FROM assignments WHERE team = ? AND member = ?", (team, member))
    return frozenset(partition for (partition,) in rows)
