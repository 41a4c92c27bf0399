"""Whether anything listens where Kafka should be: the quick question before the slow one."""

from __future__ import annotations

import socket

__all__ = ["addresses", "reach"]

_TIMEOUT_S = 2.0
_PORT = 9092


def reach(bootstrap_servers: str) -> list[str]:
    """Empty as soon as one of them accepts a connection; else why each of them did not."""
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
    """Hosts and ports, as librdkafka reads them: a protocol in front is dropped, a missing port is 9092.

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
