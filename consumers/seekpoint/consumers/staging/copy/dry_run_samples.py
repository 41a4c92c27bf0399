"""Samples of a dry run: records before and after masking, as people read them."""

from __future__ import annotations

import json
from dataclasses import asdict
from types import NoneType
from typing import Any

from seekpoint.consumers.staging.copy.transform import Transformed
from seekpoint.consumers.staging.replay_report import Sample
from seekpoint.schemas.errors import NewerFormat, UndecodableRecord
from seekpoint.schemas.wire.codec import Codec

__all__ = ["Samples"]

_SAMPLES_MAX = 10
_CHARS_MAX = 2_000


class Samples:
    """Keeps the first records that masking changed. They hold what is not masked: for people's eyes only."""

    def __init__(self, codec: Codec) -> None:
        self._codec = codec
        self._kept: list[Sample] = []

    @property
    def kept(self) -> tuple[Sample, ...]:
        """What was kept."""
        return tuple(self._kept)

    def keep(self, message: Any, treated: Transformed) -> None:
        """Keep this one, if it was changed and there are not enough."""
        if len(self._kept) < _SAMPLES_MAX and (message.key(), message.value()) != (treated.key, treated.value):
            before = self._shown(message.key(), message.value())
            after = self._shown(treated.key, treated.value)
            if before != after:
                self._kept.append(Sample(message.partition(), message.offset(), before, after))

    def _shown(self, key: bytes | None, value: bytes | None) -> str:
        """An entry as JSON; all else as the text it is, behind its key."""
        if value is not None:
            try:
                entry = self._codec.decode(value)
            except (UndecodableRecord, NewerFormat):
                pass
            else:
                body = {
                    name: said for name, said in asdict(entry.body).items() if not isinstance(said, bytes | NoneType)
                }
                facts = {"process_id": entry.process_id, "kind": entry.kind, "actor": entry.actor, "body": body}
                return json.dumps(facts, ensure_ascii=False, default=str)[:_CHARS_MAX]
        return f"{_text(key)} {_text(value)}"[:_CHARS_MAX]


def _text(data: bytes | None) -> str:
    return "none" if data is None else data.decode(errors="backslashreplace")
