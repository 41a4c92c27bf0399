"""What every Kafka consumer has, of every root: the one place of the settings that reading safely rests on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["DAMAGED", "SAFE", "asking", "safe"]

SAFE: Mapping[str, Any] = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
    "isolation.level": "read_committed",
    "auto.offset.reset": "error",
    "allow.auto.create.topics": False,
    "check.crcs": True,
}
"""What is read is committed and whole, and nothing is passed over."""

DAMAGED = frozenset({"_BAD_MSG", "_BAD_COMPRESSION", "_NOT_IMPLEMENTED", "INVALID_MSG"})
"""The client's names for a checksum that is wrong, and for a record format that does not exist, which no checksum
covers. After one of these the client goes on at any offset: what else it says of the partition is not to be believed.
"""


def safe(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``config`` with the safety settings, which win over everything in it.

    Each call of a consumer's constructor passes its configuration through here; a test reads the sources for it.
    """
    return {**config, **SAFE}


def asking(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a consumer that never reads: asked where a partition ends, it counts open transactions."""
    return {**safe(config), "isolation.level": "read_uncommitted"}
