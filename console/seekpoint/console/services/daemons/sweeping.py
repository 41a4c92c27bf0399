"""The service of ``seekpoint serve reactors``: reactors, and on the leader of their group the sweep."""

from __future__ import annotations

from collections.abc import Iterable

from seekpoint.consumers import Reactor, ReactorService
from seekpoint.consumers.kafka.faust_delivery import LeaderTimer
from seekpoint.consumers.kafka.kafka_inbox import KafkaTakenInbox
from seekpoint.consumers.kafka.kafka_reader import KafkaReader
from seekpoint.consumers.view.redis_view import RedisView
from seekpoint.producers import Client
from seekpoint.producers.sweep import Sweep
from seekpoint.schemas.config.settings import Settings


class SweepingService(ReactorService):
    """A member of a group of reactors that sweeps every ``sweep_s`` seconds while it leads. 0: it never does.

    ``margin_s``: how late somebody has to be before the sweep acts. Without Redis it does not sweep: the view says
    which processes there are.
    """

    def __init__(
        self,
        reactors: Iterable[Reactor],
        settings: Settings,
        *,
        group: str = "reactors",
        from_beginning: bool = False,
        sweep_s: float = 30.0,
        margin_s: float = 30.0,
    ) -> None:
        self.sweep: Sweep | None = None
        timers = []
        if sweep_s > 0 and settings.redis_url is not None:
            self._client, self._view = Client.connect(settings), RedisView(settings)
            self._inbox = KafkaReader(settings)
            self.sweep = Sweep(self._client, self._view, margin_s=margin_s, inbox=KafkaTakenInbox(self._inbox))
            timers.append(LeaderTimer("sweep", sweep_s, self.sweep.look))
        super().__init__(reactors, settings, group=group, from_beginning=from_beginning, timers=timers)

    async def close(self) -> None:
        """Leave the group and close connections."""
        await super().close()
        if self.sweep is not None:
            await self._client.close()
            self._inbox.close()
            self._view.close()
