"""The types of a graph's state when they are read: declared ones, and those that a plain encoding changes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, time, timedelta, timezone, tzinfo
from enum import Enum
from typing import Any
from zoneinfo import ZoneInfo

import ormsgpack
import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.graph import START, StateGraph
from typing_extensions import TypedDict

from seekpoint import MemoryLog, Node
from seekpoint.adapters.langgraph import SeekpointSaver
from seekpoint.errors import UnserializableValue
from stored_checkpoints import THREAD, put, values_of

BERLIN = ZoneInfo("Europe/Berlin")


class Kind(Enum):
    """A type in the state."""

    TEA = "tea"


@dataclass
class Line:
    """A type in a type in the state."""

    kind: Kind = Kind.TEA


@dataclass
class Order:
    """A type in the state."""

    lines: list[Line] = field(default_factory=lambda: [Line()])


@dataclass
class Stranger:
    """A type that no graph declares."""

    name: str = "eve"


class Shop(TypedDict):
    """A state that declares its types."""

    order: Order
    other: Any


class Plain:
    """A cipher that does nothing."""

    def encrypt(self, plaintext: bytes) -> tuple[str, bytes]:
        """Return the text."""
        return "plain", plaintext

    def decrypt(self, ciphername: str, ciphertext: bytes) -> bytes:
        """Return the text."""
        return ciphertext


def shop(saver: Any) -> Any:
    """Return a graph that keeps an order, and a value of a type that it does not declare."""
    builder: Any = StateGraph(Shop).add_node("take", lambda state: {"order": Order(), "other": Stranger()})
    return builder.add_edge(START, "take").compile(checkpointer=saver)


async def test_declared_types_come_back_as_they_are(log: MemoryLog) -> None:
    """In a program that has never written one; others come back as plain data."""
    async with Node.in_memory(log) as node:
        await shop(SeekpointSaver(node)).ainvoke({}, THREAD)
    async with Node.in_memory(log) as node:
        read = (await shop(SeekpointSaver(node)).aget_state(THREAD)).values
        kept = await shop(InMemorySaver()).ainvoke({}, THREAD)
        assert read == {"order": kept["order"], "other": {"name": "eve"}}
        assert values_of(await SeekpointSaver(node).aget_tuple(THREAD))["order"] == {"lines": [{"kind": "tea"}]}


async def test_langgraphs_own_savers_read_what_they_read_before(log: MemoryLog) -> None:
    """A graph tells each saver which types it declares; a serializer that builds every type goes on to do so."""
    async with Node.in_memory(log) as node:
        SeekpointSaver(node)
        graph = shop(InMemorySaver())
        await graph.ainvoke({}, THREAD)
        assert (await graph.aget_state(THREAD)).values == {"order": Order(), "other": Stranger()}


class Named(tzinfo):
    """A zone that LangGraph's serializer does not know."""

    def utcoffset(self, moment: datetime | None) -> timedelta:
        """Return two hours."""
        return timedelta(hours=2)

    def tzname(self, moment: datetime | None) -> str:
        """Return its name."""
        return "here"

    def dst(self, moment: datetime | None) -> None:
        """Return nothing."""


SERIALIZERS: list[Callable[[], Any]] = [
    lambda: None,
    lambda: JsonPlusSerializer(allowed_msgpack_modules=None),
    lambda: EncryptedSerializer(Plain(), JsonPlusSerializer(allowed_msgpack_modules=[Order])),
]


@pytest.mark.parametrize("serializer", SERIALIZERS, ids=["default", "strict", "encrypted"])
@pytest.mark.parametrize(
    "value",
    [
        datetime(2026, 10, 25, 2, 30, 1, 5, tzinfo=BERLIN, fold=1),
        datetime(2026, 10, 25, 2, 30, fold=1),
        datetime(2026, 1, 1, tzinfo=timezone(timedelta(hours=2), "here")),
        datetime(2026, 1, 1, tzinfo=UTC),
        datetime(2026, 1, 1),
        time(2, 30, tzinfo=BERLIN, fold=1),
        deque([1, 2], maxlen=3),
        deque([1, deque([datetime(2026, 1, 1, tzinfo=BERLIN)], maxlen=0)]),
        deque[int](),
    ],
    ids=repr,
)
async def test_zones_folds_and_bounds_are_kept(log: MemoryLog, value: Any, serializer: Callable[[], Any]) -> None:
    """Also inside a type of one's own, by the serializer of the saver and by LangGraph's own strict one."""
    async with Node.in_memory(log) as node:
        saver = SeekpointSaver(node, serde=serializer(), allow=() if serializer() else [Order])
        saver = saver.with_allowlist([(Order.__module__, "Order")])  # type: ignore[assignment]
        await put(saver, {"a": [value], "b": Order([value])}, {"a": "1", "b": "1"})
        read = values_of(await saver.aget_tuple(THREAD))
        assert repr(read) == repr({"a": [value], "b": Order([value])})
        kind, data = saver.serde.dumps_typed([value])
        plain = EncryptedSerializer(Plain(), JsonPlusSerializer(allowed_msgpack_modules=None))
        assert repr(plain.loads_typed((kind, data))) == repr([value])


@pytest.mark.parametrize("serializer", SERIALIZERS, ids=["default", "strict", "encrypted"])
@pytest.mark.parametrize(
    "value",
    ["half \ud800", {"\udc00": 1}, Order(["\ud800"]), datetime(2026, 1, 1, tzinfo=Named())],  # type: ignore[list-item]
    ids=["text", "key", "member", "zone"],
)
async def test_what_cannot_be_kept_is_refused(log: MemoryLog, value: Any, serializer: Callable[[], Any]) -> None:
    """With the name of the channel, before anything is written."""
    async with Node.in_memory(log) as node:
        saver = SeekpointSaver(node, serde=serializer())
        with pytest.raises(UnserializableValue, match="this channel") as refused:
            await put(saver, {"a": [value]}, {"a": "1"})
        assert refused.value.facts["path"] == "a"
        assert await saver.aget_tuple(THREAD) is None


def test_langgraph_has_what_the_serializer_uses() -> None:
    """These names are private: a release without them must be noticed here."""
    from langgraph._internal import _serde
    from langgraph.checkpoint.serde import jsonplus

    assert isinstance(vars(_serde)["STRICT_MSGPACK_ENABLED"], bool)
    assert "_msgpack_enc" in jsonplus._msgpack_default.__code__.co_names
    assert jsonplus._option & ormsgpack.OPT_REPLACE_SURROGATES
