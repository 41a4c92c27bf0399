"""Heartbeats: a node publishes that it is alive and what it owns, and watches the other nodes (rule O6).

A heartbeat is a hint, never a guard: the log alone decides who owns a process. A thread repeats the last heartbeat
while the event loop stands still, and each carries how often the loop was seen to turn.
"""

from __future__ import annotations

import asyncio
import logging
import math
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import replace
from functools import partial

from seekpoint.consumers.heartbeats.host import this_process
from seekpoint.consumers.heartbeats.liveness import Heartbeat, Heartbeats, Liveness, WorkerStatus
from seekpoint.producers.writer.handle import Handle
from seekpoint.producers.writer.identity import Identity
from seekpoint.schemas.config.error_texts import traceback_of
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.errors import SeekpointError
from seekpoint.schemas.log.log_ports import LogReader

logger = logging.getLogger("seekpoint.producers")

_STILL_S = 1.0
"""How long the event loop has to stand still, and two intervals at least, until the log says what blocks it."""
_PATIENCE_S = 0.25
_LEAVE_S = 3.0
"""How long a close waits for Kafka to take the withdrawal, which is only a hint to other nodes."""


class Heartbeater:
    """The heartbeats of one node, every ``heartbeat_interval_s`` and soon after a claim."""

    def __init__(
        self,
        reader: LogReader,
        executor: Executor,
        handles: Callable[[], Iterable[Handle]],
        identity: Identity,
        settings: Settings,
    ) -> None:
        self._executor = executor
        self._settings = settings
        self._handles = handles
        self._identity = identity
        self._interval_s = settings.heartbeat_interval_s
        self._store = Heartbeats(reader, settings)
        self.liveness = Liveness(self._store, settings.owner_timeout_s, loop_timeout_s=settings.loop_timeout_s)
        self.worker: Callable[[], WorkerStatus] | None = None
        """What the worker on this node says of itself."""
        self._claiming: set[bytes] = set()
        self._one_look = asyncio.Lock()
        self._looks = self._looked = 0
        """The numbers of the last look that began, and of the last one that succeeded."""
        self._wake = asyncio.Event()
        self._next: asyncio.Future[None]
        self._beats = self._asked = self._turns = 0
        """How many heartbeats were published; how often the thread asked the event loop to turn, and it did."""
        self._last: tuple[Heartbeat, float] | None = None
        """What the event loop published last, and when a heartbeat was published."""
        self._publishing = threading.Lock()
        self._is_over = threading.Event()
        self._unanswered_max = max(2, math.ceil(_STILL_S / self._interval_s))
        self.loop_stalls = 0
        """How often the event loop stood still for two intervals or longer."""
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Begin to publish heartbeats and to watch those of other nodes."""
        self._next = asyncio.get_running_loop().create_future()
        self._tasks = [
            asyncio.create_task(self._go_on(), name="seekpoint-heartbeats"),
            asyncio.create_task(self._watch(), name="seekpoint-watch"),
        ]
        beating = partial(self._beat_on, asyncio.get_running_loop(), threading.get_ident())
        threading.Thread(target=beating, name="seekpoint-heartbeats", daemon=True).start()

    async def close(self) -> None:
        """Stop, and withdraw the heartbeat: processes that this node left claimed are free at once."""
        self._is_over.set()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)
            try:
                async with asyncio.timeout(_LEAVE_S):
                    await asyncio.get_running_loop().run_in_executor(
                        self._executor, self._store.withdraw, self._identity.node_id
                    )
            except (SeekpointError, TimeoutError) as exc:
                logger.warning("the heartbeat was not withdrawn: %s", exc or f"no answer in {_LEAVE_S:g} s")
        self._store.close()

    async def claiming(self, claim_id: bytes) -> None:
        """Name a claim that is about to be sent in the heartbeat: without that, it looks free to other nodes.

        Returns once the heartbeat is published, or after a short wait: a hint is not worth a delay.
        """
        self._claiming.add(claim_id)
        self._wake.set()
        try:
            async with asyncio.timeout(_PATIENCE_S):
                await asyncio.shield(self._next)
        except TimeoutError:
            logger.info("claiming before the heartbeat that names the claim was published")

    def claimed(self, claim_id: bytes) -> None:
        """Stop naming a claim that is decided. If it won, an open handle names it from here on."""
        self._claiming.discard(claim_id)

    def _claims(self) -> list[bytes]:
        mine = [claim for handle in self._handles() for claim in (handle.claim_id, *handle.healing_claims)]
        return [*mine, *self._claiming]

    async def _go_on(self) -> None:
        while True:
            self._wake.clear()
            published, self._next = self._next, asyncio.get_running_loop().create_future()
            try:
                await self._run(self._publish, self._heartbeat())
            except Exception as exc:  # the thread repeats the last one until the next beat goes well
                logger.error("no heartbeat: %s", traceback_of(exc, self._settings))
            published.set_result(None)
            try:
                async with asyncio.timeout(self._interval_s):
                    await self._wake.wait()
            except TimeoutError:
                continue

    def _publish(self, heartbeat: Heartbeat | None) -> None:
        """Publish what the event loop says; None: what it said last, unless a heartbeat was published just now."""
        with self._publishing:
            now_s = time.monotonic()
            if heartbeat is None:
                if self._last is None or now_s - self._last[1] < self._interval_s:
                    return
                heartbeat = self._last[0]
            self._beats += 1
            heartbeat = replace(heartbeat, beat=self._beats, turns=self._turns)
            self._last = heartbeat, now_s
            try:
                self._store.publish(heartbeat)
            except SeekpointError as exc:
                logger.warning("no heartbeat: %s", exc)
            except Exception as exc:  # a node that is silent looks dead: the next beat may go well
                logger.error("no heartbeat: %s", traceback_of(exc, self._settings))

    def _beat_on(self, loop: asyncio.AbstractEventLoop, thread: int) -> None:
        """Publish heartbeats while the event loop, which runs in ``thread``, stands still, and say what blocks it."""
        while not self._is_over.wait(self._interval_s) and not loop.is_closed():
            if self._asked - self._turns == self._unanswered_max:
                self.loop_stalls += 1
                stack = "".join(traceback.format_stack(sys._current_frames().get(thread)))
                logger.error("the event loop stands still; it is in:\n%s", stack)
            self._asked += 1
            with suppress(RuntimeError):  # the event loop was closed
                loop.call_soon_threadsafe(self._turn)
            self._publish(None)

    def _turn(self) -> None:
        self._turns = self._asked

    async def _watch(self) -> None:
        """Watch in a task of its own: a Redis that hangs must not stop the heartbeat."""
        while True:
            await asyncio.sleep(self._interval_s / 2)
            try:
                await self._run(self._mirror_and_observe, self._heartbeat())
            except SeekpointError as exc:
                logger.warning("the others' heartbeats are not seen: %s", exc)
            except Exception as exc:  # as above
                logger.error("the others' heartbeats are not seen: %s", traceback_of(exc, self._settings))

    def _mirror_and_observe(self, heartbeat: Heartbeat) -> None:
        self._store.mirror(heartbeat)
        self.liveness.observe()

    def _heartbeat(self) -> Heartbeat:
        identity, claims = self._identity, tuple(self._claims())
        worker = None if self.worker is None else self.worker()
        return Heartbeat(
            identity.node_id, identity.boot_id, claims, self._beats,
            process=this_process(), worker=worker, turns=self._turns,
        )  # fmt: skip

    def publish_soon(self) -> None:
        """Publish the next heartbeat now: what the worker says of itself has changed."""
        self._wake.set()

    async def look(self) -> None:
        """Read the other nodes' heartbeats as of now. Calls during a look share the next one."""
        asked = self._looks
        async with self._one_look:
            if self._looked > asked:  # it began after this call
                return
            number = self._looks = self._looks + 1
            await self._run(self.liveness.observe)
            self._looked = number

    async def _run(self, call: Callable[..., None], *arguments: object) -> None:
        await asyncio.get_running_loop().run_in_executor(self._executor, call, *arguments)
