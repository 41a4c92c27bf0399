"""The translation of librdkafka's errors into ``SeekpointError``. It knows their names, and not the client."""

from __future__ import annotations

from datetime import UTC, datetime

from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.errors import (
    InvalidSetting,
    JournalFull,
    JournalMismatch,
    JournalUnavailable,
    LimitExceeded,
    LogDamaged,
    SeekpointError,
)
from seekpoint.schemas.log.safe_reading import DAMAGED_RECORD_ERRORS

END_OF_PARTITION = "_PARTITION_EOF"
OUT_OF_RANGE = frozenset({"_AUTO_OFFSET_RESET", "OFFSET_OUT_OF_RANGE"})

GONE = frozenset({"UNKNOWN_TOPIC_OR_PART", "UNKNOWN_TOPIC_ID"})
"""The topic does not exist."""
NOT_FOUND = frozenset({"_UNKNOWN_TOPIC", "_UNKNOWN_PARTITION"})
"""The client found no leader: the topic is gone, or Kafka does not answer. This proves neither."""
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
"""Errors by which a broker rejects a record for good: sending it again does not help."""
_NO_ROOM = "KAFKA_STORAGE_ERROR"
"""A broker cannot write to its disk: as a rule it is full. Any record may be written once there is room."""
_TOO_LARGE = frozenset({"MSG_SIZE_TOO_LARGE", "INVALID_MSG_SIZE", "RECORD_LIST_TOO_LARGE"})
_FINAL = GONE | REFUSES | DAMAGED_RECORD_ERRORS | _TOO_LARGE | {"_FATAL", "_INVALID_ARG", "UNSUPPORTED_VERSION"}

_SET_THE_CLOCK = (
    "compare this machine's clock with the brokers' and set the wrong one (NTP); how far they may differ is the topic's"
    " message.timestamp.after.max.ms and message.timestamp.before.max.ms"
)

_SET_THE_SIZE = (
    "set max.message.bytes of the topic to what seekpoint topics check says; a cluster that caps it lower takes only"
    " smaller entries"
)


def passes(name: str) -> bool:
    """Return whether the client recovers from this error by itself (a broker down, a leader moving), given time."""
    return name not in _FINAL and name not in OUT_OF_RANGE


def translated(
    name: str,
    text: str,
    settings: Settings,
    *,
    topic: str | None = None,
    partition: int | None = None,
    offset: int | None = None,
) -> SeekpointError:
    """Return the ``SeekpointError`` for the client's error ``name`` with its message ``text``, without secrets."""
    error = _translated(name, settings.scrub(f"{name.strip('_')}: {text}" if text else name.strip("_")))
    error.journal, error.topic, error.partition, error.offset = settings.journal, topic, partition, offset
    return error


def _translated(name: str, reason: str) -> SeekpointError:
    if name in GONE:
        hint = "create the topics: seekpoint topics create"
        return JournalMismatch(f"a topic of the journal is not there ({reason})", hint=hint)
    if name in _TOO_LARGE:
        return LimitExceeded(f"Kafka does not take a record of this size ({reason})", hint=_SET_THE_SIZE)
    if name == _NO_ROOM:
        return JournalFull(
            f"a broker cannot write to its disk ({reason})", hint="look at the brokers' disks: make room"
        )
    if name in _FORBIDDEN:
        hint = "check the credentials in the kafka settings, and what the broker allows them"
        return JournalUnavailable(f"Kafka refuses the connection ({reason})", hint=hint)
    if name == CLOCK:
        clock = datetime.now(UTC).isoformat(timespec="seconds")
        return JournalUnavailable(
            f"Kafka refuses the time that this machine's clock gives ({reason})",
            hint=_SET_THE_CLOCK,
            clock=clock,
        )
    if name in _AGAINST_RULES:
        hint = "look at what the topic and the brokers demand of records: seekpoint topics check"
        if name == "INVALID_RECORD":  # also what Kafka says if it refuses several records of a batch for their time
            hint = f"{hint}; and {_SET_THE_CLOCK}"
        return JournalUnavailable(f"the brokers' rules refuse a record ({reason})", hint=hint)
    if name in DAMAGED_RECORD_ERRORS:
        return LogDamaged(f"records arrive damaged ({reason})")
    if name == "_INVALID_ARG":
        return InvalidSetting(f"the Kafka client refuses a setting ({reason})")
    return JournalUnavailable(f"Kafka cannot serve now ({reason})")
