"""``seekpoint gates | signal | approve | deny | cancel | shared`` on a real Kafka."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest

from seekpoint.compose import LocalCluster, create_topics_sync
from seekpoint.producers import Node, Process, agent
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.errors import Cancelled
from shells import Shell

pytestmark = pytest.mark.cluster


@pytest.fixture
def waits(cluster: LocalCluster) -> Settings:
    settings = cluster.settings(journal=f"waits-{uuid4().hex[:8]}", partitions=2)
    create_topics_sync(settings)
    return settings


@agent("asker")
async def asker(process: Process, input: Any) -> Any:
    """Asks twice."""
    first = await process.gate("refund", prompt={"amount": 12}, timeout=3_600)
    second = await process.gate("note")
    return [first.outcome, first.actor, first.reason, second.payload, (await process.shared("rate").get()).value]


async def leave_at_a_gate(settings: Settings, process_id: str) -> None:
    """Run it until it waits, and leave it so."""
    async with Node.connect(settings) as node:
        run = asyncio.create_task(node.run(asker, process_id))
        async with asyncio.timeout(60):
            while not any(call.status == "started" for call in await calls(node, process_id)):  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        run.cancel()
        await asyncio.wait([run])


async def calls(node: Node, process_id: str) -> Any:
    return (await node.recover(process_id, missing_ok=True)).state.calls.values()


async def resume(settings: Settings, process_id: str) -> Any:
    async with Node.connect(settings) as node, asyncio.timeout(60):
        return await node.run(asker, process_id)


def test_gates_are_listed_and_answered(waits: Settings, shell: Shell, point_at: Callable[[Settings], None]) -> None:
    """Listed with prompt and deadline; a yes with who and why; a signal with a payload; a value that is shared."""
    point_at(waits)
    assert shell("gates", "ls").code == 0
    asyncio.run(leave_at_a_gate(waits, "p"))
    (gate,) = shell("gates", "ls", "--json").json["gates"]
    assert (gate["process_id"], gate["key"], gate["name"], gate["prompt"]) == (
        "p",
        "refund:1",
        "refund",
        {"amount": 12},
    )
    assert gate["deadline"].endswith("+00:00")
    assert "refund:1" in shell("gates", "ls", "p").out
    refused = shell("deny", "p", "nothing", "--actor", "eve")
    assert (refused.code, "open=refund:1" in refused.err) == (4, True)
    approved = shell("approve", "p", "refund", "--actor", "ann", "--reason", "he is right", "--json")
    assert (approved.code, approved.json["prompt"], approved.json["deadline"]) == (0, {"amount": 12}, gate["deadline"])
    assert approved.json["since"] < gate["deadline"]
    second = shell("deny", "p", "refund", "--actor", "eve")
    assert (second.code, "answered already" in second.err, "actor=ann" in second.err) == (4, True, True)
    assert shell("signal", "p", "note", "--payload", '{"n": 1}', "--actor", "bob").code == 4
    note = ("signal", "p", "note", "--payload", '{"n": 1}', "--actor", "bob", "--in-advance")
    assert shell(*note).code == 0
    assert shell("signal", "p", "note", "--payload", "{").code == 2
    assert shell("signal", "later", "go", "--actor", "bob").code == 1
    assert "no such process" in shell("signal", "later", "go", "--actor", "bob", "--in-advance").err
    assert shell("shared", "set", "rate", "1.5", "--expected-version", "0", "--actor", "ann").code == 0
    assert shell("shared", "set", "rate", "2", "--expected-version", "0", "--actor", "ann").code == 4
    assert shell("shared", "get", "rate").out.strip() == "1.5"
    assert shell("shared", "get", "none", "--json").json == {"name": "none", "version": 0, "value": None}
    assert shell("shared", "ls", "--json").json["shared"] == [{"name": "rate", "version": 1, "value": 1.5}]
    assert asyncio.run(resume(waits, "p")) == ["approved", "ann", "he is right", {"n": 1}, 1.5]
    assert shell("approve", "p", "refund", "--actor", "ann").code == 4


def test_a_process_is_cancelled(waits: Settings, shell: Shell, point_at: Callable[[Settings], None]) -> None:
    """By its reason; it stops when it is run, once; one that is not there is not cancelled."""
    point_at(waits)
    asyncio.run(leave_at_a_gate(waits, "p"))
    asked = shell("cancel", "p", "--reason", "sold out", "--actor", "ann")
    assert asked.code == 0
    assert "p: asked to stop, as ann; it has no owner and stops when it is run" in asked.err
    with pytest.raises(Cancelled, match="sold out"):
        asyncio.run(resume(waits, "p"))
    assert "is already cancelled; it is stopped" in shell("cancel", "p").err
    assert shell("gates", "ls", "--json").json["gates"] == []
    assert shell("cancel", "nobody").code == 1
