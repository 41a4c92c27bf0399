"""The codec of what was journaled elsewhere: made of what lies in the schemas topic beside it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from seekpoint.schemas.config.limits import DEFAULT_LIMITS
from seekpoint.schemas.log.manifest import MANIFEST_KEY, Manifest, newest_schemas, writer_schemas
from seekpoint.schemas.wire.codec import Codec

__all__ = ["codec_of"]


def codec_of(records: Mapping[bytes, bytes], again: Callable[[], Mapping[bytes, bytes]] | None = None) -> Codec:
    """With its manifest's limits and writers' schemas; ``again`` reads the topic anew, for one that is not there."""
    limits = Manifest.from_bytes(records[MANIFEST_KEY]).limits if MANIFEST_KEY in records else DEFAULT_LIMITS
    return Codec(limits, writer_schemas(records), None if again is None else lambda: newest_schemas(again()))
