"""The shared processes of one node: their claims are kept while no other node asks for them, up to a limit."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from contextlib import suppress
from typing import TYPE_CHECKING

from seekpoint.producers.durable.waits.shared_values import check_ownable
from seekpoint.producers.node_runtime import NodeRuntime
from seekpoint.producers.opening import Opener
from seekpoint.producers.shared_writing.append_request import Appended, AppendRequest, check_body, check_options
from seekpoint.producers.shared_writing.shared_appends import SharedAppends
from seekpoint.producers.tail.tailer import not_started
from seekpoint.producers.writer.pending import Cause
from seekpoint.schemas.bodies.entry import new_id
from seekpoint.schemas.errors import HandleClosed, SeekpointError

if TYPE_CHECKING:
    from seekpoint.schemas.bodies import Body
    from seekpoint.schemas.state.process_state import State

__all__ = ["SharedWrites"]

KEPT_MAX, KEPT_BYTES_MAX = 1_000, 268_435_456
"""How many processes a node keeps claimed or followed, and how many bytes their states may have together."""


class SharedWrites:
    """The shared writing of one node, for its event loop."""

    def __init__(self, runtime: NodeRuntime, opener: Opener) -> None:
        self._runtime = runtime
        self._opener = opener
        self._kept: OrderedDict[str, SharedAppends] = OrderedDict()
        """The processes, the one used last at the end."""
        self._is_closed = False

    async def append(
        self, process_id: str, body: Body, expected_seq: int | None, entry_id: bytes | None, cause: Cause, *,
        is_checked: bool = False,
    ) -> Appended:  # fmt: skip
        """Append an entry; return once it is confirmed. See ``Node.append``.

        ``is_checked``: the content calls have made ``body``, so its values are canonical JSON.
        """
        check_options(process_id, expected_seq, entry_id)
        appends = self._of(process_id)
        if not is_checked:
            check_body(body, process_id, self._runtime.reader.limits)
        loop = asyncio.get_running_loop()
        request = AppendRequest(
            body=body, entry_id=entry_id or new_id(), has_own_id=entry_id is not None, expected_seq=expected_seq,
            cause=cause, future=loop.create_future(), deadline=loop.time() + self._runtime.settings.append_timeout_s,
        )  # fmt: skip
        appends.submit(request)
        return await request.future

    async def read(self, process_id: str) -> State:
        """Return the state of a process as of now."""
        return await self._of(process_id).claim.read()

    async def read_followed(self, process_id: str) -> State | None:
        """Return the state of a process as of now, if this node follows it; else None."""
        appends = self._kept.get(process_id)
        with suppress(SeekpointError):  # it stopped following: a recovery tells what is wrong
            if appends is not None and appends.claim.followed() is not None:
                return await appends.claim.read()
        return None

    def known(self, process_id: str) -> State | None:
        """Return the newest state of a process that this node has read; None if it does not follow the process."""
        appends = self._kept.get(process_id)
        draft = None if appends is None else appends.claim.followed()
        return None if draft is None else draft.snapshot()

    def _of(self, process_id: str) -> SharedAppends:
        check_ownable(process_id)
        if self._is_closed:
            raise HandleClosed("the node was closed", hint="use a node that is open")
        if not self._runtime.is_started:
            raise not_started()
        self._runtime.tailer.check_loop()
        appends = self._kept.get(process_id)
        if appends is None:
            self._make_room()
            appends = self._kept[process_id] = SharedAppends(process_id, self._runtime, self._opener)
        self._kept.move_to_end(process_id)
        return appends

    def _make_room(self) -> None:
        """Drop the processes that were not used for longest, and that are idle: every node may claim them."""
        count, width = len(self._kept), sum(one.width for one in self._kept.values())
        for process_id, appends in list(self._kept.items()):
            if count < KEPT_MAX and width <= KEPT_BYTES_MAX:
                return
            if appends.is_idle:
                count, width = count - 1, width - appends.width
                appends.drop()
                del self._kept[process_id]

    async def let_go(self, process_id: str) -> None:
        """Drop the claim of a process once nothing of it is under way: this node opens the process for one owner."""
        appends = self._kept.get(process_id)
        if appends is not None:
            await appends.let_go()

    async def close(self) -> None:
        """Wait for the appends under way for the drain time, then end them."""
        self._is_closed = True
        tasks = [one.task for one in self._kept.values() if one.task is not None and not one.task.done()]
        if tasks:
            await asyncio.wait(tasks, timeout=self._runtime.settings.producer_drain_s)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
