"""Hold what the effects of one process share: connectors, compensations and business keys."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from seekpoint.producers.durable.effects.business_keys import BusinessKeys
from seekpoint.producers.durable.effects.connectors import Connectors, connectors
from seekpoint.producers.durable.effects.key_holders import is_released
from seekpoint.producers.durable.effects.verdict_matching import OWNER
from seekpoint.schemas import bodies as b
from seekpoint.schemas.errors import Retryable, SeekpointError
from seekpoint.schemas.folding.fold import SHARED_PREFIX
from seekpoint.schemas.values.json_values import dump

if TYPE_CHECKING:
    from seekpoint.producers.durable.session import Journal, Session

logger = logging.getLogger("seekpoint.producers")


class EffectContext:
    """What the effects of one process share."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.connectors: Connectors = connectors
        """The connectors that effects name."""
        self.compensations: dict[str, Callable[..., Any] | str] = {}
        """The compensations that this run's code names, by the key of the effect."""
        self.business_keys = BusinessKeys(JournalValues(session), partial(is_released, session, session.limits))

    async def read_log(self) -> bool:
        """Fold what is in the log by now; return whether Kafka could be read."""
        try:
            await self._session.read_log()
            return True
        except Retryable as exc:
            logger.warning("%s: the log was not read: %s", self._session.process_id, exc)
            return False

    async def report_outcome(self, body: b.EffectSettled, idempotency_key: str) -> None:
        """Send the new owner the outcome of a call that this owner made before it was fenced. Best effort."""
        session = self._session
        if body.outcome not in ("succeeded", "failed"):
            return
        verdict = b.EffectVerdict(
            key=body.key, outcome=body.outcome, output=body.output, error=body.error,
            reason="the former owner's own call", idempotency_key=idempotency_key,
        )  # fmt: skip
        try:
            await session.append_external(session.process_id, verdict, actor=OWNER + session.node_id)
        except SeekpointError as exc:
            logger.warning(
                "%s: the outcome of %s was not reported to the new owner: %s", session.process_id, body.key, exc
            )


class JournalValues:
    """The shared values of a journal, as ``business_keys.SharedValues``."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    async def read(self, name: str) -> tuple[int, Any]:
        """Return the version (0: never set) and the value."""
        state = (await self._journal.recover(SHARED_PREFIX + name, missing_ok=True)).state
        return state.shared_version, state.shared

    async def write(self, name: str, value: Any, expected_version: int) -> None:
        """Set the value if its version is ``expected_version``."""
        await self._journal.append_external(
            SHARED_PREFIX + name, b.SharedSet(expected_version=expected_version, value=dump(value))
        )
