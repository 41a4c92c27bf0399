"""What the effects of one process share: connectors, business keys, the mailbox, and a way to speak once fenced."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from seekpoint.producers.durable.effects.business_keys import BusinessKeys
from seekpoint.producers.durable.effects.connectors import Connectors, connectors
from seekpoint.producers.durable.effects.external_outcome import OWNER
from seekpoint.producers.durable.effects.key_holders import has_let_go
from seekpoint.schemas import bodies as b
from seekpoint.schemas.errors import Retryable, SeekpointError
from seekpoint.schemas.folding.fold import SHARED_PREFIX
from seekpoint.schemas.state.process_state import MailItem
from seekpoint.schemas.values.json_values import dump

if TYPE_CHECKING:
    from seekpoint.producers.durable.session import Journal, Session

__all__ = ["EffectContext", "JournalValues"]

logger = logging.getLogger("seekpoint.producers")


class EffectContext:
    """One process's way to the outside world."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.connectors: Connectors = connectors
        """Where connectors are looked up."""
        self.owed: dict[str, Callable[..., Any] | str] = {}
        """The compensations that this run's code named, by the key of the effect."""
        self.business_keys = BusinessKeys(JournalValues(session), partial(has_let_go, session, session.limits))

    @property
    def mail(self) -> list[MailItem]:
        """The external entries that wait, oldest first."""
        return self._session.mail

    async def look(self) -> bool:
        """Fold what is in the log by now. Whether it could be read: a Kafka that is silent is no news."""
        try:
            await self._session.look()
            return True
        except Retryable as exc:
            logger.warning("%s: the log was not read: %s", self._session.process_id, exc)
            return False

    async def testify(self, body: b.EffectSettled, idempotency_key: str) -> None:
        """Tell the new owner what became of a call that this one made before it was fenced. Best effort."""
        session = self._session
        if body.outcome not in ("succeeded", "failed"):
            return
        told = b.EffectVerdict(
            key=body.key, outcome=body.outcome, output=body.output, error=body.error,
            reason="the former owner's own call", idempotency_key=idempotency_key,
        )  # fmt: skip
        try:
            await session.tell(session.process_id, told, actor=OWNER + session.node_id)
        except SeekpointError as exc:
            logger.warning("%s: nobody was told what became of %s: %s", session.process_id, body.key, exc)


class JournalValues:
    """The shared values of a journal."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    async def read(self, name: str) -> tuple[int, Any]:
        """Version (0: never set) and value."""
        state = (await self._journal.recover(SHARED_PREFIX + name, missing_ok=True)).state
        return state.shared_version, state.shared

    async def write(self, name: str, value: Any, expected_version: int) -> None:
        """Set it if its version is the expected one."""
        await self._journal.tell(
            SHARED_PREFIX + name, b.SharedSet(expected_version=expected_version, value=dump(value))
        )
