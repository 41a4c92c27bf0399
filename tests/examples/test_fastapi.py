"""The example of a web API: what it answers, with a worker beside it and without one."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from refund_agents import refund
from refund_api import create_app
from seekpoint.producers import Client, Worker, agent
from seekpoint.schemas import MemoryLog
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.errors import JournalUnavailable

SMALL, LARGE = "4711", "4711-A"
README = Path(__file__).parents[2] / "examples" / "fastapi" / "README.md"


@asynccontextmanager
async def serving(client: Client) -> AsyncIterator[httpx.AsyncClient]:
    """The application between its start and its shutdown."""
    app = create_app(lambda: client)
    transport = httpx.ASGITransport(app=app)
    async with app.router.lifespan_context(app), httpx.AsyncClient(transport=transport, base_url="http://shop") as http:
        yield http


@pytest.fixture
def log() -> MemoryLog:
    return MemoryLog()


@pytest.fixture
async def http(log: MemoryLog) -> AsyncIterator[httpx.AsyncClient]:
    async with serving(Client.in_memory(log)) as made:
        yield made


@asynccontextmanager
async def working(log: MemoryLog, *agents: Any) -> AsyncIterator[Worker]:
    async with Worker.in_memory(agents or [refund], log, grace_s=0.1, drain_s=1.0) as worker:
        yield worker


async def _waiting_for_approval(http: httpx.AsyncClient) -> None:
    await http.post("/refunds", json={"order": LARGE})
    async with asyncio.timeout(20):
        while (await http.get(f"/refunds/{LARGE}?wait=1")).json().get("waits_for") != ["approve:1"]:
            pass


async def test_a_submitted_refund_is_answered_once_it_ended(log: MemoryLog, http: httpx.AsyncClient) -> None:
    """The POST returns at once and names where to look; the GET waits for the result."""
    submitted = await http.post("/refunds", json={"order": SMALL})
    assert (submitted.status_code, submitted.json()["stage"]) == (202, "submitted")
    async with working(log):
        found = await http.get(submitted.headers["Location"])
    assert found.status_code == 200
    assert found.json() == {
        "id": SMALL, "stage": "finished", "waits_for": [], "result": {"refunded": 80}, "failure": None
    }  # fmt: skip


async def test_the_same_request_twice_is_one_refund(log: MemoryLog, http: httpx.AsyncClient) -> None:
    """By its key, else by its order. The key of another request is refused."""
    async with working(log) as worker:
        for _ in range(3):
            assert (await http.post("/refunds", json={"order": SMALL})).status_code == 202
            assert (await http.get(f"/refunds/{SMALL}")).status_code == 200
        keyed = {"Idempotency-Key": "key-1"}
        assert (await http.post("/refunds", json={"order": SMALL}, headers=keyed)).json()["id"] == "key-1"
        assert (await http.get("/refunds/key-1")).status_code == 200
        async with asyncio.timeout(20):
            while worker.finished < 2:  # noqa: ASYNC110  # it counts a run just after its result is in the log
                await asyncio.sleep(0.01)
        assert worker.finished == 2
        other = await http.post("/refunds", json={"order": LARGE}, headers=keyed)
        assert (other.status_code, other.json()["error"]) == (409, "AgentMismatch")


async def test_a_large_refund_waits_for_its_approval(log: MemoryLog, http: httpx.AsyncClient) -> None:
    """The GET says what it waits for, and when to ask again; a second approval is refused."""
    async with working(log):
        await _waiting_for_approval(http)
        pending = await http.get(f"/refunds/{LARGE}?wait=1")
        assert (pending.status_code, pending.json()["stage"], pending.headers["Retry-After"]) == (202, "awaiting", "1")
        approved = await http.post(f"/refunds/{LARGE}/approve", json={"by": "ann"})
        assert approved.status_code == 202
        ended = await http.get(f"/refunds/{LARGE}")
        assert (ended.status_code, ended.json()["result"]) == (200, {"refunded": 120})
        again = await http.post(f"/refunds/{LARGE}/approve", json={"by": "ann"})
        assert again.status_code == 409
        assert again.json()["error"] in ("GateNotOpen", "ProcessFinished")  # the run may just have ended


async def test_an_unknown_refund_is_not_found(http: httpx.AsyncClient) -> None:
    """Neither its result nor its gate."""
    assert (await http.get("/refunds/nothing?wait=1")).status_code == 404
    approved = await http.post("/refunds/nothing/approve", json={"by": "ann"})
    assert (approved.status_code, approved.json()["error"]) == (404, "UnknownProcess")


async def test_a_failed_refund_is_answered_with_its_failure(log: MemoryLog, http: httpx.AsyncClient) -> None:
    """It is over, so that a client need not ask again."""

    @agent("refund")
    async def broken(process: Any, order: Any) -> None:
        raise ValueError("no such account")

    async with working(log, broken):
        await http.post("/refunds", json={"order": SMALL})
        found = await http.get(f"/refunds/{SMALL}")
    assert (found.status_code, found.json()["stage"]) == (200, "failed")
    assert found.json()["failure"] == "ValueError: no such account"


@pytest.mark.parametrize(
    ("body", "headers"), [({}, {}), ({"order": "a/b"}, {}), ({"order": SMALL}, {"Idempotency-Key": "a/b"})]
)
async def test_a_request_that_is_not_valid_is_refused(
    http: httpx.AsyncClient, body: dict[str, str], headers: dict[str, str]
) -> None:
    """Before anything is submitted."""
    assert (await http.post("/refunds", json=body, headers=headers)).status_code == 422


async def test_a_kafka_that_does_not_answer_is_a_503(
    log: MemoryLog, http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same request may be sent again."""

    async def silent(*_: Any, **__: Any) -> None:
        raise JournalUnavailable("Kafka does not answer")

    monkeypatch.setattr(Client, "submit", silent)
    refused = await http.post("/refunds", json={"order": SMALL})
    assert (refused.status_code, refused.headers["Retry-After"]) == (503, "1")


async def test_the_application_closes_its_client_when_it_shuts_down(log: MemoryLog) -> None:
    """Also when a request waits at that moment."""
    client = Client.in_memory(log)
    async with serving(client) as http:
        waiting = asyncio.create_task(http.get("/refunds/nothing?wait=60"))
        await asyncio.sleep(0.1)
        waiting.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await waiting
    assert client._runtime.outbox._closed
    assert client._runtime.tailer._is_closed


def test_the_readme_lists_the_codes() -> None:
    """Those of the table of errors are in its table of answers."""
    import refund_api

    text = README.read_text()
    assert all(str(code) in text for code in {200, 202, *refund_api._HTTP_CODES.values()})


@pytest.mark.cluster
async def test_a_refund_goes_through_kafka(journal: Settings) -> None:
    """The application on a client of its own, and a worker, on the same journal."""
    async with serving(Client.connect(journal)) as http, Worker([refund], journal, grace_s=0.1, drain_s=1.0):
        await _waiting_for_approval(http)
        assert (await http.post(f"/refunds/{LARGE}/approve", json={"by": "ann"})).status_code == 202
        ended = await http.get(f"/refunds/{LARGE}?wait=30")
        assert (ended.status_code, ended.json()["result"]) == (200, {"refunded": 120})
