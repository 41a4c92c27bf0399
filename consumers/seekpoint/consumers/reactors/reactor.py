"""A reactor: a user's function that is called for each entry of some kinds, at least once.

@reactor("tell-finance", kinds=["finished"], where='process_id.startsWith("refund-")')
async def tell_finance(reaction):
    await finance.post(reaction.id, reaction.state.result)
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from typing import Any

from seekpoint.consumers.staging.copy.predicate import Predicate
from seekpoint.schemas.bodies import Custom
from seekpoint.schemas.bodies.entry import Entry, id_text
from seekpoint.schemas.errors import InvalidSetting
from seekpoint.schemas.frozen_struct import FrozenStruct
from seekpoint.schemas.log.log_ports import Record
from seekpoint.schemas.state.process_state import State

_PAUSE_MAX_S = 60.0


class Reaction(FrozenStruct, frozen=True, kw_only=True):
    """One call of a reactor: the entry that it reacts to."""

    reactor: str
    """The reactor's name."""
    entry: Entry
    partition: int
    offset: int
    timestamp_ms: int
    """The record's timestamp: milliseconds since 1970."""
    state: State
    """The state of the process right after this entry."""
    attempt: int = 1
    """1 for the first call; a failed call is repeated."""

    @property
    def id(self) -> str:
        """Return the idempotency key of the reaction: each call of the reactor for this entry gets the same one."""
        return f"{self.reactor}:{id_text(self.entry.id)}"

    @property
    def process_id(self) -> str:
        """The process of the entry."""
        return self.entry.process_id

    @property
    def kind(self) -> str:
        """The kind of the entry; of a custom entry, its own kind."""
        return _kind_of(self.entry)


React = Callable[[Reaction], Awaitable[object]]


class Reactor:
    """A function and the entries that it is called for. Made by ``reactor``."""

    def __init__(
        self,
        function: React,
        name: str,
        kinds: Collection[str],
        where: str | None,
        attempts: int,
        pause_s: float,
        timeout_s: float,
    ) -> None:
        self.name = name
        self.function = function
        self.kinds = frozenset(kinds)
        self.attempts = attempts
        self.pause_s = pause_s
        self.timeout_s = timeout_s
        self._where = None if where is None else Predicate(where)

    def takes(self, record: Record, entry: Entry) -> bool:
        """Return whether the reactor is to be called for this entry, if the fold applies it."""
        if _kind_of(entry) not in self.kinds and entry.kind not in self.kinds:
            return False
        return self._where is None or self._where.matches_record(record, entry)

    def pause_before(self, attempt: int) -> float:
        """Return how many seconds pass before this attempt. The pause doubles, up to a minute."""
        doubled: float = self.pause_s * 2 ** min(attempt - 2, 30)
        return min(doubled, _PAUSE_MAX_S)

    async def __call__(self, reaction: Reaction) -> object:
        """Call the function, as a test of the user's may do."""
        return await self.function(reaction)


def reactor(
    name: str,
    *,
    kinds: Collection[str],
    where: str | None = None,
    attempts: int = 5,
    pause_s: float = 1.0,
    timeout_s: float = 60.0,
) -> Callable[[React], Reactor]:
    """Make an async function a reactor: it is called for each applied entry of ``kinds``, at least once.

    ``kinds`` are those that ``seekpoint log`` shows, or the kinds of custom entries. ``where`` is a predicate in CEL
    (see ``docs/replay.md`` for its variables). A call that raises, or that takes longer than ``timeout_s``, is
    repeated after ``pause_s``, which doubles. After ``attempts`` calls the entry becomes a dead letter. Entries of one
    partition are handled one after the other: a slow reactor delays those behind it.

    Raises ``InvalidSetting`` for a bad predicate, for no kinds, and for a name that is empty or has a colon.
    """
    if not name or ":" in name or "#" in name:
        raise InvalidSetting("a reactor's name is a text without : and #", setting="name", value=name)
    if isinstance(kinds, str) or not kinds:
        raise InvalidSetting("a reactor needs a list of kinds", setting="kinds", hint='kinds=["finished"]')
    if attempts < 1:
        raise InvalidSetting("a reactor needs at least one attempt", setting="attempts", value=str(attempts))

    def made(function: Any) -> Reactor:
        return Reactor(function, name, kinds, where, attempts, pause_s, timeout_s)

    return made


def _kind_of(entry: Entry) -> str:
    return entry.body.kind if isinstance(entry.body, Custom) else entry.kind
