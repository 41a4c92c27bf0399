"""The Kafka consumer settings that safe reading depends on. Every consumer of every root gets them here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

SAFE_CONFIG: Mapping[str, Any] = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
    "isolation.level": "read_committed",
    "auto.offset.reset": "error",
    "allow.auto.create.topics": False,
    "check.crcs": True,
}
"""With these settings a consumer reads only committed, undamaged records, and skips none."""

DAMAGED_RECORD_ERRORS = frozenset({"_BAD_MSG", "_BAD_COMPRESSION", "_NOT_IMPLEMENTED", "INVALID_MSG"})
"""The client's names of the errors for a wrong checksum, and for an unknown record format, which no checksum covers.

After such an error the client may continue at any offset, so nothing else that it returns of the partition is reliable.
"""


def safe_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``config`` with the settings for safe reading, which override those in it.

    Every constructor call of a consumer must use this function or ``watermark_config``; a test checks the sources.
    """
    return {**config, **SAFE_CONFIG}


def watermark_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a consumer that reads no records, only partition ends, uncommitted records included."""
    return {**safe_config(config), "isolation.level": "read_uncommitted"}
