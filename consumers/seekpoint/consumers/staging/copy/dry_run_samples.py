"""Samples of a dry run: records before and after masking, as text for people."""

from __future__ import annotations

import json
from dataclasses import asdict
from types import NoneType

from seekpoint.consumers.staging.copy.transform import Transformed
from seekpoint.consumers.staging.replay_ports import ReplayMessage
from seekpoint.consumers.staging.replay_report import Sample
from seekpoint.schemas.errors import NewerFormat, UndecodableRecord
from seekpoint.schemas.wire.codec import Codec

_SAMPLES_MAX = 10
_CHARS_MAX = 2_000


class DryRunSamples:
    """The first records that masking changed. They hold unmasked values: only show them, never store them."""

    def __init__(self, codec: Codec) -> None:
        self._codec = codec
        self._samples: list[Sample] = []

    @property
    def samples(self) -> tuple[Sample, ...]:
        """Return the samples."""
        return tuple(self._samples)

    def add(self, message: ReplayMessage, transformed: Transformed) -> None:
        """Add a record if it was changed and more samples are needed."""
        if len(self._samples) < _SAMPLES_MAX and (message.key(), message.value()) != transformed[:2]:
            before = self._rendered(message.key(), message.value())
            after = self._rendered(transformed.key, transformed.value)
            if before != after:
                self._samples.append(Sample(message.partition(), message.offset(), before, after))

    def _rendered(self, key: bytes | None, value: bytes | None) -> str:
        """Return an entry as JSON, and any other record as key and value."""
        if value is not None:
            try:
                entry = self._codec.decode(value)
            except (UndecodableRecord, NewerFormat):
                pass
            else:
                fields = asdict(entry.body).items()
                body = {name: value for name, value in fields if not isinstance(value, bytes | NoneType)}
                facts = {"process_id": entry.process_id, "kind": entry.kind, "actor": entry.actor, "body": body}
                return json.dumps(facts, ensure_ascii=False, default=str)[:_CHARS_MAX]
        return f"{_text(key)} {_text(value)}"[:_CHARS_MAX]


def _text(data: bytes | None) -> str:
    return "none" if data is None else data.decode(errors="backslashreplace")
