"""Cancelling: a request from outside, accepted by the owner, told to the code, and what follows from it.

    CancelRequested (mailbox) -> CancelAccepted (owner) -> ``Cancelled`` out of waits and at each further call
    -> the children are cancelled too -> compensations, the newest effect's first -> stopping -> stopped

Cooperative: a body that runs is not interrupted. What is asked for after it raises ``Cancelled``; content can still be
written. A cancelled process never runs on: whoever runs it again only ends what is left of this.
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

__all__ = ["Cancelling"]

_PATIENCE = 100
"""Code that swallows ``Cancelled`` so often is ended as a cancelled task is: else its loop would spin for ever."""
_OVER = frozenset({"succeeded", "failed"})
_IN_DOUBT_GOES_ON = frozenset({"effect", "child"})
"""What began is brought to its end, or nobody knew what there is to take back, and to pass the request on to."""


class Cancelling:
    """Whether one open process was asked to stop."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._reason: str | None = session.written.cancelled
        self._told = 0

    @property
    def is_accepted(self) -> bool:
        """Whether this process, or an owner before, has accepted a request to stop."""
        return self._reason is not None

    @property
    def was_told(self) -> bool:
        """Whether the code was told in this run: whatever it raises since follows from that."""
        return self._told > 0

    @property
    def is_over(self) -> bool:
        """Whether nothing is left to do for it."""
        return self.is_accepted and self._session.ahead_lifecycle is Lifecycle.STOPPED

    @property
    def needs_code(self) -> bool:
        """Whether the code has to run, up to its first new call, to say how things are taken back or passed on.

        What is in doubt has to be found out first: else nobody knew whether there is anything to take back.
        """
        written = self._session.written
        return bool(written.obligations) or any(call.kind in _IN_DOUBT_GOES_ON for call in written.open_calls.values())

    def error(self) -> Cancelled:
        """What the code is told."""
        return Cancelled(
            "the process was asked to stop", process_id=self._session.process_id, reason=self._reason or None
        )

    def ends(self, task: asyncio.Task[object] | None) -> bool:
        """Whether a ``CancelledError`` in ``task`` is how this process is stopped: nobody cancelled the task."""
        return self.is_accepted and task is not None and not task.cancelling()

    def check(self) -> None:
        """Raise ``Cancelled`` if the process was asked to stop; accepts the request first, where it is new."""
        if not self.is_paying and self.accept():
            self._told += 1
            if self._told > _PATIENCE:
                raise asyncio.CancelledError("it was told to stop, and asks on")
            raise self.error()

    def check_call(self, place: CallPlace) -> None:
        """The same, for a call that is not answered from the record. Content is written all the same."""
        record = place.record
        if record is None or not (record.status in _OVER or record.kind in _IN_DOUBT_GOES_ON):
            self.check()

    @property
    def is_paying(self) -> bool:
        """Whether the code that asks is a compensation of this process."""
        return _PAYING.get() is self

    @contextmanager
    def paying(self) -> Iterator[None]:
        """While inside, what is asked is owed: a compensation that is told to stop could never be made."""
        token = _PAYING.set(self)
        try:
            yield
        finally:
            _PAYING.reset(token)

    def accept(self) -> bool:
        """Whether the process is to stop; a request that waits in the mailbox is accepted."""
        if self._reason is None:
            for item in self._session.mail:
                if item.kind == b.CancelRequested.KIND:
                    self._session.send(b.CancelAccepted(external_id=item.id, reason=item.name or None))
                    self._reason = item.name[:200]
                    self._session.mail_changed.set()
                    break
        return self._reason is not None


_PAYING: ContextVar[Cancelling | None] = ContextVar("seekpoint_paying", default=None)
"""Whose compensation the code that runs is."""
