"""Redis: the only module of this root that imports the client, and only at its first use (140 ms)."""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from seekpoint.consumers.view.view_scripts import Script
from seekpoint.schemas.config.extras import extra_missing
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.errors import InvalidSetting, SeekpointError, ViewRefused, ViewUnavailable

_logger = logging.getLogger("seekpoint.consumers")

T = TypeVar("T")

_TIMEOUT_S = 1.0
_VIEW_TIMEOUT_S = 2.0
_RETRY_AFTER_S = 5.0
_POLICY_INTERVAL_S = 30.0
_PASSING = ("BUSY", "CLUSTERDOWN", "LOADING", "MASTERDOWN", "MISCONF", "NOREPLICAS", "OOM", "READONLY", "TRYAGAIN")
"""The beginnings of Redis errors that pass by themselves."""


def _redis() -> Any:
    """Return the client's library, loaded."""
    try:
        import redis
    except ModuleNotFoundError as exc:
        raise extra_missing(exc.name, "kafka", "a view in Redis", "or do without a view: redis_url = none") from exc
    return redis


class RedisHash:
    """A hash in Redis that works without Redis: a failing write is logged, a failing read finds nothing. Thread safe.

    After a failure there are no calls for five seconds, so that a dead Redis does not delay every call by a second.
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
        """Return all fields; none if Redis does not answer."""
        nothing: Mapping[bytes, bytes] = {}
        return self._try(lambda client: client.hgetall(self._key), nothing)

    def close(self) -> None:
        """Close the connection. Idempotent."""
        with self._lock:
            client, self._client = self._client, None
        if client is not None:
            client.close()

    def _try(self, call: Callable[[Any], T], otherwise: T) -> T:
        if self._failed_at is not None and time.monotonic() - self._failed_at < _RETRY_AFTER_S:
            return otherwise
        redis = _redis()

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
                redis = _redis()

                options = _options(self._settings, _TIMEOUT_S)
                self._client = redis.Redis.from_url(self._settings.redis_url or "", **options)
            return self._client


class RedisScripts:
    """Runs scripts in Redis, Valkey or a Redis Cluster (the first call finds out which). Blocks; thread safe.

    It does not retry: a call that timed out may have been executed. On each new connection and every 30 s it checks
    that the server evicts nothing. Raises ``ViewUnavailable``, ``ViewRefused``, and ``InvalidSetting`` for an option
    that the client does not know; no message contains a secret.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._client: Any = None
        self._checked_at = 0.0
        self._lock = threading.Lock()

    @property
    def is_loaded(self) -> bool:
        """Whether the client's library is loaded."""
        return "redis" in sys.modules

    def load(self) -> None:
        """Load the client's library (140 ms)."""
        _redis()

    def run(self, script: Script, key: str, *arguments: str | bytes | int) -> Any:
        """Run ``script``, which declares ``key``, and return its answer."""
        return self._answer(lambda client: _evaluate(client, script, key, arguments))

    def close(self) -> None:
        """Close the connections. Idempotent; a later call connects again."""
        with self._lock:
            client, self._client = self._client, None
        if client is not None:
            client.close()

    def _answer(self, call: Callable[[Any], T]) -> T:
        redis = _redis()

        try:
            return call(self._connected())
        except (redis.RedisError, OSError) as exc:
            self._checked_at = 0.0
            raise self._translated(exc) from exc

    def _connected(self) -> Any:
        with self._lock:
            if self._client is None:
                self._client = self._connect()
            if time.monotonic() - self._checked_at > _POLICY_INTERVAL_S or self._checked_at == 0.0:
                _refuse_eviction(self._client)
                self._checked_at = time.monotonic()
            return self._client

    def _connect(self) -> Any:
        """Return a client for the server or the cluster at ``redis_url``."""
        redis = _redis()

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
        except (TypeError, ValueError) as exc:  # the client does not know an option
            raise InvalidSetting(self._settings.scrub(f"the Redis client refuses a setting: {exc}")) from exc

    def _translated(self, exc: Exception) -> SeekpointError:
        from redis import exceptions as e

        reason = self._settings.scrub(str(exc)) or type(exc).__name__
        if isinstance(exc, e.AuthenticationError | e.AuthorizationError | e.NoPermissionError):
            hint = "check the user and password of redis_url, and what it may do: docs/view.md"
            return ViewRefused(f"Redis refuses the login: {reason}", hint=hint)
        passing = isinstance(exc, e.OutOfMemoryError | e.ReadOnlyError) or reason.startswith(_PASSING)
        if isinstance(exc, e.ResponseError) and not passing:
            return ViewRefused(f"Redis refuses a call of the view: {reason}")
        return ViewUnavailable(f"Redis does not serve the view: {reason}")


def _options(settings: Settings, timeout_s: float) -> dict[str, Any]:
    """Return the client's options: short time-outs and no retries, unless the user's settings say otherwise."""
    from redis.backoff import NoBackoff
    from redis.retry import Retry

    defaults = {"socket_connect_timeout": _TIMEOUT_S, "socket_timeout": timeout_s, "retry": Retry(NoBackoff(), 0)}
    return {**defaults, **settings.redis_config()}


def _evaluate(client: Any, script: Script, key: str, arguments: tuple[str | bytes | int, ...]) -> Any:
    redis = _redis()

    try:
        return client.evalsha(script.sha, 1, key, *arguments)
    except redis.exceptions.NoScriptError:
        return client.eval(script.text, 1, key, *arguments)


def _refuse_eviction(client: Any) -> None:
    """Raise ``ViewRefused`` if a server of ``client`` may drop keys when its memory is full."""
    redis = _redis()

    clustered = isinstance(client, redis.RedisCluster)
    nodes: list[dict[str, Any]] = [{"target_nodes": node} for node in client.get_primaries()] if clustered else [{}]
    for node in nodes:
        memory = client.info("memory", **node)
        policy = memory.get("maxmemory_policy", "noeviction")
        if int(memory.get("maxmemory", 0)) > 0 and policy != "noeviction":
            raise ViewRefused(
                "this Redis evicts keys when its memory is full: a view in it would lose processes silently",
                maxmemory_policy=policy,
                maxmemory=memory["maxmemory"],
            )
