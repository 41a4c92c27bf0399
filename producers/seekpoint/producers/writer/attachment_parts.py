"""The parts of an attachment, as its entries have them."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from hashlib import sha256
from typing import TYPE_CHECKING

import orjson

from seekpoint.schemas import bodies as b
from seekpoint.schemas.errors import Refused
from seekpoint.schemas.values.attachment_ref import Ref

if TYPE_CHECKING:
    from seekpoint.schemas.config.limits import Limits
    from seekpoint.schemas.state.state_parts import Attachment

__all__ = ["detached", "own_bytes", "part", "ref_to", "windows_of"]

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


def detached(refs: Collection[Ref], process_id: str) -> b.Detached:
    """Return the entry that drops attachments. Raises ``Refused`` for a reference to another process's."""
    for ref in refs:
        if ref.process_id != process_id:
            raise Refused(
                "a process detaches its own attachments only", process_id=process_id, asked=ref.process_id,
                hint="drop the reference: its bytes belong to the process that it names",
            )  # fmt: skip
    return b.Detached(orjson.dumps(sorted({ref.digest for ref in refs})).decode())
