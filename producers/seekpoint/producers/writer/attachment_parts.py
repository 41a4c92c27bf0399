"""The parts of an attachment, as its entries have them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any, TypeAlias

import orjson

from seekpoint.consumers.blobs.process_blobs import folder_of
from seekpoint.schemas import bodies as b
from seekpoint.schemas.errors import LimitExceeded, Refused
from seekpoint.schemas.folding.attachment_rules import beyond_limits
from seekpoint.schemas.values.attachment_ref import Ref

if TYPE_CHECKING:
    from seekpoint.consumers.blobs.blob_store import BlobStore
    from seekpoint.schemas.config.limits import Limits
    from seekpoint.schemas.log.log_ports import LogReader
    from seekpoint.schemas.state.process_state import Draft
    from seekpoint.schemas.state.state_parts import Attachment

__all__ = ["detached", "own_bytes", "part", "ref_to", "stored", "windows_of"]

InThread: TypeAlias = "Callable[[Callable[[], Any]], Awaitable[Any]]"
_HASHED_BYTES = 1_048_576
"""How many bytes are hashed before other tasks get a turn: about 2 ms."""
_WINDOW_PARTS = 8
"""How many parts are under way at once: their bytes are in memory until they are read back."""


def own_bytes(data: object, process_id: str) -> bytes:
    """Return ``data`` as bytes that nobody changes. Raises ``Refused`` if it is nothing that has bytes."""
    if isinstance(data, bytes | bytearray | memoryview):
        return bytes(data)
    raise Refused(
        "an attachment is made of bytes", process_id=process_id, type=type(data).__name__,
        hint="encode a text: text.encode(); read a file: path.read_bytes()",
    )  # fmt: skip


async def ref_to(data: bytes, process_id: str, media_type: str) -> Ref:
    """Return the reference to ``data`` as an attachment of the process."""
    digest, view = sha256(), memoryview(data)
    for start in range(0, len(data), _HASHED_BYTES):
        if start:
            await asyncio.sleep(0)
        digest.update(view[start : start + _HASHED_BYTES])
    return Ref(digest.hexdigest(), len(data), process_id, media_type)


def windows_of(ref: Ref, known: Attachment | None, limits: Limits) -> list[list[int]]:
    """Return where the parts begin that the process does not have yet, in groups of a few."""
    if known is not None and known.is_whole:
        return []
    starts = [*range(0 if known is None else known.received, max(ref.size, 1), limits.part_bytes)]
    return [starts[first : first + _WINDOW_PARTS] for first in range(0, len(starts), _WINDOW_PARTS)]


def part(ref: Ref, data: bytes, start: int, limits: Limits) -> b.PartAttached:
    """Return the entry of the part that begins at ``start``."""
    return b.PartAttached(ref.digest, ref.size, start, data[start : start + limits.part_bytes], ref.media_type)


async def stored(
    blobs: BlobStore, ref: Ref, data: bytes, state: Draft, reader: LogReader, in_thread: InThread
) -> b.PartAttached:
    """Put an attachment into a blob store; return the entry that says so, to be written then.

    Raises ``LimitExceeded`` if the process has no room for it, before anything is put there.
    """
    misfit = beyond_limits(state, ref.size, reader.limits)
    if misfit is not None:
        raise LimitExceeded(misfit[1], process_id=ref.process_id)
    folder = folder_of(ref.process_id, reader.topic_id, state.deleted_seq)
    await in_thread(partial(blobs.put, folder, ref.digest, data))
    return b.PartAttached(ref.digest, ref.size, media_type=ref.media_type, store=blobs.name)


def detached(refs: Collection[Ref], process_id: str) -> b.Detached:
    """Return the entry that drops attachments. Raises ``Refused`` for a reference to another process's."""
    for ref in refs:
        if ref.process_id != process_id:
            raise Refused(
                "a process detaches its own attachments only", process_id=process_id, asked=ref.process_id,
                hint="drop the reference: its bytes belong to the process that it names",
            )  # fmt: skip
    return b.Detached(orjson.dumps(sorted({ref.digest for ref in refs})).decode())
