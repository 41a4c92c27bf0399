"""Clients of streamable HTTP that go on at another node, with servers that are programs of their own."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
from mcp import Client

from mcp_sessions import Server, Session, begin, start, stop, told
from seekpoint.compose import LocalCluster, create_topics_sync

PROGRAM = "mcp_program"


@pytest.fixture(scope="module")
def journal_url(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A journal in a file, which several programs of a machine share."""
    return f"sqlite:///{tmp_path_factory.mktemp('mcp') / 'journal.db'}"


@pytest.fixture(scope="module")
def servers(journal_url: str) -> Iterator[tuple[Server, Server]]:
    """Two nodes of one journal, which no test kills."""
    both = start(PROGRAM, journal_url), start(PROGRAM, journal_url)
    yield both
    for server in both:
        stop(server)


@pytest.fixture
async def http() -> AsyncIterator[httpx.AsyncClient]:
    """A client without any knowledge of MCP."""
    async with httpx.AsyncClient(timeout=20) as client:
        yield client


def steps(folder: Path, count: int) -> dict[str, Any]:
    """Return the parameters of a call of the tool ``steps``."""
    arguments = {"count": count, "folder": str(folder)}
    return {"name": "steps", "arguments": arguments, "_meta": {"progressToken": "p"}}


def allow(folder: Path, *numbers: int) -> None:
    """Let these steps be reported."""
    for number in numbers:
        (folder / str(number)).touch()


async def call_and_lose(session: Session, url: str, folder: Path, count: int) -> list[tuple[str, Any]]:
    """Call ``steps``, read the first two, and lose the connection. Return the events that arrived."""
    seen: list[tuple[str, Any]] = []
    allow(folder, 1, 2)
    async with session.asking(url, 1, "tools/call", **steps(folder, count)) as events:
        async for one in events:
            seen.append(one)
            if told(seen) == [1, 2]:
                break
    return seen


async def until_stored(session: Session, url: str, last: str, count: int) -> None:
    """Wait until a node has all messages behind an event."""
    async with session.resuming(url, last) as events, asyncio.timeout(15):
        assert len([one async for one in events]) == count


async def kill_and_resume(http: httpx.AsyncClient, first: Server, second: Server, folder: Path) -> None:
    """The client lost the connection at event 2, the rest was stored, then the node is killed."""
    session = await begin(http, first.url)
    seen = await call_and_lose(session, first.url, folder, 4)
    allow(folder, 3, 4)
    await until_stored(session, first.url, seen[-1][0], 3)
    first.kill()
    rest = await session.resumed(second.url, seen[-1][0])
    assert told(rest) == [3, 4, "4 steps"]
    assert len({event_id for event_id, _ in [*seen, *rest]}) == 6
    assert told(await session.resumed(second.url, seen[0][0])) == [1, 2, 3, 4, "4 steps"]
    again = await session.post(second.url, 2, "tools/call", **steps(folder, 1))
    assert told(again) == [1, "1 steps"]


async def test_another_node_answers_after_a_kill(http: httpx.AsyncClient, journal_url: str, tmp_path: Path) -> None:
    """What the client has not got comes from the journal, once and in order, and the session goes on there."""
    first, second = start(PROGRAM, journal_url), start(PROGRAM, journal_url)
    try:
        await kill_and_resume(http, first, second, tmp_path)
    finally:
        stop(first)
        stop(second)


@pytest.mark.cluster
async def test_another_node_answers_on_kafka(http: httpx.AsyncClient, cluster: LocalCluster, tmp_path: Path) -> None:
    """The same with the journal on Kafka."""
    settings = cluster.settings(journal=f"mcp-{uuid4().hex[:8]}", partitions=2)
    create_topics_sync(settings)
    given = {
        "SEEKPOINT_BOOTSTRAP_SERVERS": settings.bootstrap_servers,
        "SEEKPOINT_JOURNAL": settings.journal,
        "SEEKPOINT_REDIS_URL": "none",
        "SEEKPOINT_PARTITIONS": "2",
    }
    first, second = start(PROGRAM, **given), start(PROGRAM, **given)
    try:
        await kill_and_resume(http, first, second, tmp_path)
    finally:
        stop(first)
        stop(second)


async def test_a_stream_goes_on_at_another_node_while_the_tool_runs(
    http: httpx.AsyncClient, servers: tuple[Server, Server], tmp_path: Path
) -> None:
    """The node with the client sends what the node with the tool stores, to the answer."""
    first, second = servers
    session = await begin(http, first.url)
    seen = await call_and_lose(session, first.url, tmp_path, 4)
    rest: list[tuple[str, Any]] = []
    async with session.resuming(second.url, seen[-1][0]) as events, asyncio.timeout(15):
        allow(tmp_path, 3)
        async for one in events:
            rest.append(one)
            if told(rest) == [3]:
                allow(tmp_path, 4)
    assert told(rest) == [3, 4, "4 steps"]


async def test_any_node_takes_any_request(http: httpx.AsyncClient, servers: tuple[Server, Server]) -> None:
    """Without sticky routing; each answer has its request's id."""
    session = await begin(http, servers[0].url)
    for number in range(1, 9):
        given = {"name": "large", "arguments": {"characters": 2 * number}}
        events = await session.post(servers[number % 2].url, f"r-{number}", "tools/call", **given)
        assert events[-1][1]["id"] == f"r-{number}"
        assert told(events) == ["ä\n" * number]


async def test_sessions_do_not_mix(http: httpx.AsyncClient, servers: tuple[Server, Server], tmp_path: Path) -> None:
    """Two clients number their requests alike, and an id of one session is none of the other."""
    first, second = servers
    allow(tmp_path, 1, 2)
    one, other = await begin(http, first.url), await begin(http, first.url)
    mine = await one.post(first.url, 1, "tools/call", **steps(tmp_path, 1))
    theirs = await other.post(first.url, 1, "tools/call", **steps(tmp_path, 2))
    assert told(await one.resumed(second.url, mine[0][0])) == [1, "1 steps"]
    assert told(await other.resumed(second.url, theirs[0][0])) == [1, 2, "2 steps"]
    assert told(await one.resumed(second.url, "999")) == []
    assert told(await one.resumed(second.url, "1")) == []
    assert told(await one.resumed(second.url, "x")) == []


async def test_a_message_of_any_size_is_sent_again(http: httpx.AsyncClient, servers: tuple[Server, Server]) -> None:
    """Also one that is larger than a record of the journal may be."""
    first, second = servers
    session = await begin(http, first.url)
    given = {"name": "large", "arguments": {"characters": 2_000_000}}
    events = await session.post(first.url, 1, "tools/call", **given)
    assert told(events) == ["ä\n" * 1_000_000]
    assert (await session.resumed(second.url, events[0][0])) == events[1:]


async def test_a_session_that_was_ended_is_ended_everywhere(
    http: httpx.AsyncClient, servers: tuple[Server, Server]
) -> None:
    """Both nodes have served it; the end comes to one of them."""
    first, second = servers
    session = await begin(http, first.url)
    for server in servers:
        assert (await session.post(server.url, 1, "tools/list"))[-1][1]["result"]["tools"]
    assert (await http.delete(second.url, headers=session.headers)).status_code == 200
    for server in servers:
        body = {"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {}}
        assert (await http.post(server.url, json=body, headers=session.headers)).status_code == 404
        resumed = {**session.headers, "Last-Event-ID": "2"}
        assert (await http.get(server.url, headers=resumed)).status_code == 404
    unknown = {**session.headers, "Mcp-Session-Id": uuid4().hex}
    assert (await http.post(first.url, json=body, headers=unknown)).status_code == 404


async def test_a_tool_may_let_its_client_poll(
    http: httpx.AsyncClient, servers: tuple[Server, Server], tmp_path: Path
) -> None:
    """It closes the stream and works on; the client comes back, at another node, for the answer."""
    first, second = servers
    session = await begin(http, first.url)
    given = {"name": "polled", "arguments": {"folder": str(tmp_path)}}
    seen = await session.post(first.url, 1, "tools/call", **given)
    assert [message for _, message in seen] == [None]
    async with session.resuming(second.url, seen[0][0]) as events, asyncio.timeout(15):
        (tmp_path / "done").touch()
        assert told([one async for one in events]) == ["polled"]


def until_written(journal_url: str, text: bytes) -> None:
    """Wait until the file of a journal has a text."""
    file, until = Path(journal_url.removeprefix("sqlite:///")), time.monotonic() + 20
    while not any(text in one.read_bytes() for one in file.parent.glob(f"{file.name}*")):
        assert time.monotonic() < until
        time.sleep(0.02)


class Balancer:
    """Forwards connections to one server, and can cut them."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.is_holding = False
        self._open: set[asyncio.StreamWriter] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Forward a connection in both directions."""
        there, back = await asyncio.open_connection("127.0.0.1", self.server.port)
        self._open |= {writer, back}
        await asyncio.gather(self._pass(reader, back, is_answer=False), self._pass(there, writer, is_answer=True))

    async def _pass(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, *, is_answer: bool) -> None:
        with suppress(ConnectionError):
            while data := await source.read(65_536):
                while is_answer and self.is_holding:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
                sink.write(data)
                await sink.drain()
        self._open.discard(sink)
        sink.close()

    def cut(self) -> None:
        """Cut all connections."""
        for writer in self._open:
            writer.transport.abort()
        self._open.clear()
        self.is_holding = False


async def test_the_client_of_the_sdk_gets_its_answer_from_another_node(
    http: httpx.AsyncClient, journal_url: str, tmp_path: Path, servers: tuple[Server, Server]
) -> None:
    """It reconnects by itself through a load balancer, and its call returns as if nothing had happened."""
    doomed = start(PROGRAM, journal_url)
    balancer = Balancer(doomed)
    listening = await asyncio.start_server(balancer.serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/mcp"
    reported: list[float] = []

    async def progress(progress: float, total: float | None, message: str | None) -> None:
        reported.append(progress)

    try:
        async with Client(url, mode="legacy") as client:
            given = {"count": 3, "folder": str(tmp_path)}
            calling = asyncio.create_task(client.call_tool("steps", given, progress_callback=progress))
            allow(tmp_path, 1)
            async with asyncio.timeout(10):
                while reported != [1]:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            balancer.is_holding = True
            allow(tmp_path, 2, 3)
            await asyncio.to_thread(until_written, journal_url, b"3 steps")  # which the client does not get
            doomed.kill()
            balancer.server = servers[0]
            balancer.cut()
            async with asyncio.timeout(15):
                answer = await calling
            assert answer.content[0].text == "3 steps"  # type: ignore[union-attr]
            assert reported == [1, 2, 3]
            assert (await client.call_tool("large", {"characters": 4})).content[0].text == "ä\n" * 2  # type: ignore[union-attr]
    finally:
        balancer.cut()
        listening.close()
        stop(doomed)
