"""Send a new broker the requests whose first answer is "try again later", until it answers.

Clients wait for 0.5 to 1 s before they try again. So the first producer, worker and projector of a fresh cluster would
each lose that time, because the broker then asks the controller for a block of producer ids, or creates the topics of
committed offsets and of transactions. Asked in steps of milliseconds, all of it takes about 0.1 s.
"""

from __future__ import annotations

import socket
import struct
import time
from dataclasses import dataclass

_TIMEOUT_S = 3.0
_INTERVAL_S = 0.005
_FIND_COORDINATOR, _INIT_PRODUCER_ID = 10, 22
_KEY = b"seekpoint"
_GROUP, _TRANSACTION = 0, 1
_TRANSACTION_TIMEOUT_MS = 60_000
_CLIENT_ID = b"seekpoint-up"
_ANSWER_BYTES_MAX = 65_536


@dataclass(frozen=True, slots=True)
class _FirstRequest:
    """A request in a version without tagged fields. Its answer: an id, the throttle time, the error code, more."""

    api: int
    version: int
    body: bytes


_PRODUCER_IDS = _FirstRequest(_INIT_PRODUCER_ID, 0, struct.pack(">hi", -1, _TRANSACTION_TIMEOUT_MS))
_COORDINATORS = tuple(
    _FirstRequest(_FIND_COORDINATOR, 1, struct.pack(">h", len(_KEY)) + _KEY + struct.pack(">b", kind))
    for kind in (_GROUP, _TRANSACTION)
)


def ask_for_producer_ids(port: int) -> bool:
    """Let the broker get its producer ids. Return whether it has them; no answer is no error, clients ask again."""
    return _ask_until_ready(port, (_PRODUCER_IDS,))


def ask_for_coordinators(port: int) -> bool:
    """Let the cluster create the topics of offsets and transactions. Return whether their leaders are known."""
    return _ask_until_ready(port, _COORDINATORS)


def _ask_until_ready(port: int, requests: tuple[_FirstRequest, ...]) -> bool:
    deadline = time.monotonic() + _TIMEOUT_S
    try:
        with socket.create_connection(("127.0.0.1", port), _TIMEOUT_S) as connection:
            while requests := tuple(request for request in requests if _error_code(connection, request)):
                if time.monotonic() > deadline:
                    return False
                time.sleep(_INTERVAL_S)
    except OSError:
        return False
    return True


def _error_code(connection: socket.socket, request: _FirstRequest) -> int:
    header = struct.pack(">hhih", request.api, request.version, 0, len(_CLIENT_ID)) + _CLIENT_ID
    connection.sendall(struct.pack(">i", len(header) + len(request.body)) + header + request.body)
    (size,) = struct.unpack(">i", _read(connection, 4))
    if not 10 <= size <= _ANSWER_BYTES_MAX:
        raise OSError(f"an answer of {size} bytes")
    code: int = struct.unpack_from(">h", _read(connection, size), 8)[0]
    return code


def _read(connection: socket.socket, size: int) -> bytes:
    content = b""
    while len(content) < size:
        part = connection.recv(size - len(content))
        if not part:
            raise OSError("the broker closed the connection")
        content += part
    return content
