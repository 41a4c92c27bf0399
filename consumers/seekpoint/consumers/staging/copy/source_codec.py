"""The decoder of a source's entries, made from the records of its schemas topic."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from seekpoint.schemas.config.limits import DEFAULT_LIMITS
from seekpoint.schemas.log.manifest import MANIFEST_KEY, Manifest, newest_schemas, writer_schemas
from seekpoint.schemas.wire.codec import Codec


def codec_of(records: Mapping[bytes, bytes], reload: Callable[[], Mapping[bytes, bytes]] | None = None) -> Codec:
    """Return a decoder with the manifest's limits. ``reload`` reads the topic again for a missing schema."""
    limits = Manifest.from_bytes(records[MANIFEST_KEY]).limits if MANIFEST_KEY in records else DEFAULT_LIMITS
    return Codec(limits, writer_schemas(records), None if reload is None else lambda: newest_schemas(reload()))
