"""Find free loopback ports, and check whether ports answer."""

from __future__ import annotations

import random
import socket

from seekpoint.schemas.errors import ClusterFailed

# Below the range for outgoing connections, so no program gets the port between the check and the bind.
_RANGE = range(20_000, 32_000)


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
