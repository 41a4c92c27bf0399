"""The port between durable calls and the process they are made in.

Durable code decides what to write, wait for and remember; a session does it. A node's session writes to the log
(``seekpoint.producers.log_session``). A replay check's session answers from a history and does nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from seekpoint.schemas import bodies as b

if TYPE_CHECKING:
    from seekpoint.consumers import Recovered
    from seekpoint.consumers.recovery.process_history import Logged
    from seekpoint.producers.durable.call_results import Versioned
    from seekpoint.producers.durable.decisions.prices import Prices
    from seekpoint.producers.durable.steps.agent import Agent
    from seekpoint.producers.tail.followed_values import FollowedValue
    from seekpoint.producers.writer.clocks import Clock
    from seekpoint.schemas.config.limits import Limits
    from seekpoint.schemas.config.settings import Settings
    from seekpoint.schemas.state.lifecycle import Lifecycle
    from seekpoint.schemas.state.process_budget import Budget
    from seekpoint.schemas.state.process_state import MailItem, State

__all__ = ["Acknowledged", "Journal", "Session", "SharedValue", "idempotency_key"]


class Acknowledged(NamedTuple):
    """An entry that is in the log: its number in the process, and where it lies."""

    seq: int
    offset: int


class Journal(Protocol):
    """What durable code reads of other processes, and tells them."""

    async def recover(self, process_id: str, *, missing_ok: bool = False, at_offset: int | None = None) -> Recovered:
        """Return the state of a process as of now, or as of ``at_offset``."""
        ...

    def entries(self, process_id: str, *, kinds: Collection[str] | None = None) -> AsyncIterator[Logged]:
        """Yield the entries of a process in log order."""
        ...

    async def tell(
        self, process_id: str, body: b.Body, *, actor: str | None = None, entry_id: bytes | None = None
    ) -> bytes:
        """Append an external entry to a process; return its id once it is in the log."""
        ...

    async def in_thread(self, call: Callable[[], Any]) -> Any:
        """Run a blocking call in a thread."""
        ...


class SharedValue(Protocol):
    """One shared value, as durable code needs it."""

    @property
    def name(self) -> str:
        """Its name."""

    async def get(self) -> Versioned:
        """Return value and version as of now."""

    async def set_text(self, text: b.Json, expected_version: int, actor: str | None, set_id: bytes | None) -> int:
        """Set it to the value of ``text``; return its version. -1 expects any version."""

    def follow(self, on_change: Callable[[], object]) -> FollowedValue:
        """Follow it until ``unfollow``; call ``on_change`` whenever it was set."""

    def unfollow(self, followed: FollowedValue, on_change: Callable[[], object]) -> None:
        """End what ``follow`` began."""


class Session(Journal, Protocol):
    """One open process, as durable code sees it."""

    @property
    def process_id(self) -> str:
        """The name of the process."""
        ...

    @property
    def node_id(self) -> str:
        """The name of the node that owns the process."""
        ...

    @property
    def limits(self) -> Limits:
        """The journal's limits."""
        ...

    @property
    def settings(self) -> Settings:
        """The settings, whose secrets are masked in what is written."""
        ...

    @property
    def clock(self) -> Clock:
        """The clock the process waits by."""
        ...

    @property
    def prices(self) -> Prices | None:
        """What model calls cost; None where that is not known."""
        ...

    # --- state
    @property
    def written(self) -> State:
        """The confirmed state plus every acknowledged entry."""
        ...

    @property
    def ahead_lifecycle(self) -> Lifecycle:
        """The lifecycle once everything sent so far is in the log."""
        ...

    @property
    def ahead_budget(self) -> Budget | None:
        """The budget once everything sent so far is in the log; None where none was set."""
        ...

    @property
    def is_open(self) -> bool:
        """False once the process was released, finished, fenced or given up."""
        ...

    def check(self) -> None:
        """Raise what ended the process for this node, if anything did."""
        ...

    def check_open(self) -> None:
        """Raise why nothing more may be sent."""
        ...

    def times_forgotten(self, key: str) -> int:
        """Return how often a rewind forgot the call ``key``."""
        ...

    def newest(self) -> Acknowledged:
        """Return the newest entry that was acknowledged with all below it."""
        ...

    # --- writing
    async def append(self, body: b.Body) -> Acknowledged:
        """Write an entry of this owner and wait for its acknowledgement."""
        ...

    def send(self, body: b.Body) -> int:
        """Write an entry and do not wait; return its seq."""
        ...

    def sent(self, body: b.Body) -> asyncio.Future[int]:
        """Write an entry now; return the future of its offset."""
        ...

    def hold(self, key: str, start: Callable[[], b.StepStarted], characters: int) -> bool:
        """Keep the start of the step ``key`` back until the event loop goes on; return False if it is to be sent."""
        ...

    def take_back(self, key: str) -> bool:
        """Return whether the start of ``key`` was still held; drop it."""
        ...

    async def end(self, body: b.Released | b.Finished) -> None:
        """Write the entry that ends the process for this owner; return once it is confirmed."""
        ...

    async def confirm(self) -> None:
        """Return once everything acknowledged so far was seen applied."""
        ...

    async def checkpoint(self, timeout_s: float) -> int:
        """Ask for a checkpoint; return the journal offset it is as of once it is saved."""
        ...

    async def past_content(self, to_seq: int) -> b.Json:
        """Return the content to rewind to: that after ``to_seq``, with the effects since then."""
        ...

    def let_go(self) -> None:
        """Forget the process on this node; it stays claimed unless it was released."""
        ...

    async def before_unrecorded(self, name: str, kind: str) -> None:
        """Return once work may begin that takes no place among the calls. A replay check never returns."""
        ...

    # --- mail
    @property
    def mail(self) -> list[MailItem]:
        """The external entries that nobody took yet, in log order."""
        ...

    @property
    def mail_changed(self) -> asyncio.Event:
        """Set whenever the mailbox may have changed, or a waiting call is to look again."""
        ...

    def watching(self) -> AbstractAsyncContextManager[None]:
        """While inside, fold what comes into the partition as soon as it comes."""
        ...

    async def look(self) -> None:
        """Fold what is in the log by now. Raises ``Retryable`` errors where it cannot be read."""
        ...

    # --- other work of the node
    async def run_child(self, agent: Agent, child_id: str, input: Any, *, wait_s: float, retry_failed: bool) -> Any:
        """Run ``agent`` as the process ``child_id``; return its result."""
        ...

    def shared_value(self, name: str) -> SharedValue:
        """Return the shared value ``name`` of the journal."""
        ...

    async def in_body_thread(self, call: Callable[[], Any]) -> Any:
        """Run a user's blocking call in a thread kept for such calls."""
        ...


def idempotency_key(session: Session, key: str) -> str:
    """Return what the outside world is handed for the call ``key`` of a process."""
    times = session.times_forgotten(key)
    return f"{session.process_id}/{key}{f'~{times}' if times else ''}"
