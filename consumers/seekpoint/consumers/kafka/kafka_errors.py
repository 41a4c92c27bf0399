"""What librdkafka says, in our words: the one place where its errors become ours. Knows names, not the client."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.errors import (
    InvalidSetting,
    JournalMismatch,
    JournalUnavailable,
    LimitExceeded,
    LogDamaged,
    SeekpointError,
)
from seekpoint.schemas.log.safe_reading import DAMAGED

__all__ = ["CLOCK", "END_OF_PARTITION", "GONE", "NOT_FOUND", "OUT_OF_RANGE", "REFUSES", "passes", "translated"]

END_OF_PARTITION = "_PARTITION_EOF"
OUT_OF_RANGE = frozenset({"_AUTO_OFFSET_RESET", "OFFSET_OUT_OF_RANGE"})

GONE = frozenset({"UNKNOWN_TOPIC_OR_PART", "UNKNOWN_TOPIC_ID"})
"""There is no such topic."""
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
CLOCK = "INVALID_TIMESTAMP"
_AGAINST_RULES = frozenset(
    {"INVALID_RECORD", "POLICY_VIOLATION", "UNSUPPORTED_COMPRESSION_TYPE", "UNSUPPORTED_FOR_MESSAGE_FORMAT"}
)
REFUSES = _FORBIDDEN | _AGAINST_RULES | {CLOCK}
"""What a broker says of a record, and would say again: sending it once more does not help."""
_TOO_LARGE = frozenset({"MSG_SIZE_TOO_LARGE", "INVALID_MSG_SIZE", "RECORD_LIST_TOO_LARGE"})
_FINAL = GONE | REFUSES | DAMAGED | _TOO_LARGE | {"_FATAL", "_INVALID_ARG", "UNSUPPORTED_VERSION"}

_SET_THE_CLOCK = (
    "compare this machine's clock with the brokers' and set the wrong one (NTP); how far they may differ is the topic's"
    " message.timestamp.after.max.ms and message.timestamp.before.max.ms"
)

_SET_THE_SIZE = (
    "set max.message.bytes of the topic to what seekpoint topics check says; a cluster that caps it lower takes only"
    " smaller entries"
)


def passes(name: str) -> bool:
    """Whether the client goes on by itself after this error (a broker down, a leader moving): wait, with a deadline."""
    return name not in _FINAL and name not in OUT_OF_RANGE


def translated(name: str, text: str, settings: Settings, **facts: Any) -> SeekpointError:
    """The error of the client ``name`` with its message ``text``, as one of ours, without secrets."""
    said = settings.scrub(f"{name.strip('_')}: {text}" if text else name.strip("_"))
    facts = {"journal": settings.journal, **facts}
    if name in GONE:
        hint = "create the topics: seekpoint topics create"
        return JournalMismatch(f"a topic of the journal is not there ({said})", hint=hint, **facts)
    if name in _TOO_LARGE:
        return LimitExceeded(f"Kafka does not take a record of this size ({said})", hint=_SET_THE_SIZE, **facts)
    if name in _FORBIDDEN:
        hint = "check the credentials in the kafka settings, and what the broker allows them"
        return JournalUnavailable(f"Kafka refuses the connection ({said})", hint=hint, **facts)
    if name == CLOCK:
        clock = datetime.now(UTC).isoformat(timespec="seconds")
        return JournalUnavailable(
            f"Kafka refuses the time that this machine's clock gives ({said})",
            hint=_SET_THE_CLOCK,
            clock=clock,
            **facts,
        )
    if name in _AGAINST_RULES:
        hint = "look at what the topic and the brokers demand of records: seekpoint topics check"
        return JournalUnavailable(f"the brokers' rules refuse a record ({said})", hint=hint, **facts)
    if name in DAMAGED:
        return LogDamaged(f"records arrive damaged ({said})", **facts)
    if name == "_INVALID_ARG":
        return InvalidSetting(f"the Kafka client refuses a setting ({said})", **facts)
    return JournalUnavailable(f"Kafka cannot serve now ({said})", **facts)
