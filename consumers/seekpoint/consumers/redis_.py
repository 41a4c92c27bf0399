"""Redis: the only module of this root that imports its client, and only when it is first used (140 ms)."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from seekpoint.schemas.settings import Settings

__all__ = ["RedisHash"]

_logger = logging.getLogger("seekpoint.consumers")

T = TypeVar("T")

_TIMEOUT_S = 1.0
_RETRY_AFTER_S = 5.0


class RedisHash:
    """One hash in Redis that may be missing at any time: failing writes are logged, failing reads find nothing.

    After a failure it is left alone for five seconds, so that a dead Redis costs nobody a second a call. Thread safe.
    """

    def __init__(self, settings: Settings, key: str) -> None:
        self._settings = settings
        self._key = key
        self._client: Any = None
        self._lock = threading.Lock()
        self._failed_at: float | None = None

    def put(self, field: str, value: bytes) -> None:
        """Set a field."""
        self._try(lambda client: client.hset(self._key, field, value), None)

    def remove(self, field: str) -> None:
        """Remove a field."""
        self._try(lambda client: client.hdel(self._key, field), None)

    def items(self) -> Mapping[bytes, bytes]:
        """All fields; none if Redis does not answer."""
        nothing: Mapping[bytes, bytes] = {}
        return self._try(lambda client: client.hgetall(self._key), nothing)

    def close(self) -> None:
        """Give up the connection. Idempotent."""
        with self._lock:
            client, self._client = self._client, None
        if client is not None:
            client.close()

    def _try(self, call: Callable[[Any], T], otherwise: T) -> T:
        if self._failed_at is not None and time.monotonic() - self._failed_at < _RETRY_AFTER_S:
            return otherwise
        import redis

        try:
            found = call(self._connected())
        except (redis.RedisError, OSError) as exc:
            if self._failed_at is None:
                _logger.warning("Redis does not answer: %s", self._settings.scrub(str(exc)))
            self._failed_at = time.monotonic()
            return otherwise
        self._failed_at = None
        return found

    def _connected(self) -> Any:
        import redis

        with self._lock:
            if self._client is None:
                options = {"socket_connect_timeout": _TIMEOUT_S, "socket_timeout": _TIMEOUT_S}
                self._client = redis.Redis.from_url(
                    self._settings.redis_url or "", **{**options, **self._settings.redis_config()}
                )
            return self._client
