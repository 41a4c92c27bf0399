"""Senders whose records have arrived once they are sent: what those of memory and of files share, and a dry run's."""

from __future__ import annotations

import time
from typing import Any

from seekpoint.consumers.staging.replay_ports import OnDelivery
from seekpoint.schemas.errors import JournalUnavailable, SeekpointError

__all__ = ["Nowhere", "PromptSender"]


class PromptSender:
    """What a ``Sender`` has beside ``produce``, where nothing is ever under way. One thread's."""

    def __init__(self) -> None:
        self._deliveries: list[OnDelivery] = []
        """Of what was sent since the last poll."""

    def poll(self, timeout_s: float) -> None:
        """Tell of what was sent; where nothing was, wait as long as asked."""
        told, self._deliveries = self._deliveries, []
        for each in told:
            each(None, None)
        if not told and timeout_s > 0:
            time.sleep(timeout_s)

    def refusal(self, error: Any) -> SeekpointError:
        """Nothing is ever refused here."""
        return JournalUnavailable(f"a record was refused: {error}")

    def flush(self, timeout_s: float) -> int:
        """Tell of all."""
        self.poll(0)
        return 0

    def close(self) -> None:
        """Nothing to drop."""


class Nowhere(PromptSender):
    """The sender of a dry run."""

    def produce(
        self, value: Any, key: Any, partition: int, on_delivery: OnDelivery, timestamp: int, headers: Any
    ) -> None:
        """It would have arrived."""
        on_delivery(None, None)
