"""Shared values of the journal, for any program."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any, Protocol

from seekpoint.consumers.log_reading.scan import entries_of
from seekpoint.producers.durable.call_results import Versioned
from seekpoint.producers.durable.session import Journal
from seekpoint.producers.durable.waits.shared_values import ANY_VERSION, shared_id, version_conflict, versioned
from seekpoint.producers.tail.followed_values import FollowedValue, ValueFollower
from seekpoint.producers.writer.externals import Externals
from seekpoint.schemas import bodies as b
from seekpoint.schemas.bodies import Json
from seekpoint.schemas.bodies.entry import new_id, process_key
from seekpoint.schemas.errors import JournalGap
from seekpoint.schemas.folding.fold import Verdict, advance
from seekpoint.schemas.log.log_ports import LogReader
from seekpoint.schemas.log.partition import partition_of
from seekpoint.schemas.state.process_state import Draft
from seekpoint.schemas.values.json_values import dump

__all__ = ["Shared"]


class ReadingNode(Journal, Protocol):
    """The part of a node that shared values read through."""

    @property
    def reader(self) -> LogReader:
        """The journal."""
        ...


class Shared:
    """One shared value, for any program: ``node.shared(name)``. No process remembers what it reads or sets here."""

    def __init__(self, node: ReadingNode, externals: Externals, following: ValueFollower, name: str) -> None:
        self.name = name
        self._process_id = shared_id(name)
        self._node = node
        self._externals = externals
        self._following = following

    async def get(self) -> Versioned:
        """Return value and version as of now."""
        return versioned((await self._node.recover(self._process_id, missing_ok=True)).state)

    async def set(
        self, value: Any, *, expected_version: int | None = None, actor: str | None = None, set_id: bytes | None = None
    ) -> int:
        """Set the value; return its new version. With ``expected_version``, only if that is its version (0: never set).

        Raises ``VersionConflict`` with the present ``version`` where another setting came first in the log. The same
        ``set_id`` twice is one setting. Also raises ``UnserializableValue``, ``LimitExceeded``, ``AppendTimeout``.
        """
        text = dump(value, await self._node.in_thread(lambda: self._node.reader.limits))
        return await self.set_text(text, ANY_VERSION if expected_version is None else expected_version, actor, set_id)

    async def set_text(self, text: Json, expected_version: int, actor: str | None, set_id: bytes | None) -> int:
        """Set the value to that of the JSON ``text``, as ``set`` does; -1 expects any version."""
        found = await self._node.recover(self._process_id, missing_ok=True)
        entry_id, before = set_id or new_id(), found.state.thaw()
        if entry_id in before.remembered:
            return await self._became_of(entry_id, expected_version)
        body = b.SharedSet(expected_version=expected_version, value=text)
        offset = await self._externals.append(self._process_id, body, actor, entry_id)
        verdict = await self._node.in_thread(lambda: self._folded(before, found.report.log_end, offset))
        if verdict is Verdict.DUPLICATE:  # an entry with the same id landed since the recovery
            return await self._became_of(entry_id, expected_version)
        if verdict is Verdict.REFUSED:
            raise version_conflict(self.name, before.shared_version, expected_version)
        return before.shared_version

    async def _became_of(self, entry_id: bytes, expected_version: int) -> int:
        """Return the version that an earlier entry with this id made.

        The state remembers the ids of refused entries too, so only the history tells. Raises as ``set`` does, and
        ``JournalGap`` where the history was trimmed.
        """
        found = [one.offset async for one in self._node.entries(self._process_id) if one.entry.id == entry_id]
        if not found:
            raise JournalGap(
                "the entry of a setting was trimmed",
                process_id=self._process_id,
                hint="set the value again with another id",
            )
        before = await self._version_below(found[0])
        if expected_version not in (ANY_VERSION, before):
            raise version_conflict(self.name, before, expected_version)
        return before + 1

    async def _version_below(self, offset: int) -> int:
        if offset == 0:
            return 0
        return (await self._node.recover(self._process_id, at_offset=offset - 1, missing_ok=True)).state.shared_version

    def _folded(self, draft: Draft, start: int, offset: int) -> Verdict:
        """Fold the entries from ``start`` on, up to that at ``offset``; return the verdict on the last one."""
        reader, key = self._node.reader, process_key(self._process_id)
        verdict = Verdict.REFUSED
        for batch in reader.read(partition_of(key, reader.partitions), start, offset + 1, {key}):
            for record, entry in entries_of(batch.records, reader):
                verdict = advance(draft, record.offset, entry, reader.limits)
        return verdict

    async def watch(self, *, after: int = 0) -> AsyncIterator[Versioned]:
        """Yield each version after ``after`` as soon as it arrives. Of several that arrive at once, only the newest."""
        changed = asyncio.Event()
        followed = self.follow(changed.set)
        try:
            while True:
                changed.clear()
                state = followed.newer(after)
                if state is None:
                    await changed.wait()
                else:
                    after = state.shared_version
                    yield versioned(state)
        finally:
            self.unfollow(followed, changed.set)

    # --- inside
    def follow(self, on_change: Callable[[], object]) -> FollowedValue:
        """Follow the value until ``unfollow``; call ``on_change`` whenever it was set."""
        return self._following.begin(self._process_id, on_change)

    def unfollow(self, followed: FollowedValue, on_change: Callable[[], object]) -> None:
        """End what ``follow`` began."""
        self._following.end(followed, on_change)
