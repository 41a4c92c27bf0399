"""Cancel a process: a request from outside that the owner accepts and raises to the code.

    CancelRequested (mailbox) -> CancelAccepted (owner) -> ``Cancelled`` out of waits and at each further call
    -> the children are cancelled too -> compensations, the newest effect's first -> stopping -> stopped

Cancellation is cooperative: a step that runs is not interrupted. Each later call raises ``Cancelled``, but content can
still be written. A cancelled process never goes on: the next run of it only completes the cancellation.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from seekpoint.producers.durable.replay.history_matcher import CallPlace
from seekpoint.schemas import bodies as b
from seekpoint.schemas.errors import Cancelled
from seekpoint.schemas.state.lifecycle import Lifecycle

if TYPE_CHECKING:
    from seekpoint.producers.durable.session import Session

_RAISED_MAX = 100
"""Code that swallows ``Cancelled`` more often gets a ``CancelledError``: a loop around it would never end."""
_ENDED = frozenset({"succeeded", "failed"})
_COMPLETED_WHEN_OPEN = frozenset({"effect", "child"})
"""A cancelled process completes these calls if they have begun: else nobody knows what to compensate or cancel."""


class Cancellation:
    """The request to cancel one open process, if there is one."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._reason: str | None = session.written.cancelled
        self._raised = 0

    @property
    def is_accepted(self) -> bool:
        """Whether this owner, or one before it, has accepted a request to cancel."""
        return self._reason is not None

    @property
    def was_raised(self) -> bool:
        """Whether the code has got ``Cancelled`` in this run: later exceptions follow from it."""
        return self._raised > 0

    @property
    def is_complete(self) -> bool:
        """Whether the process is cancelled and stopped."""
        return self.is_accepted and self._session.ahead_lifecycle is Lifecycle.STOPPED

    @property
    def needs_replay(self) -> bool:
        """Whether the code has to run up to its first new call, to name its compensations and its children.

        An effect or a child in doubt is completed first: else nobody knows whether there is anything to compensate.
        """
        written = self._session.written
        return bool(written.owed) or any(call.kind in _COMPLETED_WHEN_OPEN for call in written.open_calls.values())

    def error(self) -> Cancelled:
        """Return the exception for the code."""
        return Cancelled(
            "the process was asked to stop", process_id=self._session.process_id, reason=self._reason or None
        )

    def caused(self, task: asyncio.Task[object] | None) -> bool:
        """Whether a ``CancelledError`` in ``task`` comes from this cancellation: nobody cancelled the task itself."""
        return self.is_accepted and task is not None and not task.cancelling()

    def check(self) -> None:
        """Raise ``Cancelled`` if the process is cancelled; accept a request that waits in the mailbox first."""
        if not self.is_compensating and self.accept():
            self._raised += 1
            if self._raised > _RAISED_MAX:
                raise asyncio.CancelledError("the code goes on after Cancelled was raised many times")
            raise self.error()

    def check_call(self, place: CallPlace) -> None:
        """Raise ``Cancelled`` as ``check`` does, for a call that the record does not answer."""
        record = place.record
        if record is None or not (record.status in _ENDED or record.kind in _COMPLETED_WHEN_OPEN):
            self.check()

    @property
    def is_compensating(self) -> bool:
        """Whether the code that calls is a compensation of this process."""
        return _compensating.get() is self

    @contextmanager
    def compensating(self) -> Iterator[None]:
        """Do not raise ``Cancelled`` to the code that runs inside: a compensation has to be completed."""
        token = _compensating.set(self)
        try:
            yield
        finally:
            _compensating.reset(token)

    def accept(self) -> bool:
        """Return whether the process is cancelled; accept a request that waits in the mailbox."""
        if self._reason is None:
            for item in self._session.mail:
                if item.kind == b.CancelRequested.KIND:
                    self._session.send(b.CancelAccepted(external_id=item.id, reason=item.name or None))
                    self._reason = item.name[:200]
                    self._session.mail_changed.set()
                    break
        return self._reason is not None


_compensating: ContextVar[Cancellation | None] = ContextVar("seekpoint_compensating", default=None)
"""The process whose compensation the current code is."""
