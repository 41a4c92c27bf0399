"""What a journal's topics have to look like, and why: the plan that creation writes and the audit compares. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from seekpoint.schemas.config.limits import Limits
from seekpoint.schemas.config.settings import TOPICS, Settings

__all__ = [
    "LEADER_SUFFIX",
    "PINNED",
    "RECORD_OVERHEAD_BYTES",
    "Rule",
    "Severity",
    "TopicPlan",
    "leader_plan",
    "plan_topics",
    "replicas_in_sync",
]

RECORD_OVERHEAD_BYTES = 65_536
"""What a topic accepts beyond the limit on a record's value: key, headers, the batch around it."""

PINNED = ("journal", "checkpoints", "schemas", "deadletters", "inbox")
"""The topics whose ids the manifest keeps: what is lost with them is lost. The others hold nothing that lasts."""

LEADER_SUFFIX = "recovery-__assignor-__leader"
"""Of the topic by which Faust chooses the leader of the recovery workers, who make it. Nothing is written to it."""

_HOUR_MS = 3_600_000
_DAY_MS = 24 * _HOUR_MS

_CLOCK_LIMITS = ("message.timestamp.after.max.ms", "message.timestamp.before.max.ms")

Severity = Literal["error", "warning"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One setting of a topic: the value it is created with, the values that are fine, and what rests on it."""

    setting: str
    value: str
    why: str
    low: int | None = None
    high: int | None = None
    severity: Severity = "error"
    is_given: bool = True
    """Whether topics are created with it; else the brokers' default stands, and older brokers have none."""

    def fits(self, found: str | None) -> bool:
        """Whether a topic with this value is fine. Bounds make it a number; without bounds only ``value`` is."""
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
        """The values that are fine, in words."""
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
    """A topic as it has to be. ``extras`` are the user's own settings, exact."""

    kind: str
    name: str
    partitions: int
    rules: tuple[Rule, ...]
    extras: Mapping[str, str] = field(default_factory=dict)

    @property
    def config(self) -> dict[str, str]:
        """The settings to create it with."""
        return {**{rule.setting: rule.value for rule in self.rules if rule.is_given}, **self.extras}


def replicas_in_sync(replication: int) -> int:
    """``min.insync.replicas`` for so many replicas: 2 of 3, so that one broker may be down and nothing is lost."""
    return 2 if replication >= 3 else 1


def plan_topics(settings: Settings, replication: int, limits: Limits) -> tuple[TopicPlan, ...]:
    """All topics of the journal, in the order of ``TOPICS``."""
    return tuple(_plan(kind, settings, replication, limits) for kind in TOPICS)


def leader_plan(settings: Settings) -> TopicPlan:
    """The topic that recovery workers make for themselves, as it has to be if it is there."""
    return TopicPlan(kind="leader", name=f"{settings.journal}.{LEADER_SUFFIX}", partitions=1, rules=())


def _plan(kind: str, settings: Settings, replication: int, limits: Limits) -> TopicPlan:
    partitioned = kind in ("journal", "checkpoints", "inbox", "recover", "recovered")
    return TopicPlan(
        kind=kind,
        name=settings.topic_name(kind),
        partitions=settings.partitions if partitioned else 1,
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
        # What the journal took, as base64.
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
