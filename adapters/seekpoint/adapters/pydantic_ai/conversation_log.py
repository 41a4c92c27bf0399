"""The processes in which conversations are: one process for each, whose context has the record and the messages.

A message is a context value, ``entry/ID`` with the id of the message before it. A fork begins with copies of the
messages that it shares, under their ids: so a conversation is whole in its process, and is gone with it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import TypeAdapter
from pydantic_ai.conversation_store import ConversationConflict, ConversationEntry, ConversationRecord
from pydantic_ai.messages import ModelMessagesTypeAdapter
from pydantic_core import PydanticSerializationError

from seekpoint import Node, State
from seekpoint.adapters.attached_items import are_attached, attached, drop_unused, item_of
from seekpoint.adapters.process_lists import states_of
from seekpoint.adapters.process_names import id_of_text
from seekpoint.adapters.shared_process_calls import SharedProcessCalls, shared_calls
from seekpoint.errors import AppendConflict, LimitExceeded, UnknownAttachment, UnserializableValue

_RECORD, _REVISIONS, _ENTRY = "record", "revisions", "entry/"
_REVISIONS_MAX, _PLACES_MAX = 20, 10_000
_ADAPTER: TypeAdapter[ConversationRecord] = TypeAdapter(ConversationRecord)
_FULL = "keep files outside, and put their URLs into the messages; save less at once; or begin another conversation"


class ConversationLog:
    """The conversations of one journal. Its calls run in the node's event loop."""

    def __init__(self, node: Node, prefix: str, actor: str | None) -> None:
        self._node = node
        self._prefix = prefix
        self._actor = actor
        self._places: OrderedDict[str, str] = OrderedDict()
        """The conversation in which an entry was seen, by its id."""

    # --- reading
    async def record(self, conversation_id: str) -> dict[str, Any] | None:
        """Return the record of a conversation, as JSON."""
        return self._seen(await self._calls(conversation_id).read())

    async def records(self) -> list[dict[str, Any]]:
        """Return the records of all conversations, as JSON."""
        found = [self._seen(state) for state in await states_of(self._node, self._prefix)]
        return [record for record in found if record is not None]

    async def history(self, head_id: str, limit: int | None) -> list[dict[str, Any]]:
        """Return the entries up to ``head_id``, oldest first; at most ``limit``. Raises ``LookupError``."""
        calls, state = await self._home(head_id)
        while True:
            try:
                return await _chain(calls, state, head_id, limit)
            except UnknownAttachment:  # the conversation was deleted, or begun anew, meanwhile
                if (newer := await calls.read()).seq == state.seq:
                    raise
                state = newer

    async def entry(self, entry_id: str) -> dict[str, Any]:
        """Return an entry. Raises ``LookupError``."""
        return (await self.history(entry_id, 1))[0]

    def _seen(self, state: State) -> dict[str, Any] | None:
        """Return the record in a state, and note where its entries are."""
        record: dict[str, Any] | None = state.value(_RECORD) if _RECORD in state.values_json else None
        for entry_id in [] if record is None else [record["head_id"], *record["branches"]]:
            if record is not None and entry_id is not None:
                self._note(entry_id, record["conversation_id"])
        return record

    def _note(self, entry_id: str, conversation_id: str) -> None:
        self._places[entry_id] = conversation_id
        self._places.move_to_end(entry_id)
        if len(self._places) > _PLACES_MAX:
            self._places.popitem(last=False)

    async def _home(self, entry_id: str) -> tuple[SharedProcessCalls, State]:
        """Return the calls and the state of a conversation that has an entry."""
        place = self._places.get(entry_id)
        if place is not None:
            calls = self._calls(place)
            state = await calls.read()
            if _ENTRY + entry_id in state.values_json:
                return calls, state
        for state in await states_of(self._node, self._prefix):
            if _ENTRY + entry_id in state.values_json:
                place = state.value(_RECORD)["conversation_id"]
                self._note(entry_id, place)
                return self._calls(place), state
        raise KeyError(entry_id)

    def _calls(self, conversation_id: str) -> SharedProcessCalls:
        return shared_calls(self._node, self._process_id(conversation_id), self._actor)

    def _process_id(self, conversation_id: str) -> str:
        return id_of_text(conversation_id, self._prefix)

    # --- writing
    async def write(
        self, record: Mapping[str, Any], entries: Sequence[Mapping[str, Any]], expected_revision: str | None
    ) -> None:
        """Write a record and new entries, in one entry of the journal. A call that is repeated writes nothing.

        Raises ``ConversationConflict``, and ``LimitExceeded`` where they do not fit.
        """
        calls = self._calls(record["conversation_id"])
        state, is_attached = await calls.read(), False
        while not _has_revision(state, record["revision"]):
            if _revision(state) != expected_revision:
                raise ConversationConflict(record["conversation_id"])
            shared = await self._shared(record, entries, state)
            given: list[Any] = [*shared, *entries]
            names = [_ENTRY + one["id"] for one in given]
            try:
                if is_attached:
                    given, state = await attached(calls, given), await calls.known()
                values = dict(zip(names, given, strict=True))
                if not are_attached(state, values):  # another call has dropped one: nothing referred to it
                    continue
                values |= {_RECORD: record, _REVISIONS: [*_revisions(state), record["revision"]][-_REVISIONS_MAX:]}
                await calls.change(values, [], expected_seq=state.seq)
            except AppendConflict as conflict:
                state = _newer(conflict)
            except LimitExceeded as exc:
                if is_attached:
                    process_id = self._process_id(record["conversation_id"])
                    await drop_unused(calls, process_id)
                    raise _full(process_id, exc) from exc
                is_attached = True
            else:
                break
        for entry_id in [record["head_id"], *(one["id"] for one in entries)]:
            if entry_id is not None:
                self._note(entry_id, record["conversation_id"])

    async def _shared(
        self, record: Mapping[str, Any], entries: Sequence[Mapping[str, Any]], state: State
    ) -> list[dict[str, Any]]:
        """Return the entries that a conversation shares with another one and does not have itself yet: those of a fork.

        Raises ``ConversationConflict`` if nobody has them.
        """
        first = entries[0]["parent_id"] if entries else record["head_id"]
        if first is None or _ENTRY + first in state.values_json:
            return []
        try:
            return await self.history(first, None)
        except LookupError:
            raise ConversationConflict(record["conversation_id"]) from None

    async def delete(self, conversation_id: str, expected_revision: str) -> None:
        """Delete a conversation with all its messages. Raises ``ConversationConflict``."""
        process_id = self._process_id(conversation_id)
        state = await self._calls(conversation_id).read()
        while True:
            if _revision(state) != expected_revision:
                raise ConversationConflict(conversation_id)
            try:
                await self._node.delete(process_id, expected_seq=state.seq, actor=self._actor)
            except AppendConflict as conflict:
                state = _newer(conflict)
            else:
                return


async def _chain(calls: SharedProcessCalls, state: State, head_id: str, limit: int | None) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    entry_id: str | None = head_id
    while entry_id is not None and (limit is None or len(found) < limit):
        key = _ENTRY + entry_id
        if key not in state.values_json:
            raise KeyError(entry_id)
        entry: dict[str, Any] = await item_of(calls, state.value(key))
        found.append(entry)
        entry_id = entry["parent_id"]
    return found[::-1]


def _newer(conflict: AppendConflict) -> State:
    state: State | None = conflict.state
    assert state is not None  # of an append, never of another call
    return state


def _revision(state: State) -> str | None:
    revisions = _revisions(state)
    return revisions[-1] if revisions else None


def _revisions(state: State) -> list[str]:
    """Return the newest revisions of a conversation, oldest first."""
    found: list[str] = state.value(_REVISIONS) if _REVISIONS in state.values_json else []
    return found


def _has_revision(state: State, revision: str) -> bool:
    return revision in _revisions(state)


def _full(process_id: str, error: LimitExceeded) -> LimitExceeded:
    return LimitExceeded(
        "the conversation takes no more messages; none of them was saved", process_id=process_id, bytes=error.bytes,
        limit=error.limit, path=error.path, hint=_FULL,
    )  # fmt: skip


# --- what is in an entry
def record_json(record: ConversationRecord) -> dict[str, Any]:
    """Return a record as JSON. Raises ``UnserializableValue``."""
    try:
        found: dict[str, Any] = _ADAPTER.dump_python(record, mode="json")
    except (PydanticSerializationError, TypeError) as exc:
        raise UnserializableValue(f"a conversation's record is not JSON: {exc}", path="$.record") from exc
    return found


def record_from(found: Mapping[str, Any]) -> ConversationRecord:
    """Return the record that ``record_json`` was given."""
    return _ADAPTER.validate_python(dict(found))


def entry_json(entry: ConversationEntry) -> dict[str, Any]:
    """Return an entry as JSON. Raises ``UnserializableValue``."""
    try:
        (message,) = ModelMessagesTypeAdapter.dump_python([entry.message], mode="json")
    except (PydanticSerializationError, TypeError) as exc:
        raise UnserializableValue(f"a message is not JSON: {exc}", path="$.message") from exc
    return {"id": entry.id, "parent_id": entry.parent_id, "message": message}


def entry_from(found: Mapping[str, Any]) -> ConversationEntry:
    """Return the entry that ``entry_json`` was given."""
    (message,) = ModelMessagesTypeAdapter.validate_python([found["message"]])
    return ConversationEntry(id=found["id"], parent_id=found["parent_id"], message=message)
