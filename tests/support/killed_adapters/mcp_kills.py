"""Kill a server of MCP with -9 at random while a client calls its tool, resumes, and calls again; check its ledger.

The program is ``mcp_shop_program``. The client goes on behind the last event that it has got, at a new program, until
it has all events of the call that were acknowledged. If the answer is not among them, it makes the call again.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

import httpx

from mcp_sessions import Server, Session, begin, start, told
from mcp_shop_program import PARTS
from seekpoint import SyncNode

__all__ = ["KilledServers", "call_with_kills"]

_LIMIT_S = 60.0


@dataclass
class KilledServers:
    """What the client got, and what is wrong by the ledger and the journal."""

    kills: int = 0
    orders: int = 0
    resumed: int = 0
    """The events that came from the journal, behind one that the client had."""
    repeated: int = 0
    """The steps that were in flight at a kill, and were made again."""
    unknown: int = 0
    """How often the tool could not tell whether a payment was made."""
    first_events_s: list[float] = field(default_factory=list)
    """The times from each program that listened to the next event that the client got."""
    wrong: list[str] = field(default_factory=list)


async def call_with_kills(journal_url: str, folder: Path, *, kills: int, seed: int) -> KilledServers:
    """Call the tool until so many servers were killed, and once more; compare all that was told with the journal."""
    async with httpx.AsyncClient(timeout=_LIMIT_S) as http:
        client = _Client(http, journal_url, folder / "ledger", kills, random.Random(seed))
        await client.call_all()
    client.check()
    return client.run


class _Client:
    """The client of one session."""

    def __init__(
        self, http: httpx.AsyncClient, journal_url: str, ledger: Path, kills: int, chance: random.Random
    ) -> None:
        self.run = KilledServers()
        self._http = http
        self._journal_url = journal_url
        self._ledger = ledger
        self._kills = kills
        self._chance = chance
        self._server: Server
        self._session: Session
        self._killing: asyncio.Task[None] | None = None
        self._listened_at: float | None = None
        self._events: dict[str, list[tuple[str, Any]]] = {}
        """What came of each request."""

    async def call_all(self) -> None:
        """Give one order after the other."""
        await self._start()
        try:
            self._session = await begin(self._http, self._server.url)
            self._doom()
            while self.run.kills < self._kills or not self.run.orders:
                await self._order(self.run.orders)
                self.run.orders += 1
        finally:
            if self._killing is not None:
                self._killing.cancel()
            self._server.kill()

    async def _order(self, number: int) -> None:
        for attempt in range(self._kills + 2):
            request = f"r{number}-{attempt}"
            self._events[request] = []
            if await self._has_answer(request, number):
                return
        raise AssertionError(f"the order {number} is never answered")

    async def _has_answer(self, request: str, number: int) -> bool:
        """Call the tool, and go on with its stream, also at new servers; return whether the answer came.

        The client may lose its connection before: the tool goes on meanwhile, and its events are in the journal only.
        """
        events, caller = self._events[request], self._server
        arguments = {"number": number, "request": request}
        given = {"name": "order", "arguments": arguments, "_meta": {"progressToken": request}}
        lost_after = self._chance.choice([1, 2, 3, PARTS + 3])
        try:
            async with self._session.asking(caller.url, request, "tools/call", **given) as coming:
                async for one in coming:
                    self._take(events, one)
                    if len(events) == lost_after:
                        break
            await asyncio.sleep(self._chance.uniform(0.0, 0.1))
        except httpx.TransportError:
            await self._restart()
        while not _is_answered(events) and events and (self._server is caller or self._missing(request)):
            try:
                async with self._session.resuming(self._server.url, events[-1][0]) as coming:
                    async for one in coming:
                        self._take(events, one)
                        self.run.resumed += 1
                        if self._server is not caller and not self._missing(request):
                            break
            except httpx.TransportError:
                await self._restart()
        return _is_answered(events)

    def _take(self, events: list[tuple[str, Any]], one: tuple[str, Any]) -> None:
        if self._listened_at is not None:
            self.run.first_events_s.append(time.monotonic() - self._listened_at)
            self._listened_at = None
        events.append(one)

    def _missing(self, request: str) -> set[str]:
        """Return the ids of events that were acknowledged, and that the client does not have."""
        return self._acknowledged().get(request, set()) - {event_id for event_id, _ in self._events[request]}

    def _acknowledged(self) -> dict[str, set[str]]:
        found: dict[str, set[str]] = {}
        for _, call in self._calls():
            if call.startswith("stored-"):
                stream, _, event_id = call.removeprefix("stored-").partition("/")
                found.setdefault(stream, set()).add(event_id)
        return found

    def _calls(self) -> Iterator[tuple[str, str]]:
        """Yield program and call of each whole line of the ledger."""
        text = self._ledger.read_text() if self._ledger.exists() else ""
        for line in text[: text.rfind("\n") + 1].splitlines():
            pid, call, _ = line.split()
            yield pid, call

    # --- servers
    async def _start(self) -> None:
        self._server = await asyncio.to_thread(start, "mcp_shop_program", str(self._ledger), self._journal_url)

    async def _restart(self) -> None:
        """Start a new server once the old one is dead."""
        assert self._killing is not None, "the connection was lost, and nobody was killed"
        await asyncio.wait_for(self._killing, _LIMIT_S)
        await self._start()
        self._listened_at = time.monotonic()
        self._doom()

    def _doom(self) -> None:
        """Kill the server some lines of the ledger later, or while the client resumes."""
        self._killing = asyncio.create_task(self._kill(self._server)) if self.run.kills < self._kills else None

    async def _kill(self, server: Server) -> None:
        if self.run.kills and self._chance.random() < 0.25:
            await asyncio.sleep(self._chance.uniform(0.0, 0.1))
        else:
            lines = sum(1 for _ in self._calls()) + self._chance.randint(1, 3 * (PARTS + 3))
            while sum(1 for _ in self._calls()) < lines:  # noqa: ASYNC110
                await asyncio.sleep(0.002)
            await asyncio.sleep(self._chance.uniform(0.0, 0.02))
        server.kill()
        self.run.kills += 1

    # --- checks
    def check(self) -> None:
        """Compare what came with the journal, and what was done with the ledger."""
        with SyncNode.local(self._journal_url.removeprefix("sqlite:///")) as node:
            stored = _streams(node, f"mcp/{self._session.id}")
        acknowledged = self._acknowledged()
        for request, events in self._events.items():
            self._check_stream(request, [event_id for event_id, _ in events], stored, acknowledged)
            self._check_told(request, told(events))
        self._check_work(list(self._calls()))

    def _check_stream(
        self, request: str, got: list[str], stored: Mapping[str, list[str]], acknowledged: Mapping[str, set[str]]
    ) -> None:
        """Each event came once and in order, and none that was acknowledged is lost."""
        there, known = stored.get(request, []), acknowledged.get(request, set())
        if got != there[: len(got)]:
            self.run.wrong.append(f"{request}: {got} came of {there}")
        if got and known - set(got):
            self.run.wrong.append(f"{request}: {sorted(known - set(got))} never came")
        if known - set(there) or len(there) > len(known) + 1:
            self.run.wrong.append(f"{request}: the journal has {there}, acknowledged were {sorted(known)}")

    def _check_told(self, request: str, said: list[Any]) -> None:
        number = request.partition("-")[0].removeprefix("r")
        whole = [*range(1, PARTS + 1), f"paid {number}"]
        if said and said[-1] == f"unknown {number}":
            self.run.unknown += 1
            whole[-1] = said[-1]
        if said != whole[: len(said)]:
            self.run.wrong.append(f"{request}: the client was told {said}")

    def _check_work(self, calls: list[tuple[str, str]]) -> None:
        """A tool runs once for each request, a step again if it was in flight at a kill, a payment never again."""
        made, in_flight = Counter[str](), ""
        for pid, group in groupby(calls, key=lambda row: row[0]):
            here = [call for _, call in group if not call.startswith("stored-")]
            for call in here:
                if made[call] and not (call == in_flight and call.startswith("look")):
                    self.run.wrong.append(f"the program {pid} made {call} again")
                self.run.repeated += made[call] > 0
                made[call] += 1
            in_flight = here[-1] if here else in_flight
        for number in range(self.run.orders):
            [answer] = self._answers(number)
            if answer == f"paid {number}" and made[f"pay-{number}"] != 1:
                self.run.wrong.append(f"the order {number} was paid {made[f'pay-{number}']} times")
        if self.run.repeated + self.run.unknown > self.run.kills:
            self.run.wrong.append(f"more was repeated, or unknown, than servers were killed: {self.run}")

    def _answers(self, number: int) -> list[Any]:
        of = [events for request, events in self._events.items() if request.startswith(f"r{number}-")]
        return [told(events)[-1] for events in of if _is_answered(events)]


def _is_answered(events: list[tuple[str, Any]]) -> bool:
    return bool(events) and events[-1][1] is not None and "result" in events[-1][1]


def _streams(node: SyncNode, process_id: str) -> dict[str, list[str]]:
    """Return the ids of the events of each stream, as the journal has them."""
    found: dict[str, list[str]] = {}
    for record in node.records(process_id, kinds=("mcp_event",)):
        found.setdefault(record.payload["stream"], []).append(str(record.seq))
    return found
