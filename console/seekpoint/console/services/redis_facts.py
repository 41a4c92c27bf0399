"""Redis, looked at by the doctor and emptied by the demo: the only module of this root that imports its client."""

from __future__ import annotations

from dataclasses import dataclass

from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.errors import InvalidSetting, ViewUnavailable

__all__ = ["RedisFacts", "forget_everything", "look_at_redis"]

_TIMEOUT_S = 2.0
_DELETED_AT_ONCE = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class RedisFacts:
    """What a server says of itself."""

    server: str
    """Name and version."""
    policy: str | None
    """What it does when its memory is full; None if it does not say."""


def look_at_redis(settings: Settings) -> RedisFacts | str:
    """The facts, or why there are none."""
    import redis

    options = {"socket_connect_timeout": _TIMEOUT_S, "socket_timeout": _TIMEOUT_S, **settings.redis_config()}
    try:
        with redis.Redis.from_url(settings.redis_url or "", **options) as client:
            said = client.info("server", "memory")
    except (redis.RedisError, OSError) as error:
        return settings.scrub(str(error))
    except (TypeError, ValueError) as error:  # an option that the client does not know
        raise InvalidSetting(settings.scrub(f"the Redis client refuses a setting: {error}")) from error
    name = said.get("server_name") or "redis"
    version = said.get(f"{name}_version") or said.get("redis_version") or "?"
    return RedisFacts(server=f"{name} {version}", policy=said.get("maxmemory_policy"))


def forget_everything(settings: Settings, *, all_of_it: bool) -> int:
    """Delete what Redis has of this journal, with ``all_of_it`` everything it has (FLUSHALL); how many keys.

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
            return sum(client.unlink(*ours[at : at + _DELETED_AT_ONCE]) for at in range(0, len(ours), _DELETED_AT_ONCE))
    except (redis.RedisError, OSError) as error:
        raise ViewUnavailable(f"Redis cannot be emptied: {settings.scrub(str(error))}") from error
