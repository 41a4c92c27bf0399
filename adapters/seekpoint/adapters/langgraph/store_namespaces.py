"""The namespaces of a store: which there are, and the items of each, as the context of its process has them.

namespace         the labels
item/KEY          {"value": ..., "created_at": ..., "updated_at": ...}
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime
from typing import Any, TypeAlias
from urllib.parse import unquote

import orjson

from seekpoint import Node, SharedProcess, State
from seekpoint.adapters.langgraph.thread_names import id_prefix_of, joined, process_id_of

Namespace: TypeAlias = tuple[str, ...]

_KEY, _ITEM = "namespace", "item/"
_KEPT_MAX = 1_000
_TAG = '"$'
"""What a text has that ``orjson`` alone does not read as Seekpoint does."""


class StoreNamespaces:
    """The namespaces of one store on one node, for the node's event loop."""

    def __init__(self, node: Node, prefix: str) -> None:
        self._node = node
        self._prefix = prefix
        self._index = node.index(id_prefix_of("", prefix))
        self._open: OrderedDict[Namespace, SharedProcess] = OrderedDict()

    async def newest(self, prefix: Namespace, at_once: int = 500) -> AsyncIterator[tuple[Namespace, State]]:
        """Yield the namespaces that begin with ``prefix`` and have items, as of now: those written last first.

        ``at_once``: how many may be wanted.
        """
        async for _, state in self._index.newest(id_prefix_of(joined(prefix), self._prefix), at_once=at_once):
            if _KEY in state.values_json and any(key.startswith(_ITEM) for key in state.values_json):
                name = tuple(orjson.loads(state.values_json[_KEY]))
                if name[: len(prefix)] == prefix:
                    yield name, state

    async def item(self, name: Namespace, key: str) -> dict[str, Any] | None:
        """Return an item of a namespace, as of now."""
        state = await self._state(name)
        return _row(state, _ITEM + joined((key,))) if _ITEM + joined((key,)) in state.values_json else None

    @staticmethod
    def items(state: State) -> dict[str, dict[str, Any]]:
        """Return all items of a namespace by key."""
        keys = [key for key in state.values_json if key.startswith(_ITEM)]
        return {unquote(key.removeprefix(_ITEM), errors="surrogatepass"): _row(state, key) for key in keys}

    async def write(self, name: Namespace, values: Mapping[str, Mapping[str, Any] | None]) -> None:
        """Put items, or delete those whose value is None, in one entry."""
        state = await self._state(name)
        now = datetime.now(UTC).isoformat()
        rows: dict[str, Any] = {} if _KEY in state.values_json else {_KEY: list(name)}
        gone: list[str] = []
        for key, value in values.items():
            place = _ITEM + joined((key,))
            is_there = place in state.values_json
            if value is not None:
                made_at = _row(state, place)["created_at"] if is_there else now
                rows[place] = {"value": dict(value), "created_at": made_at, "updated_at": now}
            elif is_there:
                gone.append(place)
        if gone or rows.keys() - {_KEY}:
            await self._open[name].change(set=rows, delete=gone)

    async def _state(self, name: Namespace) -> State:
        process = self._open.get(name)
        if process is not None:
            self._open.move_to_end(name)
            return await process.read()
        process = await self._node.open(process_id_of(joined(name), self._prefix), shared=True)
        while len(self._open) >= _KEPT_MAX:
            self._open.popitem(last=False)
        self._open[name] = process
        return process.state


def _row(state: State, key: str) -> dict[str, Any]:
    text = state.values_json[key]
    row: dict[str, Any] = state.context[key] if _TAG in text else orjson.loads(text)
    return row
