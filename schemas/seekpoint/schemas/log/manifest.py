"""The manifest: a journal's description of itself, stored in ``NAME.schemas`` beside the writer schemas.

Every reader and writer compares it with the topics when it starts. A re-created topic has another id; a topic with more
partitions maps keys to other partitions. Both raise a typed error, so that keys are never re-mapped silently.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, fields

import orjson

from seekpoint.schemas.config.limits import Limits
from seekpoint.schemas.errors import JournalMismatch, NewerFormat, OlderFormat
from seekpoint.schemas.frozen_struct import FrozenStruct

FORMAT = 2
"""The only journal format that this code writes, and the newest that it reads: a schema and a fold version."""

_FINGERPRINT_BYTES = 8
MANIFEST_KEY = b"\x00manifest"


def schema_key(fingerprint: bytes) -> bytes:
    """Return the key of a writer schema in ``NAME.schemas``: its CRC-64-AVRO fingerprint (8 bytes), in hex."""
    return fingerprint.hex().encode()


def writer_schemas(records: Mapping[bytes, bytes]) -> dict[bytes, str]:
    """Return the writer schemas in ``NAME.schemas`` by fingerprint: the records whose key is sixteen hex digits.

    >>> writer_schemas({schema_key(b"8 bytes."): b"{}", MANIFEST_KEY: b"{}", b"sixteen, no hex.": b"{}"})
    {b'8 bytes.': '{}'}
    """
    found = {}
    for key, value in records.items():
        with suppress(ValueError):
            if len(key) == 2 * _FINGERPRINT_BYTES:
                found[bytes.fromhex(key.decode())] = value.decode()
    return found


def newest_schemas(records: Mapping[bytes, bytes]) -> dict[bytes, str]:
    """Return ``writer_schemas``, after a check of the manifest among ``records``.

    Raises ``NewerFormat`` if the manifest was raised to a format that this code does not know, ``JournalMismatch`` if
    it cannot be read.
    """
    manifest = records.get(MANIFEST_KEY)
    if manifest is not None:
        Manifest.from_bytes(manifest)
    return writer_schemas(records)


def refuse_older_format(journal: str, journal_format: int) -> None:
    """Raise ``OlderFormat`` unless this code may write into a journal of that format: older programs read it too."""
    if journal_format < FORMAT:
        raise OlderFormat("the journal has an older format", journal=journal, format=journal_format, known=FORMAT)


class Manifest(FrozenStruct, frozen=True, kw_only=True):
    """The description of a journal. ``create_topics`` writes it once; ``seekpoint upgrade`` raises its format."""

    journal: str
    format: int
    partitions: int
    topic_ids: Mapping[str, str]
    limits: Limits

    def to_bytes(self) -> bytes:
        """Return the manifest as JSON with sorted keys."""
        return orjson.dumps(
            {
                "journal": self.journal,
                "format": self.format,
                "partitions": self.partitions,
                "topic_ids": dict(self.topic_ids),
                "limits": asdict(self.limits),
            },
            option=orjson.OPT_SORT_KEYS,
        )

    @classmethod
    def from_bytes(cls, data: bytes) -> Manifest:
        """Return the manifest in ``data``.

        Raises ``NewerFormat`` for a newer format, before it reads any other field, and ``JournalMismatch`` if ``data``
        is no manifest.
        """
        try:
            raw = orjson.loads(data)
            journal_format = int(raw["format"])
            if journal_format > FORMAT:
                raise NewerFormat(
                    "the journal has a newer format than this code knows", format=journal_format, known=FORMAT
                )
            known = {field.name for field in fields(Limits)}
            limits = Limits(**{name: int(value) for name, value in raw["limits"].items() if name in known})
            return cls(
                journal=str(raw["journal"]),
                format=journal_format,
                partitions=int(raw["partitions"]),
                topic_ids={str(topic): str(topic_id) for topic, topic_id in raw["topic_ids"].items()},
                limits=limits,
            )
        except (KeyError, TypeError, ValueError, AttributeError) as exc:
            raise JournalMismatch("the manifest in the schemas topic cannot be read", found=data[:80]) from exc

    def check(self, partitions: int, topic_ids: Mapping[str, str]) -> None:
        """Compare the manifest with the topics. Raises ``JournalMismatch``, which names the first difference."""
        if partitions != self.partitions:
            raise JournalMismatch(
                "the journal's partition count changed: keys would map elsewhere",
                journal=self.journal,
                expected=self.partitions,
                found=partitions,
            )
        for topic, topic_id in self.topic_ids.items():
            if topic_ids.get(topic) != topic_id:
                raise JournalMismatch(
                    "a topic of the journal was deleted or re-created",
                    topic=topic,
                    expected=topic_id,
                    found=topic_ids.get(topic),
                )
