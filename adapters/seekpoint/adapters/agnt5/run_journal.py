"""The process of one run: its activations, and the entries that change them.

One node owns the process while it executes the run. So what this program knows of the activations is what is true,
until a call says that another node owns the process now.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from hashlib import blake2b
from typing import Any
from urllib.parse import quote

from agnt5.exceptions import ActivationError, DurableSleepSuspension

from seekpoint import Node, Process, Ref, State
from seekpoint.adapters.agnt5.activation_records import PREFIX, Activation, Lease, Payload, Status, payload_of

_ID_BYTES_MAX, _HASH_BYTES = 200, 16
_CANCEL = "cancel_requested"
_NO_REASON = "the run was cancelled"
CANCELLED = "cancelled"
"""The context key of the reason for which a run was cancelled."""


def process_id_of(prefix: str, project_id: str, run_id: str) -> str:
    """Return the id of a run's process. One that is too long is cut, and ends with a hash of the whole.

    >>> process_id_of("agnt5", "shop", "order/17")
    'agnt5/shop/order%2F17'
    """
    name = "/".join((prefix, *(quote(part, safe=":@+,;=").replace("~", "%7E") for part in (project_id, run_id))))
    if len(name) <= _ID_BYTES_MAX:
        return name
    digest = blake2b(name.encode(), digest_size=_HASH_BYTES).hexdigest()
    return f"{name[: _ID_BYTES_MAX - 2 * _HASH_BYTES - 1]}~{digest}"


class RunJournal:
    """The open process of a run."""

    def __init__(self, node: Node, process: Process, stack: AsyncExitStack) -> None:
        self._node = node
        self._stack = stack
        self._asked_to_stop: str | None = None
        self.process = process
        self._known: dict[str, Activation] = {}
        self._number = max((one.number for one in self.activations().values()), default=0)
        self._lease: Lease | None = None
        self._former: set[Lease] = set()
        self.tasks: set[asyncio.Task[Any]] = set()
        """The tasks that have begun attempts, and are not over."""
        self.stopped: ActivationError | None = None
        """Why the newest dispatch may not go on, although its code may: the SDK's agents take such an error of a tool
        for something to tell the model."""
        self.sleeps: list[DurableSleepSuspension] = []
        """With what those of them have ended that sleep."""

    @classmethod
    async def opened(cls, node: Node, process_id: str, *, take_over: bool, wait_s: float) -> RunJournal:
        """Own the process. Raises what ``Node.open`` raises."""
        stack = AsyncExitStack()
        process = await stack.enter_async_context(node.open(process_id, take_over=take_over, wait_s=wait_s))
        return cls(node, process, stack)

    async def close(self) -> None:
        """Release the process, unless it is finished or lost."""
        await self._stack.aclose()

    # --- leases
    @property
    def epoch(self) -> int:
        """The epoch of this owner."""
        return self.process.written.epoch

    def takes(self, lease: Lease) -> bool:
        """Whether calls under ``lease`` may be made: it is the newest one, or a new one, which replaces it."""
        if lease in self._former:
            return False
        if self._lease is not None and lease != self._lease:
            self._former.add(self._lease)
            self.stopped = None
        self._lease = lease
        return True

    @property
    def leases(self) -> set[Lease]:
        """The leases that were used: the newest one, and those that it has replaced."""
        return self._former if self._lease is None else self._former | {self._lease}

    def retire(self, leases: set[Lease]) -> None:
        """Take no call under these leases any more."""
        self._former |= leases

    def is_newest(self, known: Activation) -> bool:
        """Whether an attempt was begun by this owner under the newest lease."""
        return known.epoch == self.epoch and known.lease == self._lease

    def watch(self, task: asyncio.Task[Any] | None) -> None:
        """Remember a task that begins an attempt until it is over, and whether it sleeps then."""
        if task is not None and task not in self.tasks:
            self.tasks.add(task)
            task.add_done_callback(self._over)

    def _over(self, task: asyncio.Task[Any]) -> None:
        self.tasks.discard(task)
        if not task.cancelled() and isinstance(sleep := task.exception(), DurableSleepSuspension):
            self.sleeps.append(sleep)

    # --- activations
    def activation(self, activation_id: str) -> Activation | None:
        """Return what is known of an activation, with what is being written now."""
        found = self._known.get(activation_id)
        if found is None and activation_id in self.process.written.values_json:
            found = self._known[activation_id] = Activation.of(self.process.written.value(activation_id))
        return found

    def activations(self) -> dict[str, Activation]:
        """Return all activations of the run, by their ids."""
        names = [name for name in self.process.written.values_json if name.startswith(PREFIX)]
        return {name: one for name in names if (one := self.activation(name)) is not None}

    @property
    def cancelled(self) -> str | None:
        """The reason for which the run was cancelled, by an entry or by a request that waits; None if it was not."""
        return self._reason(self.process.written) or self._asked_to_stop

    async def is_cancelled(self) -> bool:
        """Read whether the run was cancelled as of now, also while this owner writes nothing."""
        if self.cancelled is None:
            self._asked_to_stop = self._reason((await self._node.recover(self.process.process_id)).state)
        return self.cancelled is not None

    def _reason(self, state: State) -> str | None:
        if CANCELLED in state.values_json:
            return str(state.value(CANCELLED))
        return next((item.name or _NO_REASON for item in state.mailbox.values() if item.kind == _CANCEL), None)

    # --- writing
    async def begin(self, activation_id: str, record: Activation, more: Mapping[str, Any] | None) -> Activation:
        """Write the record of an attempt that begins. If the call is cancelled, the next one makes another attempt.

        Nobody has the fence token of the first one then, so nobody executes it.
        """
        try:
            return await self.write(activation_id, record, more)
        except asyncio.CancelledError:
            known = self._known.get(activation_id)
            if known is not None and known.fence_token == record.fence_token and known.status is Status.ACTIVE:
                self._known[activation_id] = replace(known, status=Status.RETRY_READY)
            raise

    async def write(self, activation_id: str, record: Activation, more: Mapping[str, Any] | None = None) -> Activation:
        """Set an activation in one entry; return its record once the entry was read back as applied.

        The call takes its place at once: each later call of this program knows the record.
        """
        before, self._number = self._known.get(activation_id), self._number + 1
        record = replace(record, number=self._number)
        self._known[activation_id] = record
        try:
            await self.process.change(set={activation_id: record.value(), **(more or {})})
        except Exception:
            if self._known.get(activation_id) is record:
                self._known.pop(activation_id)
                if before is not None:
                    self._known[activation_id] = before
            raise
        await self.process.confirm()
        return record

    async def stored(self, data: bytes, inline_bytes: int) -> Payload:
        """Return bytes as they are in a record; attach them first if they are many."""
        if len(data) <= inline_bytes:
            return payload_of(data)
        return await self.process.attach(data, media_type="application/json")

    async def loaded(self, payload: Payload | None) -> bytes:
        """Return the bytes that a record has."""
        if isinstance(payload, Ref):
            return await self.process.read_attachment(payload)
        return payload.encode() if isinstance(payload, str) else payload or b""
