"""A store for LangGraph: each namespace is a process of a journal, to which any node may write."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from langgraph.store.base import (
    BaseStore,
    GetOp,
    Item,
    ListNamespacesOp,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
    validate_op_namespace,
)

from seekpoint.adapters.cross_thread_calls import NodeCalls
from seekpoint.adapters.langgraph.item_filters import is_match, matches
from seekpoint.adapters.langgraph.store_namespaces import Namespace, StoreNamespaces
from seekpoint.errors import Refused

if TYPE_CHECKING:
    from seekpoint import Node, SyncNode

_PUT_MAX = timedelta(minutes=1)
"""How long a put may take: an item whose time is that close to its namespace's newest entry came with that."""


class SeekpointStore(BaseStore):
    """Keep the long-term memory of graphs in a journal: ``builder.compile(store=SeekpointStore(node))``.

    Any number of nodes may use it at once. A call that has returned is written, and every later read of any node has
    it. The puts of one batch in one namespace are one entry. Values are what JSON can carry; Seekpoint's other exact
    values (decimals, dates, bytes) are kept too. There is no semantic search: ``query`` raises ``Refused``. The process
    of a namespace is called ``PREFIX/LABEL/LABEL``. See ``SeekpointSaver`` about nodes, event loops and threads.
    """

    __slots__ = ("_calls", "_namespaces")

    def __init__(self, node: Node | SyncNode, *, prefix: str = "langgraph-store") -> None:
        self._calls = NodeCalls(node)
        self._namespaces = StoreNamespaces(self._calls.node, prefix)

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Do what ``ops`` say, and return a result for each: the reads first, then the puts."""
        return self._calls.blocking(self._done(list(ops)))

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Do what ``ops`` say; see ``batch``."""
        return await self._calls.awaited(self._done(list(ops)))

    async def _done(self, ops: Sequence[Op]) -> list[Result]:
        puts: defaultdict[Namespace, dict[str, PutOp]] = defaultdict(dict)
        for op in ops:
            validate_op_namespace(op)
            if isinstance(op, PutOp):
                puts[op.namespace][op.key] = op  # of two in one batch the last one counts
            elif isinstance(op, SearchOp) and op.query is not None:
                raise Refused(
                    "this store has no semantic search", asked=op.query[:60],
                    hint="search with filter=, or keep vectors in a vector store",
                )  # fmt: skip
        results = await asyncio.gather(*(self._read(op) for op in ops))
        await asyncio.gather(
            *(
                self._namespaces.write(name, {key: op.value for key, op in by_key.items()})
                for name, by_key in puts.items()
            )
        )
        return results

    async def _read(self, op: Op) -> Result:
        match op:
            case GetOp():
                row = await self._namespaces.item(op.namespace, op.key)
                return None if row is None else Item(namespace=op.namespace, key=op.key, **row)
            case SearchOp():
                return await self._found(op)
            case ListNamespacesOp():
                return await self._listed(op)
        return None

    async def _found(self, op: SearchOp) -> list[SearchItem]:
        found: list[SearchItem] = []
        wanted = op.offset + op.limit
        async for name, state in self._namespaces.newest(op.namespace_prefix, wanted + 1):
            items = [
                SearchItem(namespace=name, key=key, **row)
                for key, row in self._namespaces.items(state).items()
                if all(matches(row["value"].get(field), value) for field, value in (op.filter or {}).items())
            ]
            found += items
            written_at = datetime.fromtimestamp(state.updated_us / 1_000_000, UTC)
            # Namespaces come by their newest entries: so many whose newest entry put an item have the newest items.
            wanted -= any(written_at - item.updated_at < _PUT_MAX for item in items)
            if wanted <= 0:
                break
        found.sort(key=lambda item: (item.namespace, item.key))
        found.sort(key=lambda item: item.updated_at, reverse=True)
        return found[op.offset : op.offset + op.limit]

    async def _listed(self, op: ListNamespacesOp) -> list[Namespace]:
        names: set[Namespace] = set()
        async for name, _ in self._namespaces.newest(()):
            if all(is_match(condition, name) for condition in op.match_conditions or ()):
                names.add(name if op.max_depth is None else name[: op.max_depth])
        return sorted(names)[op.offset : op.offset + op.limit]
