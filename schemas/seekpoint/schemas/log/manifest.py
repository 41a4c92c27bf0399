"""The manifest: what makes a journal describe itself, kept in ``NAME.schemas`` beside the writer schemas.

Every reader and writer compares it with the topics at its start. A topic that was re-created has another id, a topic
that got more partitions maps keys elsewhere: both are a typed error, never a silent re-map.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, fields

import orjson

from seekpoint.schemas.config.limits import Limits
from seekpoint.schemas.errors import JournalMismatch, NewerFormat
from seekpoint.schemas.frozen_struct import FrozenStruct

__all__ = ["FORMAT", "MANIFEST_KEY", "Manifest", "newest_schemas", "schema_key", "writer_schemas"]

FORMAT = 1
"""The newest journal format this code reads and writes: which schema, which fold version."""

_FINGERPRINT_BYTES = 8
MANIFEST_KEY = b"\x00manifest"


def schema_key(fingerprint: bytes) -> bytes:
    """The key of a writer schema in ``NAME.schemas``: its CRC-64-AVRO fingerprint (8 bytes), in hex."""
    return fingerprint.hex().encode()


def writer_schemas(records: Mapping[bytes, bytes]) -> dict[bytes, str]:
    """The writer schemas in ``NAME.schemas``, by fingerprint: the records whose key is sixteen hex digits.

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
    """``writer_schemas`` of a journal that was read again. Raises ``NewerFormat`` if its manifest was raised meanwhile
    to a format that this code does not know, ``JournalMismatch`` if it cannot be read any more."""
    manifest = records.get(MANIFEST_KEY)
    if manifest is not None:
        Manifest.from_bytes(manifest)
    return writer_schemas(records)


class Manifest(FrozenStruct, frozen=True, kw_only=True):
    """What a journal is: written once by ``create_topics``, raised by ``seekpoint upgrade``."""

    journal: str
    format: int
    partitions: int
    topic_ids: Mapping[str, str]
    limits: Limits

    def to_bytes(self) -> bytes:
        """The manifest as JSON, keys sorted."""
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
        """The manifest in ``data``.

        Raises ``NewerFormat`` before anything else is read of a newer one, ``JournalMismatch`` if it is none.
        """
        try:
            raw = orjson.loads(data)
            newest = int(raw["format"])
            if newest > FORMAT:
                raise NewerFormat("the journal has a newer format than this code knows", format=newest, known=FORMAT)
            known = {field.name for field in fields(Limits)}
            limits = Limits(**{name: int(value) for name, value in raw["limits"].items() if name in known})
            return cls(
                journal=str(raw["journal"]),
                format=newest,
                partitions=int(raw["partitions"]),
                topic_ids={str(topic): str(topic_id) for topic, topic_id in raw["topic_ids"].items()},
                limits=limits,
            )
        except (KeyError, TypeError, ValueError, AttributeError) as exc:
            raise JournalMismatch("the manifest in the schemas topic cannot be read", found=data[:80]) from exc

    def check(self, partitions: int, topic_ids: Mapping[str, str]) -> None:
        """Compare with the topics as they are. Raises ``JournalMismatch`` naming the first difference."""
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
