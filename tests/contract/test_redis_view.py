"""The view in a real Valkey keeps the promises of a view, and those only Redis can break."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from own_valkey import OwnValkey, own_valkey
from seekpoint.consumers.redis_view import RedisView
from seekpoint.schemas.settings import Settings
from view_contract import ViewContract

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def server() -> Iterator[OwnValkey]:
    with own_valkey() as server:
        yield server


@pytest.fixture
def store(server: OwnValkey) -> Iterator[RedisView]:
    server.client.flushall()
    store = RedisView(settings_of(server), partitions=4)
    yield store
    store.close()


def settings_of(server: OwnValkey) -> Settings:
    """A patient client: the machine may be busy."""
    return Settings(journal="fleet.1", redis_url=server.url, redis={"socket_timeout": "20"})


class TestRedisView(ViewContract):
    """Inherited."""
