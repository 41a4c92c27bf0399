"""The id, the ports and the processes of a local cluster. One that starts again moves off ports that are taken."""

from __future__ import annotations

import random
import socket
from collections.abc import Iterable
from dataclasses import dataclass, field

from seekpoint.compose.brokers import BrokerPorts, kafka_uuid
from seekpoint.schemas.errors import ClusterFailed

# Below the range for outgoing connections, so no program gets the port between the check and the bind.
_RANGE = range(20_000, 32_000)


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


def free_ports(count: int) -> list[int]:
    """Return ``count`` different free ports. Raises ``ClusterFailed`` if there are not enough."""
    found: list[int] = []
    for port in random.sample(_RANGE, len(_RANGE)):
        if len(found) == count:
            break
        if is_free(port):
            found.append(port)
    if len(found) < count:
        raise ClusterFailed("no free port on 127.0.0.1", hint="stop something that listens there")
    return found


def is_free(port: int) -> bool:
    """Whether a server could listen on the port now (connections in TIME_WAIT do not count)."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def accepts(port: int, timeout_s: float = 0.5) -> bool:
    """Whether something accepts connections on the port."""
    try:
        socket.create_connection(("127.0.0.1", port), timeout_s).close()
    except OSError:
        return False
    return True
