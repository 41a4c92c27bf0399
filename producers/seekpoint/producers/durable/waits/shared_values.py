"""Shared values: small facts that a journal's processes, and programs beside them, have in common.

Each is a process of its own, ``shared:NAME``, which nobody ever owns: whoever sets it appends one external entry, and
the order of the log decides. An agent's gets and sets are samples: a run that follows sees what the first one saw.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from functools import partial
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple

from seekpoint.producers.durable.replay.call_digest import text_digest
from seekpoint.producers.durable.replay.history_matcher import CallPlace
from seekpoint.producers.durable.steps.sample_calls import recorded
from seekpoint.producers.durable.waits.followed_values import FollowedValue, ValueFollower
from seekpoint.schemas import bodies as b
from seekpoint.schemas.bodies import Json
from seekpoint.schemas.bodies.entry import new_id, process_key
from seekpoint.schemas.errors import InvalidName, JournalGap, Refused, UndecodableRecord, VersionConflict
from seekpoint.schemas.folding.fold import SHARED_PREFIX, Verdict, advance
from seekpoint.schemas.log.partition import partition_of
from seekpoint.schemas.state.calls import Call
from seekpoint.schemas.state.state import Draft
from seekpoint.schemas.values.json_values import dump, load
from seekpoint.schemas.values.process_ids import named_process_key

if TYPE_CHECKING:
    from seekpoint.producers.node import Node
    from seekpoint.producers.process import Process
    from seekpoint.producers.writer.externals import Externals
    from seekpoint.schemas.bodies.entry import Entry

__all__ = ["ProcessShared", "Shared", "SharedCalls", "Versioned", "check_ownable", "shared_id"]

_ANY = -1


class Versioned(NamedTuple):
    """A shared value, and how often it was set: 0, and None, where it never was."""

    value: Any
    version: int


def shared_id(name: str) -> str:
    """The process that holds the shared value ``name``. Raises ``InvalidName``."""
    if type(name) is not str or not name:
        raise InvalidName("a shared value has a name", name=repr(name)[:80])
    process_id = SHARED_PREFIX + name
    named_process_key(process_id)
    return process_id


def check_ownable(process_id: str) -> None:
    """Raise ``Refused`` for an id that nobody may own, ``InvalidName`` for one that is none."""
    named_process_key(process_id)
    if process_id.startswith(SHARED_PREFIX):
        raise Refused(
            "a shared value is not a process to open", process_id=process_id,
            hint="node.shared(NAME), or seekpoint shared get NAME; a process needs another id",
        )  # fmt: skip


class Shared:
    """One shared value, as any program sees it: ``node.shared(name)``. Nothing of it is remembered by a process."""

    def __init__(self, node: Node, externals: Externals, following: ValueFollower, name: str) -> None:
        self.name = name
        self._process_id = shared_id(name)
        self._node = node
        self._externals = externals
        self._following = following

    async def get(self) -> Versioned:
        """Value and version as of now."""
        return _versioned((await self._node.recover(self._process_id, missing_ok=True)).state)

    async def set(
        self, value: Any, *, expected_version: int | None = None, actor: str | None = None, set_id: bytes | None = None
    ) -> int:
        """Set it; its new version. With ``expected_version`` only if it has that one (0: it was never set).

        Raises ``VersionConflict`` with the present ``version``: somebody else's came first in the log. The same
        ``set_id`` twice is one setting. ``UnserializableValue``, ``LimitExceeded``, ``AppendTimeout``.
        """
        text = dump(value, await self._node.in_thread(lambda: self._node.reader.limits))
        return await self.set_text(text, _ANY if expected_version is None else expected_version, actor, set_id)

    async def set_text(self, text: Json, expected_version: int, actor: str | None, set_id: bytes | None) -> int:
        """The same, with the value's text; -1 expects any version."""
        found = await self._node.recover(self._process_id, missing_ok=True)
        entry_id, before = set_id or new_id(), found.state.thaw()
        if entry_id in before.remembered:
            return await self._became_of(entry_id, expected_version)
        body = b.SharedSet(expected_version=expected_version, value=text)
        offset = await self._externals.append(self._process_id, body, actor, entry_id)
        verdict = await self._node.in_thread(lambda: self._folded(before, found.report.log_end, offset))
        if verdict is Verdict.DUPLICATE:  # an earlier one of it came while we looked
            return await self._became_of(entry_id, expected_version)
        if verdict is Verdict.REFUSED:
            raise _conflict(self.name, before.shared_version, expected_version)
        return before.shared_version

    async def _became_of(self, entry_id: bytes, expected_version: int) -> int:
        """The version that an entry made which came before. The ids of those that were refused are remembered too, so
        its history tells, not the state. Raises as ``set``; ``JournalGap`` where that was trimmed."""
        found = [one.offset async for one in self._node.entries(self._process_id) if one.entry.id == entry_id]
        if not found:
            raise JournalGap(
                "what became of a setting was trimmed", process_id=self._process_id, hint="set it anew, by another id"
            )
        before = await self._version_below(found[0])
        if expected_version not in (_ANY, before):
            raise _conflict(self.name, before, expected_version)
        return before + 1

    async def _version_below(self, offset: int) -> int:
        if offset == 0:
            return 0
        return (await self._node.recover(self._process_id, at_offset=offset - 1, missing_ok=True)).state.shared_version

    def _folded(self, draft: Draft, start: int, offset: int) -> Verdict:
        """Fold what came from ``start`` on, up to the entry at ``offset``: what became of that one."""
        reader, key = self._node.reader, process_key(self._process_id)
        verdict = Verdict.REFUSED
        for batch in reader.read(partition_of(key, reader.partitions), start, offset + 1, {key}):
            for record in batch.records:
                try:
                    entry: Entry = reader.codec.decode(record.value)
                except UndecodableRecord:
                    continue
                verdict = advance(draft, record.offset, entry, reader.limits)
        return verdict

    async def watch(self, *, after: int = 0) -> AsyncIterator[Versioned]:
        """Each version after ``after``, as soon as it comes; of those that came while nobody asked, the newest."""
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
                    yield _versioned(state)
        finally:
            self.unfollow(followed, changed.set)

    # --- inside
    def follow(self, on_change: Callable[[], object]) -> FollowedValue:
        """Follow it until ``unfollow``; ``on_change`` is called whenever it was set."""
        return self._following.begin(self._process_id, on_change)

    def unfollow(self, followed: FollowedValue, on_change: Callable[[], object]) -> None:
        """The end of ``follow``."""
        self._following.end(followed, on_change)


class SharedCalls:
    """What a process offers: ``shared``."""

    def shared(self, name: str) -> ProcessShared:
        """The shared value ``name`` of the journal; what this code reads and sets is remembered."""
        process: Process = self  # type: ignore[assignment]  # a mixin of it
        return ProcessShared(process, process.node.shared(name))


class ProcessShared:
    """One shared value, as an agent's code sees it: each call takes its place and is answered from the record."""

    def __init__(self, process: Process, shared: Shared) -> None:
        self._process = process
        self._shared = shared
        self._name = SHARED_PREFIX + shared.name

    def get(self) -> Coroutine[Any, Any, Versioned]:
        """Value and version, as they were when this call was first made."""
        place, digest = self._place("get", None)
        in_order = self._process.in_order
        if place.record is not None:
            return in_order(place, _seen, place.record)
        return in_order(place, self._get, place, digest)

    async def _get(self, place: CallPlace, digest: str) -> Versioned:
        return await self._record(place, digest, await self._shared.get())

    def set(self, value: Any, *, expected_version: int | None = None) -> Coroutine[Any, Any, int]:
        """Set it, once however often this code runs; the version it got. As ``Shared.set``.

        Raises ``VersionConflict``, with the version there was when this call was first made.
        """
        process = self._process
        text, expected = dump(value, process.limits), _ANY if expected_version is None else expected_version
        place, digest = self._place("set", [expected, text])
        if place.record is not None:
            return process.in_order(place, self._outcome, place.record)
        return process.in_order(place, self._set, place, digest, text, expected)

    async def _set(self, place: CallPlace, digest: str, text: Json, expected: int) -> int:
        process = self._process
        asked = f"{process.idempotency_key(place.key)}\0{digest}"
        try:
            version = await self._shared.set_text(
                text, expected, process.process_id, blake2b(asked.encode(), digest_size=16).digest()
            )
        except VersionConflict as exc:
            await recorded(process, place, self._name, digest, {"conflict": exc.version, "expected": expected})
            raise
        await recorded(process, place, self._name, digest, {"version": version})
        return version

    async def _outcome(self, record: Call) -> int:
        told = load(record.output or "{}")
        if "conflict" in told:
            raise _conflict(self._shared.name, told["conflict"], told["expected"])
        return int(told["version"])

    async def watch(self, *, after: int = 0) -> AsyncIterator[Versioned]:
        """Each version after ``after``, as it was first seen; the process is ``awaiting`` while none comes.

        Of several that came at once, the newest. Raises ``Cancelled``.
        """
        process, followed = self._process, None
        try:
            while True:
                place, digest = self._place("watch", after)
                if place.record is not None:
                    found = await process.in_order(place, _seen, place.record)
                else:
                    followed = followed or self._shared.follow(process.waiting.look_again)
                    state = await process.waiting.until(partial(followed.newer, after))
                    assert state is not None
                    found = await self._record(place, digest, _versioned(state))
                after = found.version
                yield found
        finally:
            if followed is not None:
                self._shared.unfollow(followed, process.waiting.look_again)

    def _place(self, what: str, asked: Any) -> tuple[CallPlace, str]:
        digest = text_digest(self._name, dump([what, asked]))
        return self._process.desk.place("sample", self._name, digest), digest

    async def _record(self, place: CallPlace, digest: str, found: Versioned) -> Versioned:
        await recorded(self._process, place, self._name, digest, {"value": found.value, "version": found.version})
        return found


async def _seen(record: Call) -> Versioned:
    told = load(record.output or "{}")
    return Versioned(told["value"], told["version"])


def _conflict(name: str, version: int, expected: int) -> VersionConflict:
    return VersionConflict(
        "the shared value was set by somebody else", name=name, version=version,
        expected_version=expected if expected >= 0 else None,
    )  # fmt: skip


def _versioned(state: Draft) -> Versioned:
    text = state.shared_json
    return Versioned(None if text is None else load(text), state.shared_version)
