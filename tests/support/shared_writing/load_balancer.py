"""Servers behind a load balancer without sticky routing: each request goes to any of them, and they are killed.

Each answer is checked when it arrives, by what other clients were told before its request began:

- a read contains every write that was acknowledged, and has a seq that is not older;
- a write has a seq of its own, later than all that was acknowledged;
- of several counts that read the same state one succeeds.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

from agent_programs import environment
from seekpoint.schemas.config.settings import Settings

PROGRAM = Path(__file__).parent / "shared_server.py"
_START_S, _ANSWER_S = 60.0, 60.0
"""What only keeps a test from hanging."""


class ServerLost(Exception):
    """The server died before it answered: the outcome is open."""


class Server:
    """One server process."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._reading = asyncio.create_task(self._read())

    @classmethod
    async def start(cls, settings: Settings, node_id: str) -> Server:
        """Start one, and wait until it is ready."""
        process = await asyncio.create_subprocess_exec(
            sys.executable, str(PROGRAM), stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
            env=environment(settings) | {"SEEKPOINT_NODE_ID": node_id}, limit=2**22,
        )  # fmt: skip
        assert process.stdout is not None
        async with asyncio.timeout(_START_S):
            assert await process.stdout.readline() == b"ready\n"
        return cls(process)

    async def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """Send a request; return its answer, or raise ``ServerLost``."""
        assert self.process.stdin is not None
        if self._reading.done():
            raise ServerLost
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._waiting[request["id"]] = answer
        self.process.stdin.write(json.dumps(request).encode() + b"\n")
        async with asyncio.timeout(_ANSWER_S):
            return await answer

    async def kill(self) -> None:
        """Kill it with -9, in the middle of what it does."""
        self.process.kill()
        await self._reading

    async def stop(self) -> None:
        """Let it end by itself."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        await self._reading

    async def _read(self) -> None:
        assert self.process.stdout is not None
        while line := await self.process.stdout.readline():
            said = json.loads(line)
            self._waiting.pop(said["id"]).set_result(said)
        for answer in self._waiting.values():
            answer.set_exception(ServerLost())
        await self.process.wait()


@dataclass
class Told:
    """What clients were told of one thread."""

    keys: set[str] = field(default_factory=set)
    seqs: set[int] = field(default_factory=set)
    counts: int = 0
    open_counts: int = 0
    """Counts whose server was killed."""


@dataclass
class Report:
    """What a run has done and found."""

    requests: int = 0
    lost: int = 0
    conflicts: int = 0
    repeated: int = 0
    kills: int = 0
    errors: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    """What contradicts an earlier answer: empty."""


class LoadBalancer:
    """Sends the requests of some clients to servers at random, and kills one server after another."""

    def __init__(self, settings: Settings, *, servers: int, threads: int, clients: int, seed: int) -> None:
        self.report = Report()
        self._settings = settings
        self._count = servers
        self._threads = [f"thread-{number}" for number in range(threads)]
        self._clients = clients
        self._random = random.Random(seed)
        self._servers: list[Server] = []
        self._told: defaultdict[str, Told] = defaultdict(Told)
        self._next = 0

    async def run(self, for_s: float, kill_every_s: float) -> Report:
        """Return what was done and found, after a last look at every thread by a server that is new."""
        self._servers = [await Server.start(self._settings, f"server-{one}") for one in range(self._count)]
        try:
            ends = time.monotonic() + for_s
            async with asyncio.TaskGroup() as group:
                group.create_task(self._kill(ends, kill_every_s))
                for _ in range(self._clients):
                    group.create_task(self._until(ends, self._request))
            await self._look_again()
        finally:
            await asyncio.gather(*(server.stop() for server in self._servers))
        return self.report

    async def _until(self, ends: float, act: Callable[[], Awaitable[None]]) -> None:
        while time.monotonic() < ends:
            await act()

    async def _kill(self, ends: float, every_s: float) -> None:
        while time.monotonic() + every_s < ends:
            await asyncio.sleep(every_s)
            place = self._random.randrange(len(self._servers))
            killed = self._servers.pop(place)
            await killed.kill()
            self.report.kills += 1
            self._servers.append(await Server.start(self._settings, f"server-{self._count + self.report.kills}"))

    async def _request(self) -> None:
        thread = self._random.choice(self._threads)
        await self._random.choice((self._write, self._count_up, self._read))(thread)

    async def _ask(self, do: str, thread: str, **more: Any) -> dict[str, Any]:
        self._next += 1
        self.report.requests += 1
        said = await self._random.choice(self._servers).ask({"id": self._next, "do": do, "thread": thread, **more})
        if "error" in said:
            self.report.errors.append(said["error"])
        return said

    async def _write(self, thread: str) -> None:
        key, entry_id = f"r-{self._next}-{self._random.getrandbits(32)}", UUID(int=self._random.getrandbits(128)).hex
        before = frozenset(self._told[thread].seqs)
        while True:  # a client repeats a request whose outcome is open, with the same id
            try:
                said = await self._ask("write", thread, key=key, entry_id=entry_id)
            except ServerLost:
                self.report.lost += 1
                continue
            if "error" not in said:
                break
        self.report.repeated += said["is_repeated"]
        self._note_write(thread, said["seq"], before)
        self._told[thread].keys.add(key)

    async def _count_up(self, thread: str) -> None:
        told, before = self._told[thread], frozenset(self._told[thread].seqs)
        try:
            said = await self._ask("count", thread)
        except ServerLost:
            self.report.lost += 1
            told.open_counts += 1
            return
        if "conflict" in said:
            self.report.conflicts += 1
            if said["expected"] < max(before, default=0) or said["conflict"] <= said["expected"]:
                self.report.wrong.append(f"{thread}: {said} after seq {max(before, default=0)}")
        elif "error" in said:
            told.open_counts += 1
        else:
            self._note_write(thread, said["seq"], before)
            told.counts += 1

    def _note_write(self, thread: str, seq: int, before: frozenset[int]) -> None:
        told = self._told[thread]
        if seq in told.seqs or seq <= max(before, default=0):
            self.report.wrong.append(f"{thread}: a write got seq {seq} after {max(before, default=0)}")
        told.seqs.add(seq)

    async def _read(self, thread: str) -> None:
        told = self._told[thread]
        keys, newest, counts = frozenset(told.keys), max(told.seqs, default=0), told.counts
        try:
            said = await self._ask("read", thread)
        except ServerLost:
            self.report.lost += 1
            return
        if "error" not in said:
            self._check_read(thread, said, keys, newest, counts)

    def _check_read(self, thread: str, said: dict[str, Any], keys: frozenset[str], newest: int, counts: int) -> None:
        missing = keys - said["context"].keys()
        if missing or said["seq"] < newest or said["context"].get("count", 0) < counts:
            self.report.wrong.append(f"{thread}: read seq {said['seq']} after {newest}, without {sorted(missing)}")

    async def _look_again(self) -> None:
        fresh = await Server.start(self._settings, "server-last")
        self._servers.append(fresh)
        for thread, told in self._told.items():
            self._next += 1
            said = await fresh.ask({"id": self._next, "do": "read", "thread": thread})
            if "error" in said:
                self.report.wrong.append(f"{thread}: {said['error']}")
                continue
            self._check_read(thread, said, frozenset(told.keys), max(told.seqs, default=0), told.counts)
            count = said["context"].get("count", 0)
            if not told.counts <= count <= told.counts + told.open_counts:
                self.report.wrong.append(f"{thread}: count {count}, acknowledged {told.counts}")
            unknown = said["context"].keys() - told.keys - {"count"}
            if unknown or said["seq"] != len(said["context"].keys() - {"count"}) + count:
                self.report.wrong.append(f"{thread}: seq {said['seq']}, written twice or unknown: {sorted(unknown)}")


def main() -> None:
    """Run it by hand: ``load_balancer.py SECONDS``, with the settings of the environment."""
    balancer = LoadBalancer(Settings.load(), servers=2, threads=1_000, clients=50, seed=int.from_bytes(os.urandom(4)))
    print(asyncio.run(balancer.run(float(sys.argv[1]), 5.0)))


if __name__ == "__main__":
    main()
