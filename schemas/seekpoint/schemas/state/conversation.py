"""A conversation: an immutable sequence that grows at its end for the price of one append."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from operator import attrgetter
from typing import Annotated, Any, overload

from msgspec import field

from seekpoint.schemas.bodies import Json, MessageSaid
from seekpoint.schemas.state.mask_shapes import Shape, optional_json, optional_text
from seekpoint.schemas.state.state_values import StateValue, size_function
from seekpoint.schemas.values.json_values import load

_ROLES = frozenset({"system", "developer", "user", "assistant", "tool", "function"})


class Message(StateValue, frozen=True):
    """One message. Structured values are kept as JSON text and decoded anew each time they are asked for."""

    role: Annotated[str, Shape("text", ("message", "role"), words=_ROLES)]
    text: Annotated[str | None, optional_text("message", "content")] = field(default=None, name="content")
    parts_json: Annotated[Json | None, optional_json("message", "parts")] = None
    tool_calls_json: Annotated[Json | None, optional_json("message", "tool_calls")] = None
    tool_call_id: Annotated[str | None, optional_text("message", "tool_call_id")] = None
    name: Annotated[str | None, optional_text("message", "name")] = None

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

    Conversations share one list and know their own length, so appending to the newest is O(1) however long it is (as
    slices of Go do), and so is appending to an older one what came there next anyway; anything else copies. What is
    kept is the entries' bodies: a ``Message`` is made when it is looked at, which spares the fold two microseconds.
    """

    __slots__ = ("_said", "_size")

    def __init__(self, said: Iterable[MessageSaid] = ()) -> None:
        self._said = list(said)
        self._size = len(self._said)

    def append(self, said: MessageSaid) -> Conversation:
        """Return a conversation with one message more. Thread-safe: of two appends at once, one copies."""
        shared, size = self._said, self._size
        if len(shared) == size:
            shared.append(said)
        # Whoever came first, by an append or at any time before, has this place in the list.
        if shared[size] is not said and shared[size] != said:
            shared = [*shared[:size], said]
        grown = _new(Conversation)
        grown._said = shared
        grown._size = size + 1
        return grown

    def bodies(self) -> Iterator[MessageSaid]:
        """Iterate over the bodies of the messages, without a copy."""
        return islice(self._said, self._size)

    def newest(self, count: int) -> Sequence[MessageSaid]:
        """Return the bodies of the last ``count`` messages; the cost does not depend on the conversation's length."""
        return self._said[max(self._size - count, 0) : self._size]

    @overload
    def __getitem__(self, at: int) -> Message: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Message]: ...
    def __getitem__(self, at: int | slice) -> Message | Sequence[Message]:
        if isinstance(at, slice):
            return [_message(self._said[index]) for index in range(*at.indices(self._size))]
        if not -self._size <= at < self._size:
            raise IndexError("the conversation has no such message")
        return _message(self._said[at if at >= 0 else at + self._size])

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Message]:
        return map(_message, self.bodies())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Conversation | list | tuple) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]  # it compares equal to lists, so it hashes as they do: not

    def __repr__(self) -> str:
        return f"Conversation({list(self)!r})"


_new = object.__new__
_parts = attrgetter(*Message.__struct_encode_fields__)
message_width = size_function(Message, of_keys=True)
"""Return the bytes that a body takes in a state's JSON as a message."""


def _message(said: MessageSaid) -> Message:
    """Return the message in the body of an entry, whose fields are named as the keys of the message's JSON."""
    return Message(*_parts(said))
