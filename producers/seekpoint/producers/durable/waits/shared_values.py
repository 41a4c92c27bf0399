"""Read and set shared values: small values that all processes and clients of a journal share.

Each is a process of its own, ``shared:NAME``, that has no owner. Setting it appends one external entry, and the order
of the log decides. An agent's gets and sets are samples: a later run gets the recorded results.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Coroutine
from functools import partial
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from seekpoint.producers.durable.call_results import Versioned
from seekpoint.producers.durable.durable_process import DurableCalls, DurableProcess
from seekpoint.producers.durable.idempotency_keys import call_identity
from seekpoint.producers.durable.replay.call_digest import text_digest
from seekpoint.producers.durable.replay.history_matcher import CallPlace
from seekpoint.producers.durable.session import SharedValue
from seekpoint.producers.durable.steps.sample_calls import recorded
from seekpoint.schemas.bodies import Json
from seekpoint.schemas.errors import InvalidName, Refused, VersionConflict
from seekpoint.schemas.folding.fold import SHARED_PREFIX
from seekpoint.schemas.state.calls import Call
from seekpoint.schemas.state.process_state import Draft
from seekpoint.schemas.values.json_values import dump, load
from seekpoint.schemas.values.process_ids import named_process_key

if TYPE_CHECKING:
    from seekpoint.producers.tail.followed_values import FollowedValue

ANY_VERSION = -1


def shared_id(name: str) -> str:
    """Return the id of the process that holds the shared value ``name``. Raises ``InvalidName``."""
    if type(name) is not str or not name:
        raise InvalidName("a shared value has a name", name=repr(name)[:80])
    process_id = SHARED_PREFIX + name
    named_process_key(process_id)
    return process_id


def check_ownable(process_id: str) -> None:
    """Raise ``Refused`` for the id of a shared value, ``InvalidName`` for an id that is not valid."""
    named_process_key(process_id)
    if process_id.startswith(SHARED_PREFIX):
        raise Refused(
            "a shared value is not a process to open", process_id=process_id,
            hint="node.shared(NAME), or seekpoint shared get NAME; a process needs another id",
        )  # fmt: skip


class SharedCalls(DurableCalls):
    """The shared-value calls of a process."""

    def shared(self, name: str) -> ProcessShared:
        """Return the shared value ``name`` of the journal. What this code reads and sets is recorded."""
        process = self._durable
        return ProcessShared(process, process.session.shared_value(name))


class ProcessShared:
    """A shared value in an agent's code: each of its calls is recorded."""

    def __init__(self, process: DurableProcess, shared: SharedValue) -> None:
        self._process = process
        self._shared = shared
        self._name = SHARED_PREFIX + shared.name

    def get(self) -> Coroutine[Any, Any, Versioned]:
        """Return value and version as of when this call was first made."""
        place, digest = self._place("get", None)
        in_order = self._process.in_order
        if place.record is not None:
            return in_order(place, _recorded, place.record)
        return in_order(place, self._get, place, digest)

    async def _get(self, place: CallPlace, digest: str) -> Versioned:
        return await self._record(place, digest, await self._shared.get())

    def set(self, value: Any, *, expected_version: int | None = None) -> Coroutine[Any, Any, int]:
        """Set the value, once however often this code runs, as ``Shared.set`` does; return its version.

        Raises ``VersionConflict`` with the version as of when this call was first made.
        """
        process = self._process
        text, expected = dump(value, process.limits), ANY_VERSION if expected_version is None else expected_version
        place, digest = self._place("set", [expected, text])
        if place.record is not None:
            return process.in_order(place, self._outcome, place.record)
        return process.in_order(place, self._set, place, digest, text, expected)

    async def _set(self, place: CallPlace, digest: str, text: Json, expected: int) -> int:
        process = self._process
        request = f"{call_identity(process.session, place.key)}\0{digest}"
        try:
            version = await self._shared.set_text(
                text, expected, process.process_id, blake2b(request.encode(), digest_size=16).digest()
            )
        except VersionConflict as exc:
            await recorded(process, place, self._name, digest, {"conflict": exc.version, "expected": expected})
            raise
        await recorded(process, place, self._name, digest, {"version": version})
        return version

    async def _outcome(self, record: Call) -> int:
        row = load(record.output or "{}")
        if "conflict" in row:
            raise version_conflict(self._shared.name, row["conflict"], row["expected"])
        return int(row["version"])

    async def watch(self, *, after: int = 0) -> AsyncIterator[Versioned]:
        """Yield each version after ``after`` as this code first got it; of several at once only the newest.

        The process is ``awaiting`` while there is none; a worker keeps it in memory. Raises ``Cancelled``.
        """
        process = self._process
        following: list[FollowedValue] = []
        try:
            while True:
                place, digest = self._place("watch", after)
                if place.record is not None:
                    found = await process.in_order(place, _recorded, place.record)
                else:
                    found = await process.in_order(place, self._newer, place, digest, after, following)
                after = found.version
                yield found
        finally:
            for followed in following:
                self._shared.unfollow(followed, process.waiting.wake)

    async def _newer(self, place: CallPlace, digest: str, after: int, following: list[FollowedValue]) -> Versioned:
        """Record the first version after ``after``. The first call begins to follow the value."""
        waiting = self._process.waiting
        if not following:
            following.append(self._shared.follow(waiting.wake))
        waiting.elsewhere += 1
        try:
            why = f"shared value {self._shared.name}"
            state = await waiting.until(partial(following[0].newer, after), reason=why)
        finally:
            waiting.elsewhere -= 1
        assert state is not None
        return await self._record(place, digest, versioned(state))

    def _place(self, operation: str, arguments: Any) -> tuple[CallPlace, str]:
        digest = text_digest(self._name, dump([operation, arguments]))
        return self._process.matcher.place("sample", self._name, digest), digest

    async def _record(self, place: CallPlace, digest: str, found: Versioned) -> Versioned:
        await recorded(self._process, place, self._name, digest, {"value": found.value, "version": found.version})
        return found


async def _recorded(record: Call) -> Versioned:
    row = load(record.output or "{}")
    return Versioned(row["value"], row["version"])


def version_conflict(name: str, version: int, expected: int) -> VersionConflict:
    return VersionConflict(
        "the shared value was set by somebody else", name=name, version=version,
        expected_version=expected if expected >= 0 else None,
    )  # fmt: skip


def versioned(state: Draft) -> Versioned:
    text = state.shared_json
    return Versioned(None if text is None else load(text), state.shared_version)
