"""A store of Pydantic AI for conversations, in a journal."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from contextvars import ContextVar
from dataclasses import replace
from typing import Any, TypeVar

from pydantic_ai.conversation import Conversation
from pydantic_ai.conversation_store import ConversationEntry, ConversationRecord, ConversationStore
from pydantic_ai.run import AgentRunResult

from seekpoint import Node, SyncNode
from seekpoint.adapters.cross_thread_calls import NodeCalls
from seekpoint.adapters.pydantic_ai.conversation_log import (
    ConversationLog,
    entry_from,
    entry_json,
    record_from,
    record_json,
)
from seekpoint.adapters.pydantic_ai.current_run import current_run

T = TypeVar("T")

_written: ContextVar[list[ConversationEntry] | None] = ContextVar("seekpoint_entries_written", default=None)
"""The entries of the ``write_record`` of the ``save`` that runs."""


class SeekpointConversationStore(ConversationStore):
    """A ``ConversationStore`` in a journal. Any node may use it, without sticky routing.

    ``node`` is a started ``Node``, or a ``SyncNode`` for programs that call ``agent.run_sync``. A conversation is the
    process ``prefix + conversation_id``, which has nothing else; where no process has such an id, the id ends with a
    hash. Any text is the id of a conversation, but for a lone surrogate. ``actor`` is named in every entry.

    A call that has returned is written, and each later call of any node sees it. A save is one entry: after a crash all
    of it is there, or nothing. Of two saves that began with one revision, one raises ``ConversationConflict``.
    ``delete`` drops the messages with the conversation; forks have copies of those that they share.

    Inside of a durable run, calls are steps: what was loaded is recorded, and a save is made once.
    """

    def __init__(
        self, node: Node | SyncNode, *, prefix: str = "conversation/", actor: str | None = None
    ) -> None:  # fmt: skip
        self._calls = NodeCalls(node)
        self._log = ConversationLog(self._calls.node, prefix, actor)

    async def save(
        self, conversation: Conversation | AgentRunResult[Any], *, scope: str | None = None
    ) -> list[ConversationEntry]:
        """Save a conversation in one entry; return the entries of the new messages."""
        token = _written.set(None)
        try:
            entries = await super().save(conversation, scope=scope)
            return _written.get() or entries
        finally:
            _written.reset(token)

    # --- what the base asks of a backend
    async def read_record(self, conversation_id: str) -> ConversationRecord | None:
        """Return the record of a conversation; None if there is none."""
        found = await self._made("conversation record", lambda: self._log.record(conversation_id), conversation_id)
        return None if found is None else record_from(found)

    async def read_records(self, *, scope: str | None = None, limit: int | None = None) -> Sequence[ConversationRecord]:
        """Return the records, or those of a scope, newest first."""

        async def read() -> list[dict[str, Any]]:
            found = [one for one in await self._log.records() if scope is None or one["scope"] == scope]
            found.sort(key=lambda one: record_from(one).updated_at, reverse=True)
            return found[:limit]

        return [record_from(one) for one in await self._made("conversation records", read, scope, limit)]

    async def read_history(self, head_id: str | None, *, limit: int | None = None) -> list[ConversationEntry]:
        """Return the entries up to ``head_id``, oldest first, or the newest ``limit`` of them."""
        if head_id is None:
            return []
        found = await self._made("conversation history", lambda: self._log.history(head_id, limit), head_id, limit)
        return [entry_from(one) for one in found]

    async def read_entry(self, entry_id: str) -> ConversationEntry:
        """Return the entry with this id."""
        return entry_from(await self._made("conversation entry", lambda: self._log.entry(entry_id), entry_id))

    async def write_record(
        self,
        record: ConversationRecord,
        *,
        new_entries: Sequence[ConversationEntry] = (),
        expected_revision: str | None,
    ) -> None:
        """Write a record and its new entries, all or nothing."""
        run = current_run()
        if run is None or run.is_in_body:
            await self._write(record, new_entries, expected_revision)
            return

        async def write(conversation_id: str, *, idempotency_key: str) -> list[Any]:
            named = _named(new_entries, idempotency_key)
            again = replace(record, revision=idempotency_key, head_id=named[-1].id if named else record.head_id)
            await self._write(again, named, expected_revision)
            return [again.revision, [(one.id, one.parent_id) for one in named]]

        revision, ids = await run.calls.step("conversation write", write, record.conversation_id)
        record.revision = revision
        _written.set(
            [
                replace(entry, id=entry_id, parent_id=parent_id)
                for entry, (entry_id, parent_id) in zip(new_entries, ids, strict=True)
            ]
        )

    async def delete_record(self, conversation_id: str, *, expected_revision: str) -> None:
        """Delete a conversation and its messages."""
        await self._made(
            "conversation delete", lambda: self._log.delete(conversation_id, expected_revision), conversation_id
        )

    async def _write(
        self, record: ConversationRecord, entries: Sequence[ConversationEntry], expected_revision: str | None
    ) -> None:
        given = [entry_json(one) for one in entries]
        await self._calls.awaited(self._log.write(record_json(record), given, expected_revision))

    async def _made(self, name: str, call: Callable[[], Coroutine[Any, Any, T]], *arguments: Any) -> T:
        """Make a call in the node's loop; in a durable run as a step."""
        run = current_run()
        if run is None or run.is_in_body:
            return await self._calls.awaited(call())

        async def body(*arguments: Any) -> T:
            return await self._calls.awaited(call())

        made: T = await run.calls.step(name, body, *arguments)
        return made


def _named(entries: Sequence[ConversationEntry], key: str) -> list[ConversationEntry]:
    """Return new entries with ids that are the same when the step is made again."""
    found: list[ConversationEntry] = []
    for number, entry in enumerate(entries):
        parent_id = found[-1].id if found else entry.parent_id
        found.append(replace(entry, id=f"{key}.{number}", parent_id=parent_id))
    return found
