"""What the doctor found, and what to do about it. Pure: facts in, findings out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from seekpoint.console.exit_codes import EXIT_FAULT, EXIT_UNREACHABLE
from seekpoint.console.render.output import counted
from seekpoint.console.services.redis_facts import RedisFacts
from seekpoint.schemas.errors import Retryable, SeekpointError
from seekpoint.schemas.state.state import State

if TYPE_CHECKING:
    from seekpoint.compose.topic_audit import TopicFacts, TopicFinding
    from seekpoint.console.services.partition_lag import PartitionLag
    from seekpoint.consumers.heartbeats.liveness import Heartbeat, HeartbeatSnapshot, Liveness

__all__ = [
    "Census",
    "Diagnosis",
    "JournalHealth",
    "dead_letters",
    "exit_code",
    "failure",
    "floors",
    "in_sync",
    "nodes",
    "permissions",
    "processes",
    "redis",
    "topics",
    "view",
]

_NAMED_MAX = 5
_PROJECTOR = "a projector keeps it: is one running?"
_NEEDS = (
    ("read", "READ", ("journal", "checkpoints", "schemas", "nodes", "deadletters")),
    ("keep dead letters", "WRITE", ("deadletters",)),
    ("run a node", "WRITE", ("journal", "nodes")),
    ("run a projector", "WRITE", ("checkpoints",)),
    ("trim", "DELETE", ("journal",)),
)
_MIN_ISR = "min.insync.replicas"


class JournalHealth(StrEnum):
    """How something is."""

    OK = "ok"
    WARNING = "warning"
    ERROR = "error"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """One thing that was looked at. ``advice`` is the next command, or empty."""

    subject: str
    health: JournalHealth
    found: str
    advice: str = ""
    unreachable: bool = False


def exit_code(diagnoses: Sequence[Diagnosis]) -> int:
    """0 if nothing is an error, 3 if Kafka could not be reached, else 1."""
    errors = [each for each in diagnoses if each.health is JournalHealth.ERROR]
    if any(each.unreachable for each in errors):
        return EXIT_UNREACHABLE
    return EXIT_FAULT if errors else 0


def failure(subject: str, error: SeekpointError) -> Diagnosis:
    """What an error says, as a finding."""
    facts = ", ".join(f"{name}={value}" for name, value in error.facts.items())
    found = f"{error.message} ({facts})" if facts else error.message
    unreachable = isinstance(error, Retryable)
    return Diagnosis(
        subject=subject, health=JournalHealth.ERROR, found=found, advice=error.hint, unreachable=unreachable
    )


def topics(findings: Sequence[TopicFinding], rows: Sequence[Sequence[object]]) -> list[Diagnosis]:
    """The audit's findings, alike ones as one of ``rows`` (see ``topics.grouped``)."""
    if not findings:
        return [Diagnosis(subject="topics", health=JournalHealth.OK, found="as they have to be")]
    return [
        Diagnosis(
            subject="topics",
            health=JournalHealth(str(severity)),
            found=f"{where}: {setting} is {found}, not {expected}",
            advice=str(advice),
        )
        for severity, where, setting, expected, found, advice in rows
    ]


def in_sync(facts: Mapping[str, TopicFacts]) -> Diagnosis:
    """Whether enough replicas are in sync to write, and whether all are."""
    known = [topic for topic in facts.values() if topic.in_sync is not None]
    short = [topic.name for topic in known if (topic.in_sync or 0) < topic.replication]
    stuck = [topic.name for topic in known if (topic.in_sync or 0) < int(topic.config.get(_MIN_ISR, "1"))]
    if stuck:
        found = f"too few replicas in sync to write: {_some(stuck)}"
        advice = "start the brokers that are down; appends wait for them"
        return Diagnosis(subject="replicas", health=JournalHealth.ERROR, found=found, advice=advice)
    if short:
        found = f"not all replicas are in sync: {_some(sorted(short))}"
        advice = "look at the brokers: one is down, or behind"
        return Diagnosis(subject="replicas", health=JournalHealth.WARNING, found=found, advice=advice)
    return Diagnosis(subject="replicas", health=JournalHealth.OK, found="all in sync")


def redis(url: str | None, found: RedisFacts | str | None) -> Diagnosis:
    """Redis is a help, not a need: without it nothing is wrong, only slower."""
    if url is None or found is None:
        return Diagnosis(
            subject="redis", health=JournalHealth.OK, found="none is set: fine, everything works from the log"
        )
    if isinstance(found, str):
        advice = "start it, or set redis_url to none; nothing is lost meanwhile"
        return Diagnosis(
            subject="redis", health=JournalHealth.WARNING, found=f"does not answer: {found}", advice=advice
        )
    if found.policy not in (None, "noeviction"):
        advice = "set maxmemory-policy to noeviction: it must not drop what it was given"
        text = f"{found.server}, maxmemory-policy {found.policy}"
        return Diagnosis(subject="redis", health=JournalHealth.WARNING, found=text, advice=advice)
    return Diagnosis(
        subject="redis", health=JournalHealth.OK, found=f"{found.server}, {found.policy or 'policy not told'}"
    )


def permissions(allowed: Mapping[str, frozenset[str]]) -> Diagnosis:
    """What the credentials in use may do, by the topics' ACLs; ``allowed`` is by the topics' words, not their names.

    That a person's may not do everything is as it should be.
    """
    can: list[str] = []
    cannot: list[str] = []
    for what, operation, topics_needed in _NEEDS:
        missing = [topic for topic in topics_needed if operation not in allowed.get(topic, frozenset())]
        if missing:
            cannot.append(f"{what} ({operation.capitalize()} on {', '.join(missing)})")
        else:
            can.append(what)
    found = f"may {', '.join(can) or 'do nothing'}" + (f"; may not {', '.join(cannot)}" if cannot else "")
    if "read" in can:
        return Diagnosis(subject="permissions", health=JournalHealth.OK, found=found)
    advice = "grant what docs/operate/connect.md lists under ACLs"
    return Diagnosis(subject="permissions", health=JournalHealth.WARNING, found=found, advice=advice)


def view(before: Sequence[PartitionLag], after: Sequence[PartitionLag], kept: bool) -> Diagnosis:
    """Whether every partition's view can be used, and moves, if there is something to do, between two looks.

    Without ``kept`` none is wanted.
    """
    if not kept:
        return Diagnosis(subject="view", health=JournalHealth.OK, found="none is kept: no redis_url is set")
    problems = {one.partition: one.problem for one in after if one.problem is not None}
    if problems:
        reasons = "; ".join(dict.fromkeys(problems.values()))
        found = f"{counted(len(problems), 'partition')} without one that could be used: {reasons}"
        return Diagnosis(subject="view", health=JournalHealth.WARNING, found=found, advice=_PROJECTOR)
    behind = sum(one.behind or 0 for one in after)
    standing = [
        str(now.partition) for was, now in zip(before, after, strict=True) if now.behind and was.applied == now.applied
    ]
    if standing:
        found = f"{counted(behind, 'offset')} behind, and standing in partition {_some(standing)}"
        return Diagnosis(subject="view", health=JournalHealth.WARNING, found=found, advice=_PROJECTOR)
    return Diagnosis(subject="view", health=JournalHealth.OK, found=f"{counted(behind, 'offset')} behind")


def floors(lags: Sequence[PartitionLag]) -> Diagnosis:
    """Whether checkpoints stand for what was trimmed, and how much of the log has to be read beyond them."""
    lost = [str(one.partition) for one in lags if one.log_start > (one.floor or 0)]
    if lost:
        found = f"the log begins above the floor in partition {_some(lost)}: history is gone that is in no checkpoint"
        advice = "who deleted records? seekpoint verify --all says which processes are whole"
        return Diagnosis(subject="floors", health=JournalHealth.ERROR, found=found, advice=advice)
    without = [str(one.partition) for one in lags if one.floor is None and one.log_end > 0]
    if without:
        found = f"none in partition {_some(without)}: recovery without the view reads it from its beginning"
        return Diagnosis(subject="floors", health=JournalHealth.WARNING, found=found, advice=_PROJECTOR)
    most = max((one.unsaved or 0 for one in lags), default=0)
    return Diagnosis(
        subject="floors", health=JournalHealth.OK, found=f"at most {counted(most, 'offset')} behind the log's end"
    )


def nodes(before: HeartbeatSnapshot, after: HeartbeatSnapshot, watched_s: float, census: Census | None) -> Diagnosis:
    """Which nodes' heartbeats moved between two looks. One that stands is a fault where its node owns a process.

    Without a ``census`` a node owns what its heartbeat names.
    """
    if not after.complete:
        return Diagnosis(
            subject="nodes",
            health=JournalHealth.WARNING,
            found="heartbeats cannot be read",
            advice="seekpoint topics check",
        )
    if not after.heartbeats:
        return Diagnosis(subject="nodes", health=JournalHealth.OK, found="none is running")
    silent = [name for name, now in after.heartbeats.items() if _stands(before.heartbeats.get(name), now)]
    moving = len(after.heartbeats) - len(silent)
    owning = sorted(name for name in silent if _owns(name, after.heartbeats[name], census))
    idle = sorted(set(silent) - set(owning))
    found = f"{moving} alive"
    if owning:
        found += f", {len(owning)} silent for {watched_s:.0f} s: {_some(owning)}"
    if idle:
        found += f", {len(idle)} silent that {'owns' if len(idle) == 1 else 'own'} nothing: {_some(idle)}"
    if owning:
        advice = "a node that died leaves its processes claimed: open them on another, it will be let in"
        if census is None:
            advice = "whether it left processes claimed: seekpoint doctor without --quick"
        return Diagnosis(subject="nodes", health=JournalHealth.WARNING, found=found, advice=advice)
    return Diagnosis(subject="nodes", health=JournalHealth.OK, found=found)


def _owns(name: str, heartbeat: Heartbeat, census: Census | None) -> bool:
    if census is None:
        return bool(heartbeat.claim_ids)
    return any((node, boot) == (name, heartbeat.boot_id) for _, node, boot, _ in census.owned)


@dataclass(slots=True)
class Census:
    """What is to be known of all processes, without their states."""

    count: int = 0
    finished: int = 0
    degraded: list[str] = field(default_factory=list)
    owned: list[tuple[str, str, str, bytes]] = field(default_factory=list)
    """Process, and its owner's node, boot and claim."""

    @classmethod
    def of(cls, states: Iterable[tuple[str, State]]) -> Census:
        """Count processes one by one; keep none of their states."""
        found = cls()
        for process_id, state in states:
            found.count += 1
            found.finished += state.finished
            if state.degraded is not None:
                found.degraded.append(process_id)
            elif state.owner is not None:
                found.owned.append((process_id, state.owner_node or "", state.owner_boot or "", state.owner))
        return found


def processes(census: Census, liveness: Liveness) -> list[Diagnosis]:
    """How many there are; which are degraded; which are owned by nobody who lives."""
    from seekpoint.consumers.heartbeats.liveness import LivenessVerdict

    text = f"{census.count}, {census.finished} of them finished"
    found = [Diagnosis(subject="processes", health=JournalHealth.OK, found=text)]
    degraded = sorted(census.degraded)
    if degraded:
        accept = f"seekpoint recover {degraded[0]} --claim --accept-degraded"
        advice = f"look: seekpoint log {degraded[0]}; accept the loss: {accept}"
        text = f"{len(degraded)} degraded: {_some(degraded)}"
        found.append(Diagnosis(subject="processes", health=JournalHealth.ERROR, found=text, advice=advice))
    left = sorted(
        name
        for name, node, boot, claim in census.owned
        if liveness.judge(node, boot, claim) in (LivenessVerdict.FREE, LivenessVerdict.DEAD)
    )
    if left:
        text = f"{len(left)} left behind by a node that is gone: {_some(left)}"
        advice = f"open them on a node that lives, or free one: seekpoint recover {left[0]} --claim"
        found.append(Diagnosis(subject="processes", health=JournalHealth.WARNING, found=text, advice=advice))
    return found


def dead_letters(count: int) -> Diagnosis:
    """Records that were no entries."""
    if not count:
        return Diagnosis(subject="dead letters", health=JournalHealth.OK, found="none")
    found = f"{counted(count, 'record')} that {'is no entry' if count == 1 else 'are no entries'}"
    return Diagnosis(subject="dead letters", health=JournalHealth.WARNING, found=found, advice="look: seekpoint dlq ls")


def _stands(before: object, now: object) -> bool:
    return before == now


def _some(names: Sequence[str]) -> str:
    more = len(names) - _NAMED_MAX
    return ", ".join(names[:_NAMED_MAX]) + (f" and {more} more" if more > 0 else "")
