"""Define the port between durable calls and the process in which they are made.

Durable calls decide what to write and to wait for; a session does it. A node's session writes to the log
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
    from seekpoint.producers.durable.steps.body_threads import RunInThread
    from seekpoint.producers.tail.followed_values import FollowedValue
    from seekpoint.producers.tracing.tracer import Tracer
    from seekpoint.producers.writer.clocks import Clock
    from seekpoint.schemas.config.limits import Limits
    from seekpoint.schemas.config.settings import Settings
    from seekpoint.schemas.state.budget_sums import Budget
    from seekpoint.schemas.state.lifecycle import Lifecycle
    from seekpoint.schemas.state.process_state import MailItem, State
    from seekpoint.schemas.values.attachment_ref import Ref


class Acknowledged(NamedTuple):
    """The seq and the offset of an entry that is in the log.

    The offset is -1 where it is not known: of an entry that nobody waited for, and of a write that a replay repeats.
    ``is_repeated``: an earlier call with the same ``entry_id`` wrote the entry.
    """

    seq: int
    offset: int
    is_repeated: bool = False


class Journal(Protocol):
    """The calls by which durable code reads other processes, and writes to them."""

    async def recover(self, process_id: str, *, missing_ok: bool = False, at_offset: int | None = None) -> Recovered:
        """Return the state of a process as of now, or as of ``at_offset``."""
        ...

    def entries(self, process_id: str, *, kinds: Collection[str] | None = None) -> AsyncIterator[Logged]:
        """Yield the entries of a process in log order."""
        ...

    async def append_external(
        self, process_id: str, body: b.Body, *, actor: str | None = None, entry_id: bytes | None = None
    ) -> bytes:
        """Append an external entry to a process; return its id once it is in the log."""
        ...

    async def in_thread(self, call: Callable[[], Any]) -> Any:
        """Run a blocking call in a thread."""
        ...


class SharedValue(Protocol):
    """One shared value, as durable calls need it."""

    @property
    def name(self) -> str:
        """Return the name of the shared value."""

    async def get(self) -> Versioned:
        """Return value and version as of now."""

    async def set_text(self, text: b.Json, expected_version: int, actor: str | None, set_id: bytes | None) -> int:
        """Set the value to that of ``text``; return its version. -1 expects any version."""

    def follow(self, on_change: Callable[[], object]) -> FollowedValue:
        """Follow the value until ``unfollow``; call ``on_change`` whenever it was set."""

    def unfollow(self, followed: FollowedValue, on_change: Callable[[], object]) -> None:
        """Stop to follow the value."""


class Session(Journal, Protocol):
    """One open process, as durable calls see it."""

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
        """The prices of model calls; None if there are none."""
        ...

    @property
    def tracer(self) -> Tracer | None:
        """The tracer that emits spans of its calls; None if there is none."""
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
        """The budget once everything sent so far is in the log; None if none was set."""
        ...

    @property
    def is_open(self) -> bool:
        """Return False once the process was released, finished, fenced or given up."""
        ...

    def check(self) -> None:
        """Raise the error that ended the process for this node, if there is one."""
        ...

    def check_open(self) -> None:
        """Raise an error if nothing more may be sent."""
        ...

    def times_forgotten(self, key: str) -> int:
        """Return how often a rewind dropped the call ``key``."""
        ...

    def newest(self) -> Acknowledged:
        """Return the newest entry that was acknowledged with all below it."""
        ...

    # --- writing
    async def append(self, body: b.Body) -> Acknowledged:
        """Write an entry of this owner and wait for its acknowledgement."""
        ...

    async def append_once(self, body: b.Body, entry_id: bytes, *, wait: bool) -> Acknowledged:
        """Write an entry, unless the process has one with this id; return that one's place then."""
        ...

    def send(self, body: b.Body) -> int:
        """Write an entry and do not wait; return its seq."""
        ...

    async def pipeline(self, body: b.Body) -> Acknowledged:
        """Write an entry; wait only while too many are under way."""
        ...

    async def flush(self) -> None:
        """Return once all entries that were sent are acknowledged. Raises the first failure."""
        ...

    def sent(self, body: b.Body) -> asyncio.Future[int]:
        """Write an entry now; return the future of its offset."""
        ...

    def hold(self, key: str, start: Callable[[], b.StepStarted], characters: int) -> bool:
        """Hold the start of the step ``key`` until the event loop goes on; return False if it has to be sent."""
        ...

    def drop_held(self, key: str) -> bool:
        """Drop the start of ``key`` if it is still held; return whether it was."""
        ...

    async def end(self, body: b.Released | b.Finished) -> None:
        """Write the entry that ends the process for this owner; return once it is confirmed."""
        ...

    async def confirm(self) -> None:
        """Return once everything acknowledged so far was seen applied."""
        ...

    async def checkpoint(self, timeout_s: float) -> int:
        """Request a checkpoint; return its journal offset once it is saved."""
        ...

    async def past_content(self, to_seq: int) -> b.Json:
        """Return the content to rewind to: that after ``to_seq``, with the effects since then."""
        ...

    async def attach(self, ref: Ref, data: bytes) -> None:
        """Write what the log does not have yet of an attachment; return once all of it is acknowledged."""
        ...

    async def read_attachment(self, ref: Ref) -> bytes:
        """Return the bytes of an attachment of this process, or of another one."""
        ...

    async def detach(self, refs: Collection[Ref]) -> None:
        """Drop attachments of this process."""
        ...

    def abandon(self) -> None:
        """Drop the process on this node; it stays claimed unless it was released."""
        ...

    async def before_unrecorded(self, name: str, kind: str) -> None:
        """Return once work may begin that is not recorded as a call. A replay check never returns."""
        ...

    # --- mail
    @property
    def mail(self) -> list[MailItem]:
        """The external entries that nobody took yet, in log order."""
        ...

    @property
    def mail_changed(self) -> asyncio.Event:
        """Set whenever the mailbox may have changed, or waiting calls have to check again."""
        ...

    def watching(self) -> AbstractAsyncContextManager[None]:
        """Fold new entries of the partition as soon as they come, while inside."""
        ...

    async def read_log(self, fresh_s: float = 0.0) -> None:
        """Fold what is in the log by now, unless that was done within ``fresh_s``.

        Raises ``Retryable`` errors where it cannot be read.
        """
        ...

    # --- other work of the node
    async def run_child(
        self, agent: Agent, child_id: str, input: Any, *, key: str, wait_s: float, retry_failed: bool
    ) -> Any:
        """Run ``agent`` as the process ``child_id``, the child of the call ``key``; return its result."""
        ...

    def shared_value(self, name: str) -> SharedValue:
        """Return the shared value ``name`` of the journal."""
        ...

    async def body_thread(self, key: str) -> RunInThread:
        """Wait until a thread is free for a user's blocking function; return what runs it there."""
        ...
