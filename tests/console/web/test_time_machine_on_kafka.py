"""The time machine and the lineage of a journal on Kafka, with Redis and without it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from typing import Any
from uuid import uuid4

import pytest

from consoles import Served, serving, work_on
from kafka_checkpoints import project, save
from seekpoint.compose import LocalCluster, create_topics_sync
from seekpoint.console.services.arguments.target import CommandTarget
from seekpoint.consumers.kafka.kafka_reader import KafkaReader
from seekpoint.consumers.recovery.points import Point
from seekpoint.consumers.recovery.recoverer import Recoverer
from seekpoint.consumers.view.redis_view import RedisView
from seekpoint.consumers.view.view_store import Pointer
from seekpoint.producers import Node
from seekpoint.schemas.config.settings import Settings

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def journal(cluster: LocalCluster) -> Settings:
    """A journal with three processes, checkpoints and a view. Its newest entries are in neither."""
    settings = cluster.settings(journal=f"moments-{uuid4().hex[:8]}", partitions=2)
    create_topics_sync(settings)
    work_on(settings, _begin)
    save(settings)
    work_on(settings, lambda node: _write(node, "case-1", 100))
    project(settings)
    work_on(settings, lambda node: _write(node, "case-1", 200))
    return settings


async def _begin(node: Node) -> None:
    for name in ("case-1", "case-2"):
        await _write(node, name, 0)
    async with node.fork("case-1", "case-3", at_seq=10):
        pass


async def _write(node: Node, process_id: str, start: int) -> None:
    async with node.open(process_id) as process:
        for number in range(start, start + 40):
            await process.update("number", number)


@pytest.fixture(params=["redis", "no redis"])
def served(request: pytest.FixtureRequest, journal: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    """A console on the journal."""
    redis_url = journal.redis_url if request.param == "redis" else None
    monkeypatch.setenv("SEEKPOINT_REDIS_URL", redis_url or "none")
    monkeypatch.setenv("SEEKPOINT_PARTITIONS", str(journal.partitions))
    with closing(CommandTarget(journal.journal, journal.bootstrap_servers, None)) as target, serving(target) as found:
        yield found


def test_moments_differences_and_lineage(served: Served, journal: Settings) -> None:
    """Each state is that of a recovery; a fork differs from its parent by what happened since."""
    with served.client() as client, closing(KafkaReader(journal)) as reader:
        recoverer = Recoverer(reader)
        for seq in (1, 40, 7, 100):
            found = client.get(f"/api/moment?id=case-1&seq={seq}").json()
            wanted = recoverer.recover("case-1", point=Point(seq=seq)).state
            assert (found["offset"], found["state"]["context"]) == (wanted.offset, wanted.context)
        told = client.get("/api/differences?id=case-1&seq=10&other_id=case-3").json()
        assert told["is_same_content"]
        now = client.get("/api/differences?id=case-1&other_id=case-3").json()["differences"]
        assert {"path": ["context", "number"], "what": "changed", "left": 239, "right": 9, "is_cut": False} in now
        lineage = client.get("/api/lineage?id=case-1").json()
        assert [one["process_id"] for one in lineage["descendants"]] == ["case-3"]


def test_the_stored_states_are_verified(served: Served, journal: Settings, request: pytest.FixtureRequest) -> None:
    """A view that is right agrees, one that is not is found with its first difference, and without one it says so."""
    has_redis = request.node.callspec.params["served"] == "redis"
    with served.client() as client:
        found = client.get("/api/verification?id=case-1").json()
        assert found["agrees"], json.dumps(found)
        stored = [one["where"] for one in found["compared"]]
        assert stored == (["checkpoint", "view", "console"] if has_redis else ["checkpoint", "console"])
        assert [*found["missing"]] == ([] if has_redis else ["view"])
        if has_redis:
            _forge(journal)
            found = client.get("/api/verification?id=case-1").json()
            project(journal)
            [wrong] = [one for one in found["compared"] if not one["agrees"]]
            assert (wrong["where"], wrong["first_difference"]["path"]) == ("view", ["context", "number"])
            assert wrong["first_difference"]["left"] == -1


def _forge(settings: Settings) -> None:
    """A view in which one process has another value, with a valid hash."""
    reader, view = KafkaReader(settings), RedisView(settings, settings.partitions)
    [(partition, _)] = Recoverer(reader).by_partition(["case-1"]).items()
    found = Recoverer(reader).recover_partition(partition)
    states: dict[bytes, Any] = {key.encode(): one.state for key, one in found.items()}
    draft = states[b"case-1"].thaw()
    draft.values_json["number"] = "-1"
    states[b"case-1"] = draft.freeze()
    token = view.install(partition, reader.topic_id)
    assert view.put(partition, token, {key: (state, Pointer(999_999, 0)) for key, state in states.items()})
    assert view.ready(partition, token, reader.watermarks(partition).high - 1, -1)
    view.close()
    reader.close()
