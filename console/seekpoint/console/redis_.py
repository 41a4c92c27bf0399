"""Redis, looked at by the doctor: the only module of this root that imports its client, and only when asked."""

from __future__ import annotations

from dataclasses import dataclass

from seekpoint.schemas.errors import InvalidSetting
from seekpoint.schemas.settings import Settings

__all__ = ["RedisFacts", "look_at_redis"]

_TIMEOUT_S = 2.0


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
