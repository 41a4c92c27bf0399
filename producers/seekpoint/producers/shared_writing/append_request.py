"""One append to a shared process: what is asked for, and what became of it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple, TypedDict

import msgspec

from seekpoint.producers.writer.pending import Cause, Pending
from seekpoint.producers.writer.written_ids import check_entry_id
from seekpoint.schemas import bodies as b
from seekpoint.schemas.errors import AppendConflict, Refused, UnserializableValue
from seekpoint.schemas.values.json_values import check, dump, load

if TYPE_CHECKING:
    from seekpoint.schemas.config.limits import Limits
    from seekpoint.schemas.state.process_state import State


class AppendOptions(TypedDict, total=False):
    """The options of an append: see ``Node.append``."""

    expected_seq: int | None
    entry_id: bytes | None
    actor: str | None
    correlation_id: str | None


class Appended(NamedTuple):
    """A confirmed entry. ``is_repeated``: an earlier call with its ``entry_id`` wrote it."""

    seq: int
    offset: int
    entry_id: bytes
    is_repeated: bool = False


class AppendRequest(msgspec.Struct, eq=False):
    """An append that waits for its outcome."""

    body: b.Body
    entry_id: bytes
    has_own_id: bool
    """Whether the caller named the id: an entry with it may be in the log already."""
    expected_seq: int | None
    cause: Cause
    future: asyncio.Future[Appended]
    deadline: float
    """When the event loop's clock says that it was tried for long enough."""
    pending: Pending | None = None
    """The entry, once it was handed over."""

    def resolve(self, appended: Appended) -> None:
        """Give the result to the caller."""
        if not self.future.done():
            self.future.set_result(appended)

    def fail(self, error: BaseException) -> None:
        """Raise ``error`` in the caller."""
        if not self.future.done():
            self.future.set_exception(error)


def append_conflict(process_id: str, expected_seq: int, state: State) -> AppendConflict:
    """Return the error of an append that expected another newest entry than ``state`` has."""
    return AppendConflict(
        "the process's newest entry is not the expected one", process_id=process_id, expected_seq=expected_seq,
        seq=state.seq, epoch=state.epoch, offset=state.offset, state=state,
    )  # fmt: skip


_CONTENT = (
    b.ContextUpdated, b.ContextUpdatedMany, b.ContextDeleted, b.ContextPatched, b.ContextCleared, b.MessageSaid,
    b.ContentBatch, b.Custom, b.PartAttached, b.Detached, b.Deleted,
)  # fmt: skip
"""What a shared process may be written: content. Calls, waits, effects and lifecycles belong to one owner's code."""


def check_body(body: b.Body, process_id: str, limits: Limits) -> None:
    """Raise ``Refused`` for a body that a shared process does not take, and for values that are no canonical JSON."""
    if not isinstance(body, _CONTENT) or body.call is not None:
        raise Refused(
            "several nodes may write content only: records, messages and context values",
            process_id=process_id, kind=getattr(body, "KIND", type(body).__name__),
            hint="for steps, effects, waits and the lifecycle, own the process: node.open(PROCESS_ID)",
        )  # fmt: skip
    for text in _json_texts(body):
        if type(text) is not str:
            raise UnserializableValue(
                "a dynamic value of a body is JSON text, not an object", process_id=process_id, kind=body.KIND,
                path="$", hint="call the method of the process that writes such an entry, or give JSON text",
            )  # fmt: skip
        check(text, limits)
        if dump(load(text), limits) != text:
            raise UnserializableValue("a body's value is canonical JSON text, as seekpoint writes it", path="$")


def _json_texts(body: b.Body) -> Iterator[object]:
    """Yield what should be the JSON texts in ``body``: callers may have given anything."""
    match body:
        case b.ContextUpdated():
            yield body.value
        case b.ContextUpdatedMany():
            yield from _texts_of_values(body.values)
        case b.ContentBatch():
            yield from (body.deleted, body.messages)
            yield from _texts_of_values(body.values)
            yield from _texts_of_messages(body.messages)
        case b.ContextPatched():
            yield body.patch
        case b.Custom():
            yield body.payload
        case b.Detached():
            yield body.digests
        case b.MessageSaid():
            yield from (text for text in (body.parts, body.tool_calls) if text is not None)


def _texts_of_values(values: object) -> Iterator[object]:
    """Yield the JSON texts in a mapping; something else as it is, to be refused."""
    yield from values.values() if isinstance(values, Mapping) else (values,)


def _texts_of_messages(messages: str) -> Iterator[str]:
    """Yield the JSON texts in a list of messages. The fold's rule refuses a list of anything else."""
    found = load(messages)
    for item in found if type(found) is list else ():
        if type(item) is list:
            yield from (text for text in item[2:4] if type(text) is str)


def check_options(process_id: str, expected_seq: int | None, entry_id: bytes | None) -> None:
    """Raise ``Refused`` for a seq or an id that no entry has."""
    if expected_seq is not None and (type(expected_seq) is not int or expected_seq < 0):
        raise Refused(
            "a seq is a whole number, and 0 is that of a process without entries", process_id=process_id,
            asked=repr(expected_seq)[:60], hint="pass the seq of the state that the write is based on, or None",
        )  # fmt: skip
    if entry_id is not None:
        check_entry_id(process_id, entry_id)
