"""Find the process of the code that runs now: what agents do in a durable run is recorded as its calls."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import anyio

from seekpoint import Process
from seekpoint.adapters.pydantic_ai.model_records import MessageRecords
from seekpoint.adapters.run_calls import RunCalls
from seekpoint.errors import Refused


class DurableRun:
    """The things that all runs of agents inside of one ``with durable(process)`` share."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.calls = RunCalls(process)
        self.records = MessageRecords()
        self._loop = asyncio.get_running_loop()
        self.main = _Scope(process.process_id)

    @contextmanager
    def inside(self, key: str) -> Iterator[None]:
        """Mark that the body of the call with the idempotency key ``key`` runs."""
        token = _scope.set(_Scope(key))
        try:
            yield
        finally:
            _scope.reset(token)

    @property
    def is_in_body(self) -> bool:
        """Whether the body of a recorded call runs: its result is recorded as a whole."""
        return _scope.get() is not None

    def next_run_id(self) -> str:
        """Return the id of the next run of an agent here: the same one when the code runs again."""
        return (_scope.get() or self.main).next_run_id()

    async def sleep(self, seconds: float) -> None:
        """Sleep; outside of bodies until a recorded time."""
        if self.is_in_body:
            await anyio.sleep(max(seconds, 0))
        else:
            await self.process.sleep(max(seconds, 0))

    def check_loop(self) -> None:
        """Raise ``Refused`` in another event loop than that of the process."""
        if asyncio.get_running_loop() is not self._loop:
            raise Refused(
                "a durable run has one event loop", process_id=self.process.process_id,
                hint="make the function async, and await agent.run instead of calling agent.run_sync",
            )  # fmt: skip


class _Scope:
    """The code of the process, or the body of one call. Runs of agents are counted in each."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._runs = 0

    def next_run_id(self) -> str:
        self._runs += 1
        return f"{self._name}/run:{self._runs}"


_current: ContextVar[DurableRun | None] = ContextVar("seekpoint_durable_run", default=None)
_scope: ContextVar[_Scope | None] = ContextVar("seekpoint_run_scope", default=None)
"""The body that runs; None in the code of the process."""


def current_run() -> DurableRun | None:
    """Return the durable run that this code is in; None outside of all."""
    return _current.get()


@contextmanager
def entered(run: DurableRun) -> Iterator[None]:
    """Make ``run`` the durable run of the code within."""
    token, outer = _current.set(run), _scope.set(None)
    try:
        yield
    finally:
        _scope.reset(outer)
        _current.reset(token)
