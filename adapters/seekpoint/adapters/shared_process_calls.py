"""The calls of a shared process that an adapter makes, of a node in this program's loop or in a loop of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from typing import Any, Protocol

from seekpoint import Node, Ref, SharedProcess, State, SyncNode
from seekpoint.schemas.bodies import ContentBatch


class SharedProcessCalls(Protocol):
    """The calls that an adapter makes on a process."""

    async def read(self) -> State:
        """Return the state as of now."""
        ...

    async def known(self) -> State:
        """Return the newest state that the node knows; as of now if it knows none."""
        ...

    async def update_many(self, values: Mapping[str, Any], *, expected_seq: int) -> object:
        """Set context values in one entry."""
        ...

    async def change(self, values: Mapping[str, Any], delete: Collection[str], *, expected_seq: int) -> object:
        """Set and remove context values in one entry."""
        ...

    async def delete(self, key: str, *, expected_seq: int) -> object:
        """Remove a context value."""
        ...

    async def clear(self, kept: Mapping[str, str], *, expected_seq: int) -> object:
        """Remove all context values but ``kept``, JSON texts by key, in one entry."""
        ...

    async def attach(self, data: bytes, *, media_type: str) -> Ref:
        """Keep a large value."""
        ...

    async def read_attachment(self, ref: Ref) -> bytes:
        """Return a large value."""
        ...

    async def detach(self, refs: Collection[Ref], *, expected_seq: int) -> object:
        """Drop large values."""
        ...


def shared_calls(node: Node | SyncNode, process_id: str, actor: str | None) -> SharedProcessCalls:
    """Return the calls of the shared process ``process_id``; it is opened at the first of them."""
    return _LoopCalls(node, process_id, actor) if isinstance(node, Node) else _ThreadCalls(node, process_id, actor)


class _LoopCalls:
    """The calls by a ``Node``."""

    def __init__(self, node: Node, process_id: str, actor: str | None) -> None:
        self._node = node
        self._process_id = process_id
        self._actor = actor
        self._thread: SharedProcess | None = None

    async def read(self) -> State:
        if self._thread is None:
            return (await self._opened()).state
        return await self._thread.read()

    async def known(self) -> State:
        return (self._thread or await self._opened()).state

    async def update_many(self, values: Mapping[str, Any], *, expected_seq: int) -> object:
        thread = self._thread or await self._opened()
        return await thread.update_many(values, expected_seq=expected_seq)

    async def change(self, values: Mapping[str, Any], delete: Collection[str], *, expected_seq: int) -> object:
        thread = self._thread or await self._opened()
        return await thread.change(set=values, delete=delete, expected_seq=expected_seq)

    async def delete(self, key: str, *, expected_seq: int) -> object:
        return await (self._thread or await self._opened()).delete(key, expected_seq=expected_seq)

    async def clear(self, kept: Mapping[str, str], *, expected_seq: int) -> object:
        thread = self._thread or await self._opened()
        return await thread.append(ContentBatch(cleared=True, values=kept), expected_seq=expected_seq)

    async def attach(self, data: bytes, *, media_type: str) -> Ref:
        return await (self._thread or await self._opened()).attach(data, media_type=media_type)

    async def read_attachment(self, ref: Ref) -> bytes:
        return await (self._thread or await self._opened()).read_attachment(ref)

    async def detach(self, refs: Collection[Ref], *, expected_seq: int) -> object:
        return await (self._thread or await self._opened()).detach(*refs, expected_seq=expected_seq)

    async def _opened(self) -> SharedProcess:
        self._thread = await self._node.open(self._process_id, shared=True, actor=self._actor)
        return self._thread


class _ThreadCalls:
    """The calls by a ``SyncNode``: each blocks a thread."""

    def __init__(self, node: SyncNode, process_id: str, actor: str | None) -> None:
        self._node = node
        self._process_id = process_id
        self._actor = actor
        self._thread: Any = None

    async def read(self) -> State:
        return await asyncio.to_thread(self._read)

    async def known(self) -> State:
        return await asyncio.to_thread(lambda: self._opened().state)

    async def update_many(self, values: Mapping[str, Any], *, expected_seq: int) -> object:
        return await asyncio.to_thread(lambda: self._opened().update_many(values, expected_seq=expected_seq))

    async def change(self, values: Mapping[str, Any], delete: Collection[str], *, expected_seq: int) -> object:
        return await asyncio.to_thread(
            lambda: self._opened().change(set=values, delete=delete, expected_seq=expected_seq)
        )

    async def delete(self, key: str, *, expected_seq: int) -> object:
        return await asyncio.to_thread(lambda: self._opened().delete(key, expected_seq=expected_seq))

    async def clear(self, kept: Mapping[str, str], *, expected_seq: int) -> object:
        body = ContentBatch(cleared=True, values=kept)
        return await asyncio.to_thread(lambda: self._opened().append(body, expected_seq=expected_seq))

    async def attach(self, data: bytes, *, media_type: str) -> Ref:
        return await asyncio.to_thread(lambda: self._opened().attach(data, media_type=media_type))

    async def read_attachment(self, ref: Ref) -> bytes:
        return await asyncio.to_thread(lambda: self._opened().read_attachment(ref))

    async def detach(self, refs: Collection[Ref], *, expected_seq: int) -> object:
        return await asyncio.to_thread(lambda: self._opened().detach(*refs, expected_seq=expected_seq))

    def _read(self) -> State:
        state: State = self._opened().read()
        return state

    def _opened(self) -> Any:
        if self._thread is None:
            self._thread = self._node.open(self._process_id, shared=True, actor=self._actor).__enter__()
        return self._thread
