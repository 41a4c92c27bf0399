"""150 real agent runs, replayed into a staging journal and folded there, with and without masks."""

from __future__ import annotations

import asyncio
import gzip
import json
import logging
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import redis

from agent_programs import read_records
from seekpoint.compose import create_topics
from seekpoint.consumers import Projector, Recovery, staging
from seekpoint.consumers.staging import MaskRules, Plan, Replay
from seekpoint.producers import Node
from seekpoint.schemas import Settings
from seekpoint.schemas.config.cluster_profiles import Cluster

RUNS = Path(__file__).resolve().parents[4] / "shared" / "data" / "agent-runs.jsonl.gz"

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(not RUNS.exists(), reason="the real agent runs lie beside the checkout, and are not here"),
]

CUSTOMER = re.compile(r"[a-z]+_[a-z]+_\d{4}")
"""How these runs name their customers: the canaries."""


def load_runs() -> list[dict[str, Any]]:
    with gzip.open(RUNS, "rt") as lines:
        return [json.loads(line) for line in lines]


async def write(node: Node, run: dict[str, Any], gate: asyncio.Semaphore) -> None:
    async with gate, node.open(run["run_id"]) as process:
        await process.transition("starting")
        for message in run["messages"]:
            more = {name: message[name] for name in ("tool_calls", "tool_call_id", "name") if message.get(name)}
            await process.say(message["role"], message.get("content"), **more)
        await process.update("customer", CUSTOMER.findall(json.dumps(run)))


async def staged(journal: Settings, name: str, partitions: int, plan: Plan) -> tuple[Settings, staging.ReplayReport]:
    """Replay ``journal`` into a new staging journal."""
    into = replace(journal, journal=f"{journal.journal}-{name}", partitions=partitions)
    await create_topics(into)
    clusters = {
        "prod": Cluster(name="prod", settings=journal),
        "staging": Cluster(name="staging", settings=into, is_staging=True),
    }
    ends = f"prod/{journal.topic_name('journal')}", f"staging/{into.topic_name('journal')}"
    with Replay.connect(*ends, plan, clusters=clusters) as made:
        return into, await asyncio.to_thread(made.run)


async def states_of(settings: Settings) -> dict[str, Any]:
    async with Recovery.connect(replace(settings, redis_url=None)) as recovery:
        return {process_id: found.state for process_id, found in (await recovery.processes()).items()}


async def kept_in_redis(settings: Settings) -> str:
    """All keys and values that a projector writes to Redis for this journal."""
    async with Projector.connect(settings) as projector:
        await projector.catch_up(timeout_s=120)
    assert settings.redis_url is not None
    kept = redis.Redis.from_url(settings.redis_url)
    found: list[Any] = []
    for key in kept.scan_iter(match=f"*{settings.journal}*"):
        if kept.type(key) == b"hash":
            found += [part for pair in kept.hgetall(key).items() for part in pair]
        elif kept.type(key) == b"string":
            found.append(kept.get(key) or b"")
        found += [key, kept.dump(key) or b""]
    kept.close()
    return b"\n".join(found).decode(errors="replace")


def structure(state: Any) -> tuple[Any, ...]:
    """The parts of a state that masks do not change."""
    said = [(m.role, m.content is None, len(m.tool_calls or ())) for m in state.conversation]
    return state.seq, state.epoch, str(state.lifecycle), len(state.context["customer"]), said


async def test_real_runs_are_the_same_in_staging(journal: Settings, caplog: pytest.LogCaptureFixture) -> None:
    """Content hashes are equal, also with more partitions; masked runs have the same structure and no customer data."""
    caplog.set_level(logging.DEBUG)
    runs, gate = load_runs(), asyncio.Semaphore(25)
    customers = set(CUSTOMER.findall(json.dumps(runs)))
    assert len(customers) > 30
    async with Node.connect(journal) as node:
        await asyncio.gather(*(write(node, run, gate) for run in runs))
    expected = await states_of(journal)
    for name, partitions in (("same", journal.partitions), ("wider", 7)):
        into, report = await staged(journal, name, partitions, Plan())
        assert report.checked
        assert report.not_foldable == ()
        found = await states_of(into)
        assert {each: state.content_hash for each, state in found.items()} == {
            each: state.content_hash for each, state in expected.items()
        }
        assert [state.hash for state in found.values()] == [state.hash for state in expected.values()]
    kinds = ["claim", "released", "lifecycle_changed", "message_said", "context_updated"]
    rule = {"kinds": kinds, "regex": CUSTOMER.pattern, "do": "hash"}
    masks = MaskRules.from_dict({"mask": [rule]}, key=bytes(range(32)))
    into, report = await staged(journal, "masked", journal.partitions, Plan(masks=masks))
    found = await states_of(into)
    assert {each: structure(state) for each, state in found.items()} == {
        each: structure(state) for each, state in expected.items()
    }
    redis_text = await kept_in_redis(into)
    assert CUSTOMER.search(await kept_in_redis(replace(journal, journal=f"{journal.journal}-same")))  # it can be found
    values = [
        (message.key() or b"") + (message.value() or b"") for at in range(4) for message in read_records(into, at)
    ]
    text = b"\n".join(values).decode(errors="replace") + caplog.text + json.dumps(report.to_dict())
    assert len(redis_text) > 100_000
    text += redis_text
    assert not [customer for customer in customers if customer in text]
    assert not CUSTOMER.search(text)
