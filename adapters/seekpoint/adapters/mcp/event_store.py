"""The events of one session of streamable HTTP, in a journal, so that its client resumes on any node.

The stream of a request, and the stream of messages that belong to no request, are told apart by the stream's id in each
record. A message that is longer than one record may be is in several: the last one says where the first one is.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from mcp.server.streamable_http import EventCallback, EventMessage, EventStore
from mcp_types import JSONRPCError, JSONRPCMessage, JSONRPCResponse, jsonrpc_message_adapter

from seekpoint.errors import SeekpointError

if TYPE_CHECKING:
    from seekpoint import Node, SharedProcess, State

__all__ = ["EVENT_KIND", "SeekpointEventStore"]

EVENT_KIND = "mcp_event"
_PART_CHARACTERS = 150_000
"""A part of a message in one record: in JSON within JSON at most 4 bytes for each of them, so within 1 MiB."""
_POLL_MIN_S, _POLL_MAX_S = 0.05, 1.0
_SEQ_DIGITS_MAX = 18

_logger = logging.getLogger("seekpoint.adapters.mcp")


class SeekpointEventStore(EventStore):
    """Store the events of one session: ``StreamableHTTPServerTransport(session_id, event_store=...)``.

    Each session needs a store of its own: the ids of streams are those of requests, which each client numbers from 1.
    ``SeekpointSessionManager`` makes the stores of all sessions. The process of a session is called
    ``PREFIX/SESSION_ID``.
    """

    def __init__(self, node: Node, session_id: str, *, prefix: str = "mcp") -> None:
        self._node = node
        self._process_id = f"{prefix}/{session_id}"
        self._process: SharedProcess | None = None
        self._opening = asyncio.Lock()
        self._stored = asyncio.Event()

    # --- EventStore
    async def store_event(self, stream_id: str, message: JSONRPCMessage | None) -> str:
        """Return the id of a stored event. It is in the journal then, and every node replays it.

        Raises what ``Node.append`` raises for the event that begins a stream (``message`` is None): the request is
        refused. Any other message that cannot be stored goes to the client without an id, and a warning is logged.
        """
        if message is None:
            return str(await self._record({"stream": stream_id}))
        text = message.model_dump_json(by_alias=True, exclude_unset=True)
        try:
            return str(await self._store(stream_id, text))
        except SeekpointError as exc:
            _logger.warning("a message of %s is sent but cannot be sent again: %s", self._process_id, exc)
            return ""

    async def replay_events_after(self, last_event_id: str, send_callback: EventCallback) -> str | None:
        """Send the messages of the event's stream behind it, and go on with what any node stores in the stream.

        Returns None once the answer of the request was sent, or the session has ended; at once for an id that no event
        of this session has. The messages that follow come from the journal, so the transport has to send none itself.
        """
        position = _seq_of(last_event_id)
        if position is None:
            return None
        async with aclosing(self._messages_after(position)) as messages:
            async for seq, message in messages:
                await send_callback(EventMessage(message, str(seq)))
                if isinstance(message, JSONRPCResponse | JSONRPCError) and message.id is not None:
                    break
        return None

    # --- the session
    async def state(self) -> State:
        """Return the state of the session's process as of now."""
        if self._process is None:
            async with self._opening:
                if self._process is None:
                    self._process = await self._node.open(self._process_id, shared=True)
                    return self._process.state
        return await self._process.read()

    async def update(self, key: str, value: Any, *, expected_seq: int | None = None) -> None:
        """Set a context value of the session's process."""
        await self.state()
        assert self._process is not None
        await self._process.update(key, value, expected_seq=expected_seq)
        self._wake()

    # --- storing
    async def _store(self, stream_id: str, text: str) -> int:
        if len(text) <= _PART_CHARACTERS:
            return await self._record({"stream": stream_id, "message": text})
        *parts, last = _parts_of(text)
        name, first = uuid4().hex, 0
        for part in parts:
            seq = await self._record({"part_of": name, "message": part})
            first = first or seq
        return await self._record({"stream": stream_id, "message": last, "name": name, "first": first})

    async def _record(self, payload: dict[str, Any]) -> int:
        if self._process is None:
            await self.state()
        assert self._process is not None
        seq = (await self._process.record(EVENT_KIND, payload)).seq
        self._wake()
        return seq

    def _wake(self) -> None:
        """Let those go on that wait for news of this session."""
        stored, self._stored = self._stored, asyncio.Event()
        stored.set()

    # --- replaying
    async def _messages_after(self, position: int) -> AsyncGenerator[tuple[int, JSONRPCMessage], None]:
        """Yield the messages of the stream of the event ``position`` behind it, until the session ends."""
        stream, cursor, read_seq, wait_s = "", "", 0, _POLL_MIN_S
        parts: dict[str, list[str]] = {}
        while True:
            stored = self._stored
            state = await self.state()
            if state.seq < position:
                return
            if state.seq > read_seq:
                read_seq = state.seq
                async with aclosing(self._records(position - 1, cursor)) as records:
                    async for seq, payload, at in records:
                        cursor = at
                        if seq == position:
                            stream = payload.get("stream", "")
                        if not stream:
                            return
                        if "part_of" in payload:
                            parts.setdefault(payload["part_of"], []).append(payload["message"])
                        before = parts.pop(payload.get("name", ""), [])
                        if payload.get("stream") == stream and seq > position and "message" in payload:
                            wait_s = _POLL_MIN_S
                            text = await self._text_of(payload, before, position)
                            yield seq, jsonrpc_message_adapter.validate_json(text)
            if not stream or has_ended(state):
                return
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stored.wait(), wait_s)
            wait_s = min(_POLL_MAX_S, 1.5 * wait_s)

    async def _records(self, after_seq: int, cursor: str = "") -> AsyncGenerator[tuple[int, dict[str, Any], str], None]:
        """Yield seq, payload and cursor of the records behind ``cursor``; without one, behind the entry ``after_seq``.

        The node remembers where a read has ended only by its cursor: another place costs a read of the whole session.
        """
        place: dict[str, Any] = {"after": cursor} if cursor else {"after_seq": after_seq or None}
        async for record in self._node.records(self._process_id, kinds=(EVENT_KIND,), through_forks=False, **place):
            assert record.seq is not None
            yield record.seq, record.payload, record.cursor

    async def _text_of(self, payload: dict[str, Any], before: list[str], position: int) -> str:
        """Return the whole message of a record: the parts ``before`` it and its own."""
        if payload.get("first", position) < position:  # its first parts are in front of where this replay began
            before = []
            async with aclosing(self._records(payload["first"] - 1)) as records:
                async for _, one, _ in records:
                    if one.get("name") == payload["name"]:
                        break
                    if one.get("part_of") == payload["name"]:
                        before.append(one["message"])
        return "".join([*before, payload["message"]])


def has_ended(state: State) -> bool:
    """Return whether the session was ended by its client."""
    return state.finished or "ended" in state.values_json


def _parts_of(text: str) -> Iterator[str]:
    for start in range(0, len(text), _PART_CHARACTERS):
        yield text[start : start + _PART_CHARACTERS]


def _seq_of(event_id: str) -> int | None:
    """Return the seq that an event id is; None for a text that is no event id.

    >>> _seq_of("17"), _seq_of("0"), _seq_of("x"), _seq_of("٣")
    (17, None, None, None)
    """
    is_number = event_id.isascii() and event_id.isdecimal() and len(event_id) <= _SEQ_DIGITS_MAX
    return int(event_id) or None if is_number else None
