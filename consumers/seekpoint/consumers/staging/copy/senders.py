"""Senders that deliver a record at once: the base of the memory and file senders, and the dry run's sender."""

from __future__ import annotations

import time
from typing import Any

from seekpoint.consumers.staging.replay_ports import OnDelivery
from seekpoint.schemas.errors import JournalUnavailable, SeekpointError


class ImmediateSender:
    """The methods of a ``Sender`` other than ``produce``, where no record is ever in flight. Belongs to one thread."""

    def __init__(self) -> None:
        self._deliveries: list[OnDelivery] = []
        """The callbacks of records that were sent since the last poll."""

    def poll(self, timeout_s: float) -> None:
        """Call ``on_delivery`` of sent records; if there are none, wait ``timeout_s``."""
        deliveries, self._deliveries = self._deliveries, []
        for on_delivery in deliveries:
            on_delivery(None, None)
        if not deliveries and timeout_s > 0:
            time.sleep(timeout_s)

    def refusal(self, error: Any) -> SeekpointError:
        """Return an error, although this sender refuses no record."""
        return JournalUnavailable(f"a record was refused: {error}")

    def flush(self, timeout_s: float) -> int:
        """Call ``on_delivery`` of all records."""
        self.poll(0)
        return 0

    def close(self) -> None:
        """Do nothing."""


class DryRunSender(ImmediateSender):
    """The sender of a dry run, which writes nothing."""

    def produce(
        self, value: Any, key: Any, partition: int, on_delivery: OnDelivery, timestamp: int, headers: Any
    ) -> None:
        """Report the record as delivered."""
        on_delivery(None, None)
