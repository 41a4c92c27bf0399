"""What librdkafka says, in our words: the one place where its errors become ours. Knows names, not the client."""

from __future__ import annotations

from typing import Any

from seekpoint.schemas.errors import (
    InvalidSetting,
    JournalMismatch,
    JournalUnavailable,
    LimitExceeded,
    LogDamaged,
    SeekpointError,
)
from seekpoint.schemas.reading import DAMAGED
from seekpoint.schemas.settings import Settings

__all__ = ["END_OF_PARTITION", "NOT_FOUND", "OUT_OF_RANGE", "passes", "translated"]

END_OF_PARTITION = "_PARTITION_EOF"
OUT_OF_RANGE = frozenset({"_AUTO_OFFSET_RESET", "OFFSET_OUT_OF_RANGE"})

_GONE = frozenset({"UNKNOWN_TOPIC_OR_PART", "UNKNOWN_TOPIC_ID"})
NOT_FOUND = frozenset({"_UNKNOWN_TOPIC", "_UNKNOWN_PARTITION"})
"""The client found no leader: the topic is gone, or only Kafka silent. No proof of either."""
_FORBIDDEN = frozenset(
    {
        "_AUTHENTICATION",
        "CLUSTER_AUTHORIZATION_FAILED",
        "GROUP_AUTHORIZATION_FAILED",
        "SASL_AUTHENTICATION_FAILED",
        "TOPIC_AUTHORIZATION_FAILED",
    }
)
_TOO_LARGE = frozenset({"MSG_SIZE_TOO_LARGE", "INVALID_MSG_SIZE", "RECORD_LIST_TOO_LARGE"})
_FINAL = _GONE | _FORBIDDEN | DAMAGED | _TOO_LARGE | {"_FATAL", "_INVALID_ARG", "UNSUPPORTED_VERSION"}


def passes(name: str) -> bool:
    """Whether the client goes on by itself after this error (a broker down, a leader moving): wait, with a deadline."""
    return name not in _FINAL and name not in OUT_OF_RANGE


def translated(name: str, text: str, settings: Settings, **facts: Any) -> SeekpointError:
    """The error of the client ``name`` with its message ``text``, as one of ours, without secrets."""
    said = settings.scrub(f"{name.strip('_')}: {text}" if text else name.strip("_"))
    facts = {"journal": settings.journal, **facts}
    if name in _GONE:
        hint = "create the topics: seekpoint topics create"
        return JournalMismatch(f"a topic of the journal is not there ({said})", hint=hint, **facts)
    if name in _TOO_LARGE:
        return LimitExceeded(f"Kafka does not take a record of this size ({said})", **facts)
    if name in _FORBIDDEN:
        hint = "check the credentials in the kafka settings, and what the broker allows them"
        return JournalUnavailable(f"Kafka refuses the connection ({said})", hint=hint, **facts)
    if name in DAMAGED:
        return LogDamaged(f"records arrive damaged ({said})", **facts)
    if name == "_INVALID_ARG":
        return InvalidSetting(f"the Kafka client refuses a setting ({said})", **facts)
    return JournalUnavailable(f"Kafka cannot serve now ({said})", **facts)
