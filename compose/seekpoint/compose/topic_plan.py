"""The required settings of a journal's topics, with reasons. Creation and audit both use this plan. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from seekpoint.schemas.config.limits import Limits
from seekpoint.schemas.config.settings import TOPICS, Settings

RECORD_OVERHEAD_BYTES = 65_536
"""Bytes that a topic accepts beyond the limit on a record's value, for key, headers and batch."""

PINNED = ("journal", "checkpoints", "schemas", "deadletters", "inbox")
"""The topics whose ids the manifest records, because they hold lasting data. The other topics do not."""

LEADER_SUFFIX = "recovery-__assignor-__leader"
"""The name suffix of the topic with which Faust elects the leader of recovery workers. It holds no records."""

_HOUR_MS = 3_600_000
_DAY_MS = 24 * _HOUR_MS

_CLOCK_LIMITS = ("message.timestamp.after.max.ms", "message.timestamp.before.max.ms")

Severity = Literal["error", "warning"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A setting of a topic: the value at creation, the accepted values, and the reason."""

    setting: str
    value: str
    why: str
    low: int | None = None
    high: int | None = None
    severity: Severity = "error"
    is_given: bool = True
    """Whether topics are created with it. Else the broker's default applies, which older brokers do not have."""

    def fits(self, found: str | None) -> bool:
        """Whether a value is accepted: within the bounds as a number, or else equal to ``value``."""
        if found is None and not self.is_given:
            return True
        if found is None or (self.low is None and self.high is None):
            return found == self.value
        try:
            number = int(found) if found.lstrip("-").isdigit() else float(found) * _PARTS
        except ValueError:
            return False
        return (self.low is None or number >= self.low) and (self.high is None or number <= self.high)

    @property
    def expected(self) -> str:
        """The accepted values as text."""
        if self.low is None and self.high is None:
            return self.value
        if self.high is None:
            return f"at least {self.low}"
        if "." in self.value:
            return f"{(self.low or 0) / _PARTS:g} to {self.high / _PARTS:g}"
        return f"{self.low or 0} to {self.high}"


_PARTS = 1000  # fractions are compared in thousandths


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPlan:
    """The required form of a topic. ``extras`` are the user's own settings, which must match exactly."""

    kind: str
    name: str
    partitions: int
    rules: tuple[Rule, ...]
    extras: Mapping[str, str] = field(default_factory=dict)

    @property
    def config(self) -> dict[str, str]:
        """The settings for its creation."""
        return {**{rule.setting: rule.value for rule in self.rules if rule.is_given}, **self.extras}


PARTITIONED = frozenset({"journal", "checkpoints", "inbox", "recover", "recovered"})
"""The topics with the partitions of the settings; each other one has one partition."""


def replicas_in_sync(replication: int) -> int:
    """Return ``min.insync.replicas`` for a number of replicas: 2 of 3, so one broker may be down without loss."""
    return 2 if replication >= 3 else 1


def plan_topics(settings: Settings, replication: int, limits: Limits) -> tuple[TopicPlan, ...]:
    """Return the plans of all topics of the journal, in the order of ``TOPICS``."""
    return tuple(_plan(kind, settings, replication, limits) for kind in TOPICS)


def leader_plan(settings: Settings) -> TopicPlan:
    """Return the plan of the topic that recovery workers create, which need not exist."""
    return TopicPlan(kind="leader", name=f"{settings.journal}.{LEADER_SUFFIX}", partitions=1, rules=())


def _plan(kind: str, settings: Settings, replication: int, limits: Limits) -> TopicPlan:
    return TopicPlan(
        kind=kind,
        name=settings.topic_name(kind),
        partitions=settings.partitions if kind in PARTITIONED else 1,
        rules=(*_RULES[kind], *_common_rules(replication), _size_rule(kind, limits)),
        extras=dict(settings.topic) if kind == "journal" else {},
    )


def _common_rules(replication: int) -> tuple[Rule, ...]:
    in_sync = str(replicas_in_sync(replication))
    return (
        Rule(setting="min.insync.replicas", value=in_sync, why="an acknowledged entry must outlive one broker"),
        Rule(setting="unclean.leader.election.enable", value="false", why="an unclean leader loses what was confirmed"),
        Rule(setting="message.timestamp.type", value="CreateTime", why="recovery to a time reads the writer's clock"),
        Rule(
            setting="compression.type",
            value="producer",
            why="anything else makes the broker compress again",
            severity="warning",
        ),
        *_CLOCKS,
    )


def _size_rule(kind: str, limits: Limits) -> Rule:
    low = RECORD_OVERHEAD_BYTES + {
        "journal": limits.restoring_bytes,
        "checkpoints": limits.checkpoint_bytes,
        # A record of the journal, as base64.
        "deadletters": (limits.restoring_bytes + RECORD_OVERHEAD_BYTES) * 4 // 3,
    }.get(kind, limits.record_bytes)
    return Rule(setting="max.message.bytes", value=str(low), low=low, why="the journal's limits allow such a record")


_CLOCKS = tuple(
    Rule(
        setting=setting,
        value=str(_HOUR_MS),
        low=_HOUR_MS,
        why="a machine whose clock differs more from the broker's cannot write",
        severity="warning",
        is_given=False,
    )
    for setting in _CLOCK_LIMITS
)
_KEPT = (
    Rule(setting="cleanup.policy", value="delete", why="each entry counts: the journal is never compacted"),
    Rule(setting="retention.ms", value="-1", why="only `seekpoint trim` removes entries"),
    Rule(setting="retention.bytes", value="-1", why="only `seekpoint trim` removes entries"),
)
_COMPACT = Rule(setting="cleanup.policy", value="compact", why="the newest record of each key is kept for ever")
_COMPACTED = (
    _COMPACT,
    Rule(
        setting="min.cleanable.dirty.ratio",
        value="0.2",
        low=100,
        high=300,
        why="a rebuild reads what was not compacted yet",
        severity="warning",
    ),
    Rule(
        setting="max.compaction.lag.ms",
        value=str(3 * _HOUR_MS),
        low=_HOUR_MS,
        high=6 * _HOUR_MS,
        why="a rebuild reads what was not compacted yet",
        severity="warning",
    ),
    Rule(
        setting="delete.retention.ms",
        value=str(7 * _DAY_MS),
        low=7 * _DAY_MS,
        why="a reader that was away for a week must still see what was removed",
    ),
    Rule(
        setting="segment.ms",
        value=str(3 * _HOUR_MS),
        low=_HOUR_MS,
        high=6 * _HOUR_MS,
        why="the segment written to is never compacted",
        severity="warning",
    ),
)
_BOUNDED = (
    Rule(setting="cleanup.policy", value="delete", why="it holds requests and answers, which age"),
    Rule(
        setting="retention.ms",
        value=str(7 * _DAY_MS),
        low=_HOUR_MS,
        high=31 * _DAY_MS,
        why="requests and answers are read within days, and must not pile up",
        severity="warning",
    ),
)
_RULES: Mapping[str, tuple[Rule, ...]] = {
    "journal": _KEPT,
    "checkpoints": _COMPACTED,
    "schemas": _COMPACTED,
    "nodes": _COMPACTED,
    "deadletters": _COMPACTED,
    "inbox": _BOUNDED,
    "recover": _BOUNDED,
    "recovered": _BOUNDED,
}
