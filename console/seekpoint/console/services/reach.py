"""Check quickly whether a port of Kafka accepts connections, before a slower client connects."""

from __future__ import annotations

import socket

__all__ = ["addresses", "reach"]

_TIMEOUT_S = 2.0
_PORT = 9092


def reach(bootstrap_servers: str) -> list[str]:
    """Connect to each server in turn. Return an empty list once one accepts, else the reason of each failure."""
    failures = []
    for host, port in addresses(bootstrap_servers):
        try:
            socket.create_connection((host, port), _TIMEOUT_S).close()
        except (OSError, UnicodeError, OverflowError) as exc:
            reason = getattr(exc, "strerror", None) or str(exc) or type(exc).__name__
            failures.append(f"{host}:{port} {reason.lower()}")
        else:
            return []
    return failures


def addresses(bootstrap_servers: str) -> list[tuple[str, int]]:
    """Parse hosts and ports as librdkafka does: ignore a protocol prefix, and use port 9092 by default.

    >>> addresses("SSL://a:9093, b,[::1]:9094")
    [('a', 9093), ('b', 9092), ('::1', 9094)]
    """
    found = []
    for server in filter(None, map(str.strip, bootstrap_servers.split(","))):
        plain = server.rpartition("://")[2]
        host, colon, port = plain.rpartition(":")
        known = bool(colon) and port.isdecimal()
        found.append(((host if known else plain).strip("[]"), int(port) if known else _PORT))
    return found
