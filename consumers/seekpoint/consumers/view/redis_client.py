"""Redis: the only module of this root that imports its client, and only when it is first used (140 ms)."""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from seekpoint.consumers.view.view_scripts import Script
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.errors import InvalidSetting, SeekpointError, ViewRefused, ViewUnavailable

__all__ = ["RedisHash", "RedisScripts"]

_logger = logging.getLogger("seekpoint.consumers")

T = TypeVar("T")

_TIMEOUT_S = 1.0
_VIEW_TIMEOUT_S = 2.0
_RETRY_AFTER_S = 5.0
_POLICY_INTERVAL_S = 30.0
_PASSING = ("BUSY", "CLUSTERDOWN", "LOADING", "MASTERDOWN", "MISCONF", "NOREPLICAS", "OOM", "READONLY", "TRYAGAIN")
"""How Redis begins an answer that it will not give for ever."""


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
        with self._lock:
            if self._client is None:
                import redis

                options = _options(self._settings, _TIMEOUT_S)
                self._client = redis.Redis.from_url(self._settings.redis_url or "", **options)
            return self._client


class RedisScripts:
    """Runs scripts in Redis, Valkey or a Redis Cluster (found out at the first call). Blocks; thread safe.

    Not tried again: a call that timed out may have run. That the server evicts nothing is looked at on each new
    connection and every 30 s. Raises ``ViewUnavailable``, ``ViewRefused``, and ``InvalidSetting`` for an option that
    the client does not know; no message has a secret.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._client: Any = None
        self._looked_at = 0.0
        self._lock = threading.Lock()

    @property
    def is_loaded(self) -> bool:
        """Whether the client's library is loaded."""
        return "redis" in sys.modules

    def load(self) -> None:
        """Load it (140 ms)."""
        import redis  # noqa: F401  # for its loading only

    def run(self, script: Script, key: str, *arguments: str | bytes | int) -> Any:
        """What ``script`` answers; ``key`` is the key it declares."""
        return self._answer(lambda client: _evaluate(client, script, key, arguments))

    def field(self, key: str, name: str) -> bytes | None:
        """A field of a hash."""
        found: bytes | None = self._answer(lambda client: client.hget(key, name))
        return found

    def close(self) -> None:
        """Give up the connections. Idempotent; a later call connects anew."""
        with self._lock:
            client, self._client = self._client, None
        if client is not None:
            client.close()

    def _answer(self, call: Callable[[Any], T]) -> T:
        import redis

        try:
            return call(self._connected())
        except (redis.RedisError, OSError) as exc:
            self._looked_at = 0.0
            raise self._translated(exc) from exc

    def _connected(self) -> Any:
        with self._lock:
            if self._client is None:
                self._client = self._opened()
            if time.monotonic() - self._looked_at > _POLICY_INTERVAL_S or self._looked_at == 0.0:
                _refuse_eviction(self._client)
                self._looked_at = time.monotonic()
            return self._client

    def _opened(self) -> Any:
        """The client for what answers there: one server, or a cluster."""
        import redis

        url = self._settings.redis_url
        if url is None:
            raise ViewUnavailable("the settings name no Redis: there is no view", hint="set redis_url")
        options = _options(self._settings, _VIEW_TIMEOUT_S)
        try:
            client = redis.Redis.from_url(url, **options)
            if not int(client.info().get("cluster_enabled", 0)):
                return client
            client.close()
            return redis.RedisCluster.from_url(url, **options)
        except (TypeError, ValueError) as exc:  # an option that the client does not know
            raise InvalidSetting(self._settings.scrub(f"the Redis client refuses a setting: {exc}")) from exc

    def _translated(self, exc: Exception) -> SeekpointError:
        from redis import exceptions as e

        said = self._settings.scrub(str(exc)) or type(exc).__name__
        if isinstance(exc, e.AuthenticationError | e.AuthorizationError | e.NoPermissionError):
            hint = "check the user and password of redis_url, and what it may do: docs/view.md"
            return ViewRefused(f"Redis does not let us in: {said}", hint=hint)
        passing = isinstance(exc, e.OutOfMemoryError | e.ReadOnlyError) or said.startswith(_PASSING)
        if isinstance(exc, e.ResponseError) and not passing:
            return ViewRefused(f"Redis refuses a call of the view: {said}")
        return ViewUnavailable(f"Redis does not serve the view: {said}")


def _options(settings: Settings, timeout_s: float) -> dict[str, Any]:
    """Short time-outs and no retries, unless the user's own settings say otherwise."""
    from redis.backoff import NoBackoff
    from redis.retry import Retry

    ours = {"socket_connect_timeout": _TIMEOUT_S, "socket_timeout": timeout_s, "retry": Retry(NoBackoff(), 0)}
    return {**ours, **settings.redis_config()}


def _evaluate(client: Any, script: Script, key: str, arguments: tuple[str | bytes | int, ...]) -> Any:
    import redis

    try:
        return client.evalsha(script.sha, 1, key, *arguments)
    except redis.exceptions.NoScriptError:
        return client.eval(script.text, 1, key, *arguments)


def _refuse_eviction(client: Any) -> None:
    """``ViewRefused`` if a server behind ``client`` may drop keys when its memory is full."""
    import redis

    clustered = isinstance(client, redis.RedisCluster)
    nodes: list[dict[str, Any]] = [{"target_nodes": node} for node in client.get_primaries()] if clustered else [{}]
    for node in nodes:
        said = client.info("memory", **node)
        policy = said.get("maxmemory_policy", "noeviction")
        if int(said.get("maxmemory", 0)) > 0 and policy != "noeviction":
            raise ViewRefused(
                "this Redis evicts keys when its memory is full: a view in it would lose processes silently",
                maxmemory_policy=policy,
                maxmemory=said["maxmemory"],
            )
