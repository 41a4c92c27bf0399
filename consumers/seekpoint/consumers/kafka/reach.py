"""Check whether a port of Kafka accepts connections. librdkafka goes on connecting and does not say why it cannot."""

from __future__ import annotations

import socket

_TIMEOUT_S = 2.0
_LOOK_S = 0.5
_PORT = 9092


def reach(bootstrap_servers: str) -> list[str]:
    """Connect to each server in turn. Return an empty list once one accepts, else the reason of each failure."""
    failures = []
    for host, port in addresses(bootstrap_servers):
        error = _failure(host, port, _TIMEOUT_S)
        if error is None:
            return []
        failures.append(_described(host, port, error))
    return failures


def refusals(bootstrap_servers: str) -> list[str]:
    """Return why no server can answer: each address refuses connections, or its name does not exist.

    Return an empty list if one accepts, or might: a server that is silent may answer later.
    """
    found = []
    for host, port in addresses(bootstrap_servers):
        error = _failure(host, port, _LOOK_S)
        if not (isinstance(error, ConnectionRefusedError) or _is_unknown_name(error)):
            return []
        found.append(_described(host, port, error))
    return found


def _failure(host: str, port: int, timeout_s: float) -> Exception | None:
    try:
        socket.create_connection((host, port), timeout_s).close()
    except (OSError, UnicodeError, OverflowError) as exc:
        return exc
    return None


def _is_unknown_name(error: Exception | None) -> bool:
    return isinstance(error, socket.gaierror) and error.errno == socket.EAI_NONAME


def _described(host: str, port: int, error: Exception | None) -> str:
    reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return f"{host}:{port} {reason.lower()}"


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
