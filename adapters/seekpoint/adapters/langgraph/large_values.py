"""Values that are too large for an entry: their bytes are attachments of the thread's process.

A stored value whose type begins with ``@`` has the digest and the size of its attachment instead of its bytes. What the
newest checkpoints need stays attached. Of what only older ones have, the newest ``KEPT_BYTES_MAX`` stay.
"""

from __future__ import annotations

from binascii import a2b_base64
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

from seekpoint import Ref, SharedProcess, State
from seekpoint.adapters.langgraph.stored_parts import Forget, Op, Put, PutWrites, StoredValue, StoredWrite
from seekpoint.adapters.langgraph.thread_content import ThreadContent

ENTRY_WIDTH_MAX = 524_288
"""How many characters an entry's values may have together: the calls beyond that get the next entry."""
ATTACHED_WIDTH, _IF_NEEDED = 131_072, 4_096
"""A value of so many characters is attached always, or if an entry would be too large otherwise."""
KEPT_BYTES_MAX, _KEPT_MAX = 134_217_728, 512
"""How many bytes, and how many attachments, a thread keeps."""

_Part = TypeVar("_Part", StoredValue, StoredWrite)


def is_attached(kind: str) -> bool:
    """Return whether a stored value is an attachment."""
    return kind.startswith("@")


def ref_of(data: str, process_id: str) -> Ref:
    """Return the reference that stands for a stored value."""
    digest, _, size = data.partition(":")
    return Ref(digest, int(size), process_id)


def width_of(op: Op) -> int:
    """Return about how many characters an operation adds to an entry."""
    if isinstance(op, Put):
        return (
            len(op.checkpoint.data) + len(op.checkpoint.metadata) + sum(len(one.data) for one in op.channels.values())
        )
    if isinstance(op, PutWrites):
        return sum(len(one.data) for one in op.items)
    return sum(map(width_of, op.newest))


def digests_of(op: Op) -> Iterator[str]:
    """Yield the digests of the attachments that stand in an operation."""
    parts: Iterable[StoredValue | StoredWrite] = ()
    if isinstance(op, Put):
        parts = op.channels.values()
    elif isinstance(op, PutWrites):
        parts = op.items
    else:
        return (digest for one in op.newest for digest in digests_of(one))
    return digests_in(parts)


def digests_in(parts: Iterable[StoredValue | StoredWrite]) -> Iterator[str]:
    """Yield the digests of those that are attachments."""
    return (part.data.partition(":")[0] for part in parts if is_attached(part.type))


async def with_attachments(op: Op, process: SharedProcess) -> Op:
    """Return ``op`` with its large values attached to the process."""
    if width_of(op) < ATTACHED_WIDTH:
        return op
    if isinstance(op, Forget):
        return replace(op, newest=[await _with_attachments(one, process) for one in op.newest])
    return await _with_attachments(op, process)


async def _with_attachments(op: Put | PutWrites, process: SharedProcess) -> Put | PutWrites:
    if isinstance(op, PutWrites):
        return replace(op, items=await _attached(op.items, process))
    rows = list(op.channels.items())
    values = await _attached([value for _, value in rows], process)
    return replace(op, channels={name: value for (name, _), value in zip(rows, values, strict=True)})


async def _attached(parts: Sequence[_Part], process: SharedProcess) -> list[_Part]:
    left, found = sum(len(part.data) for part in parts), list(parts)
    for index in sorted(range(len(found)), key=lambda one: -len(found[one].data)):
        part = found[index]
        width = len(part.data)
        if is_attached(part.type) or width < (_IF_NEEDED if left > ENTRY_WIDTH_MAX else ATTACHED_WIDTH):
            continue
        ref = await process.attach(a2b_base64(part.data))
        found[index] = part._replace(type=f"@{part.type}", data=f"{ref.digest}:{ref.size}")
        left -= width
    return found


def outlived(state: State, content: ThreadContent, process_id: str) -> list[Ref]:
    """Return the attachments to drop, oldest first: those beyond what is kept that no newest checkpoint needs."""
    needed, refs = set(_needed(content)), list[Ref]()
    size, count = state.attached_bytes, len(state.attachments)
    for digest, one in state.attachments.items():
        if size <= KEPT_BYTES_MAX and count <= _KEPT_MAX:
            break
        if digest not in needed:
            refs.append(Ref(digest, one.size, process_id))
            size, count = size - one.size, count - 1
    return refs


def unknown_to(process: SharedProcess, content: ThreadContent) -> str | None:
    """Return a value of the newest checkpoints whose attachment the process does not have; None if it has all."""
    needed = _needed(content)
    known = process.state.attachments if needed else {}
    return next((data for digest, data in needed.items() if digest not in known), None)


def _needed(content: ThreadContent) -> dict[str, str]:
    """Return what stands for the attachments of the newest checkpoints, by digest."""
    found: dict[str, str] = {}
    for space in content.namespaces.values():
        parts: list[StoredValue | StoredWrite] = [*space.channels.values()]
        for one in space.writes.values():
            parts += one.items.values()
        found |= {part.data.partition(":")[0]: part.data for part in parts if is_attached(part.type)}
    return found
