"""The id, the ports and the processes of a local cluster. One that starts again moves off ports that are taken."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from seekpoint.compose.brokers import BrokerPorts, kafka_uuid
from seekpoint.compose.loopback_ports import free_ports, is_free


@dataclass(slots=True, kw_only=True)
class ClusterState:
    """The content of the state file: enough to start the same cluster again, or to find the running one."""

    cluster_id: str
    brokers: list[BrokerPorts]
    valkey: int
    pids: dict[str, int] = field(default_factory=dict)

    @classmethod
    def new(cls, brokers: int) -> ClusterState:
        """Return the state of a new cluster on free ports."""
        *ports, valkey = free_ports(2 * brokers + 1)
        pairs = [(ports[2 * index], ports[2 * index + 1]) for index in range(brokers)]
        return cls(cluster_id=kafka_uuid(), brokers=pairs, valkey=valkey)

    def on_free_ports(self) -> ClusterState:
        """Return the state with new ports in place of those that another program uses now."""
        fresh = iter(free_ports(2 * len(self.brokers) + 1))
        again = [
            (_port_or_fresh(client, fresh), _port_or_fresh(controller, fresh)) for client, controller in self.brokers
        ]
        return ClusterState(cluster_id=self.cluster_id, brokers=again, valkey=_port_or_fresh(self.valkey, fresh))


def _port_or_fresh(port: int, fresh: Iterable[int]) -> int:
    return port if is_free(port) else next(iter(fresh))
