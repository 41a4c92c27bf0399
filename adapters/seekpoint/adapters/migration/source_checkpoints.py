"""A checkpoint of a source, in the parts that a journal stores: bytes stay as they are."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from seekpoint.adapters.langgraph.stored_parts import Version
from seekpoint.adapters.migration.msgpack_spans import map_of, map_parts
from seekpoint.adapters.migration.opaque_values import OpaqueSerializer, Typed, is_pickle
from seekpoint.errors import Refused, UndecodableRecord


class SourceWrite(NamedTuple):
    """One write of a task."""

    task_id: str
    task_path: str
    idx: int
    channel: str
    value: Typed


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceCheckpoint:
    """A checkpoint with its values and writes."""

    ns: str
    id: str
    parent_id: str
    bare: Typed
    """The checkpoint without the values of its channels."""
    metadata: Any
    versions: Mapping[str, Version]
    values: Mapping[str, Typed]
    """Those that channels have."""
    whole: Any
    """The checkpoint as the source's own saver returns it, read by ``OpaqueSerializer``: for the comparison."""
    writes: Sequence[SourceWrite] = field(default=())
    """In the order of tasks and indexes."""

    @property
    def width(self) -> int:
        """About how many bytes it has."""
        return sum(len(one[1]) for one in self.values.values()) + sum(len(one.value[1]) for one in self.writes)


class Split(NamedTuple):
    """The parts of a checkpoint that is stored as one value."""

    bare: Typed
    versions: dict[str, Version]
    values: dict[str, Typed]
    whole: Any


def split_checkpoint(stored: Typed, serde: OpaqueSerializer) -> Split:
    """Return the parts of a checkpoint. Raises ``Refused`` for a pickle, and ``UndecodableRecord``."""
    if is_pickle(stored[0]):
        raise Refused("the checkpoint is a pickle, and loading one runs any code", kind=stored[0], hint="leave it out")
    kind, data = serde.opened(serde.checked(stored))
    seal = serde.sealed if "+" in stored[0] else _as_it_is
    if kind == "msgpack":
        parts = map_parts(data)
        values = map_parts(parts.pop("channel_values", b"\x80"))
        bare = map_of(parts)
        split = {channel: seal(("msgpack", one)) for channel, one in values.items()}
    elif kind == "json":
        document = json.loads(data)
        values_json = document.pop("channel_values", None) or {}
        bare = json.dumps(document).encode()
        split = {channel: seal(("json", json.dumps(one).encode())) for channel, one in values_json.items()}
    else:
        raise UndecodableRecord(f"no serializer of LangGraph writes checkpoints of the type {kind[:40]!r}")
    whole = serde.loads_typed((kind, data))
    versions = whole.get("channel_versions") or {}
    if not all(isinstance(one, str | int | float) for one in versions.values()):
        raise UndecodableRecord("the versions of a checkpoint's channels are neither texts nor numbers")
    if nameless := sorted(split.keys() - versions.keys()):
        raise Refused(
            f"channels have a value and no version: {', '.join(nameless)[:200]}",
            hint="no graph of LangGraph writes such a checkpoint: leave the thread out",
        )
    return Split(seal((kind, bare)), versions, split, whole)


def _as_it_is(value: Typed) -> Typed:
    return value
