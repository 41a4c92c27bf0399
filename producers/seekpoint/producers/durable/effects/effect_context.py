"""Hold what the effects of one process share: connectors, compensations and business keys."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from seekpoint.producers.durable.effects.business_keys import BusinessKeys, KeyHolder
from seekpoint.producers.durable.effects.connectors import Connectors, connectors
from seekpoint.producers.durable.effects.effect_history import effects_in
from seekpoint.producers.durable.effects.verdict_matching import OWNER
from seekpoint.producers.durable.failures.recorded_failures import is_undone
from seekpoint.schemas import bodies as b
from seekpoint.schemas.errors import JournalGap, Retryable, SeekpointError
from seekpoint.schemas.folding.fold import SHARED_PREFIX
from seekpoint.schemas.state.calls import Call, turn_of
from seekpoint.schemas.values.json_values import dump

if TYPE_CHECKING:
    from seekpoint.producers.durable.session import Journal, Session
    from seekpoint.schemas.config.limits import Limits
    from seekpoint.schemas.state.process_state import State

logger = logging.getLogger("seekpoint.producers")


async def is_released(journal: Journal, limits: Limits, holder: KeyHolder) -> bool:
    """Whether the effect that holds a key certainly has not happened and never will.

    Its failure says so, or its process never began it and cannot begin it any more. An effect whose history was trimmed
    counts as done. Reads the holder's state, and its whole history only if the state no longer has the effect.
    An owner releases a key after it has journaled that nothing was done, and may die in between: so it is the journal
    that counts, not the value of the key.
    """
    try:
        state = (await journal.recover(holder.process_id, missing_ok=True)).state
        call = state.calls.get(holder.key)
        if call is not None or not _is_past(state, holder.key):
            return call is not None and _is_undone(call, holder)
        history = [one async for one in journal.entries(holder.process_id)]
        call = (await journal.in_thread(partial(effects_in, history, limits))).get(holder.key)
        return call is None or _is_undone(call, holder)
    except JournalGap:
        return False


def _is_past(state: State, key: str) -> bool:
    """Whether the process can no longer make this call."""
    return state.finished or 0 < turn_of(key) <= state.turn


def _is_undone(call: Call, holder: KeyHolder) -> bool:
    same = call.facts.get("idempotency_key") == holder.idempotency_key
    return same and call.status == "failed" and call.error is not None and is_undone(call.error)


class EffectContext:
    """The objects that the effects of one process share."""

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
