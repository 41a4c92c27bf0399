"""A conversation: an immutable sequence that grows at its end for the price of one append."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, overload

from seekpoint.schemas.bodies import Json
from seekpoint.schemas.values import load

__all__ = ["Conversation", "Message"]


@dataclass(frozen=True, slots=True)
class Message:
    """One message. Structured values are kept as JSON text and decoded anew each time they are asked for."""

    role: str
    text: str | None = None
    parts_json: Json | None = None
    tool_calls_json: Json | None = None
    tool_call_id: str | None = None
    name: str | None = None

    @property
    def content(self) -> Any:
        """The text, or the structured content; None where the message only calls tools."""
        return self.text if self.parts_json is None else load(self.parts_json)

    @property
    def tool_calls(self) -> Any:
        """The list of tool calls as it was said, a fresh copy; None where there is none."""
        return None if self.tool_calls_json is None else load(self.tool_calls_json)


class Conversation(Sequence[Message]):
    """The messages so far. ``append`` gives a new conversation and leaves this one as it was.

    Conversations share one list and know their own length, so appending to the newest is O(1) however long it is
    (as slices of Go do); appending to an older one copies.
    """

    __slots__ = ("_messages", "_size")

    def __init__(self, messages: Iterable[Message] = ()) -> None:
        self._messages = list(messages)
        self._size = len(self._messages)

    def append(self, message: Message) -> Conversation:
        """This conversation and one message more."""
        grown = object.__new__(Conversation)
        shared = self._messages if len(self._messages) == self._size else self._messages[: self._size]
        shared.append(message)
        grown._messages = shared
        grown._size = self._size + 1
        return grown

    @overload
    def __getitem__(self, at: int) -> Message: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Message]: ...
    def __getitem__(self, at: int | slice) -> Message | Sequence[Message]:
        if isinstance(at, slice):
            return self._messages[: self._size][at]
        if not -self._size <= at < self._size:
            raise IndexError("the conversation has no such message")
        return self._messages[at if at >= 0 else at + self._size]

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Message]:
        return iter(self._messages[: self._size])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Conversation | list | tuple) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]  # it compares equal to lists, so it hashes as they do: not

    def __repr__(self) -> str:
        return f"Conversation({self._messages[: self._size]!r})"
