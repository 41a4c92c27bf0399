"""Stores of LangGraph's own savers, as sources of an import, and what their savers and ours read of them."""

from __future__ import annotations

import json
import operator
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any
from uuid import uuid4

import psycopg
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import interrupt
from typing_extensions import TypedDict

from seekpoint import Node
from seekpoint.adapters.migration import Migrated, Order, chosen_ids, migrate, open_source

__all__ = ["BEGIN", "Store", "case_graph", "facts_of", "imported", "postgres_store", "sqlite_store", "thread"]

BEGIN: Any = {"messages": [HumanMessage("hello")], "round": 0, "labels": set(), "note": "new"}
"""What each run of the graph begins with."""


@dataclass(frozen=True)
class Store:
    """A store of one of LangGraph's savers."""

    kind: str
    place: str

    def saver(self, serde: SerializerProtocol | None = None) -> AbstractContextManager[BaseCheckpointSaver[str]]:
        """Open the saver to which the store belongs."""
        return _sqlite_saver(self.place, serde) if self.kind == "langgraph-sqlite" else _postgres(self.place, serde)

    def execute(self, sqlite: str, postgres: str, values: dict[str, Any]) -> None:
        """Change the store behind its saver's back."""
        if self.kind == "langgraph-sqlite":
            with _sqlite_saver(self.place, None) as saver:
                saver.conn.execute(sqlite, values)
                saver.conn.commit()
        else:
            with psycopg.connect(self.place) as base:
                base.execute(postgres.encode(), values)


@contextmanager
def _sqlite_saver(place: str, serde: SerializerProtocol | None) -> Iterator[SqliteSaver]:
    with SqliteSaver.from_conn_string(place) as saver:
        saver.serde = serde or _plain()
        saver.setup()
        saver.conn.execute("PRAGMA synchronous = OFF")  # nobody kills the program that fills it
        yield saver


@contextmanager
def _postgres(place: str, serde: SerializerProtocol | None) -> Iterator[PostgresSaver]:
    with PostgresSaver.from_conn_string(place) as saver:
        saver.serde = serde or _plain()
        yield saver


def _plain() -> JsonPlusSerializer:
    return JsonPlusSerializer(allowed_msgpack_modules=None)


def sqlite_store(folder: Path) -> Store:
    """Return a new store in a file."""
    return Store("langgraph-sqlite", str(folder / f"checkpoints-{uuid4().hex[:8]}.db"))


def postgres_store(server: str) -> Store:
    """Return a new store in a schema of its own."""
    schema = f"s{uuid4().hex[:8]}"
    with psycopg.connect(server) as base:
        base.execute(f"CREATE SCHEMA {schema}".encode())
    place = f"{server} options='-c search_path={schema}'"
    with PostgresSaver.from_conn_string(place) as saver:
        saver.setup()
    return Store("langgraph-postgres", place)


def thread(name: str, checkpoint_id: str | None = None) -> Any:
    """Return the config of a thread."""
    at = {} if checkpoint_id is None else {"checkpoint_id": checkpoint_id}
    return {"configurable": {"thread_id": name, "checkpoint_ns": "", **at}}


async def imported(node: Node | None, store: Store, *ids: str, **how: Any) -> dict[str, Migrated]:
    """Import threads of a store; return the reports by id."""
    source = open_source(store.kind, store.place)
    order = Order(prefix="langgraph", **how)
    return {one.id: one async for one in migrate(node, source, chosen_ids(source, ids), order)}


def facts_of(found: CheckpointTuple) -> dict[str, Any]:
    """Return what a checkpoint says, to be compared. Tuples and lists are the same, as JSON has no tuples."""
    parent = found.parent_config["configurable"]["checkpoint_id"] if found.parent_config else None
    place = found.config["configurable"]
    return {
        "place": (place["thread_id"], place["checkpoint_ns"], place["checkpoint_id"]),
        "checkpoint": dict(found.checkpoint),
        "metadata": json.loads(json.dumps(found.metadata)),
        "parent": parent,
        "writes": list(found.pending_writes or ()),
    }


class Case(TypedDict):
    """The state of a case."""

    messages: Annotated[list[Any], operator.add]
    round: int
    labels: set[str]
    note: str | None


class Lookup(TypedDict):
    """The state of the subgraph."""

    round: int
    found: int


def case_graph(saver: BaseCheckpointSaver[str]) -> Any:
    """Return a graph with a subgraph, which stops for a person in each third round and ends after that."""

    def talk(state: Any) -> dict[str, Any]:
        number = state["round"] + 1
        return {"messages": [AIMessage(f"answer {number}")], "round": number, "labels": {"a", "b", str(number)}}

    def approve(state: Any) -> dict[str, Any]:
        return {"messages": [HumanMessage(interrupt("pay?"))], "note": None}

    lookup: Any = StateGraph(Lookup)
    lookup.add_node("look", lambda state: {"found": state["round"] * 2})
    lookup.add_edge(START, "look")
    builder: Any = StateGraph(Case)
    builder.add_node("talk", talk)
    builder.add_node("lookup", lookup.compile())
    builder.add_node("approve", approve)
    builder.add_edge(START, "talk")
    builder.add_edge("talk", "lookup")
    builder.add_conditional_edges("lookup", lambda state: "talk" if state["round"] % 3 else "approve")
    builder.add_edge("approve", END)
    return builder.compile(checkpointer=saver)
