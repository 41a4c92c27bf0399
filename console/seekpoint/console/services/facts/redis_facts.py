"""Examine and empty Redis. This is the only module of this root that imports the Redis client."""

from __future__ import annotations

from dataclasses import dataclass

from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.errors import InvalidSetting, ViewUnavailable

_TIMEOUT_S = 2.0
_DELETE_BATCH = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class RedisFacts:
    """Facts that a Redis server reports about itself."""

    server: str
    """Name and version."""
    policy: str | None
    """The eviction policy; None if the server does not report it."""


def look_at_redis(settings: Settings) -> RedisFacts | str:
    """Return the facts, or the reason why the server cannot be reached."""
    import redis

    options = {"socket_connect_timeout": _TIMEOUT_S, "socket_timeout": _TIMEOUT_S, **settings.redis_config()}
    try:
        with redis.Redis.from_url(settings.redis_url or "", **options) as client:
            info = client.info("server", "memory")
    except (redis.RedisError, OSError) as error:
        return settings.scrub(str(error))
    except (TypeError, ValueError) as error:  # an option that the client does not know
        raise InvalidSetting(settings.scrub(f"the Redis client refuses a setting: {error}")) from error
    name = info.get("server_name") or "redis"
    version = info.get(f"{name}_version") or info.get("redis_version") or "?"
    return RedisFacts(server=f"{name} {version}", policy=info.get("maxmemory_policy"))


def forget_everything(settings: Settings, *, all_of_it: bool) -> int:
    """Delete this journal's keys, or with ``all_of_it`` every key (FLUSHALL), and return their number.

    Raises ``ViewUnavailable``.
    """
    import redis

    try:
        with redis.Redis.from_url(settings.redis_url or "", **settings.redis_config()) as client:
            if all_of_it:
                keys = int(client.dbsize())
                client.flushall()
                return keys
            ours = [*client.scan_iter(f"seekpoint:{{{settings.journal}:*"), f"seekpoint:{settings.journal}:nodes"]
            return sum(client.unlink(*ours[at : at + _DELETE_BATCH]) for at in range(0, len(ours), _DELETE_BATCH))
    except (redis.RedisError, OSError) as error:
        raise ViewUnavailable(f"Redis cannot be emptied: {settings.scrub(str(error))}") from error
