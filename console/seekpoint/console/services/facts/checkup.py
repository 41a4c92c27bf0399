"""The checks of ``seekpoint doctor``: pure functions that turn facts into diagnoses with advice."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from seekpoint.console.exit_codes import EXIT_FAULT, EXIT_UNREACHABLE
from seekpoint.console.render.output import counted
from seekpoint.console.services.facts.redis_facts import RedisFacts
from seekpoint.schemas.errors import Retryable, SeekpointError, TransactionOpen
from seekpoint.schemas.state.process_state import State
from seekpoint.schemas.values.process_ids import pasted

if TYPE_CHECKING:
    from seekpoint.compose.topic_audit import TopicFacts, TopicFinding
    from seekpoint.console.services.facts.partition_lag import PartitionLag
    from seekpoint.consumers.heartbeats.liveness import Heartbeat, HeartbeatSnapshot, Liveness

_NAMED_MAX = 5
_PROJECTOR = "check that a projector runs: seekpoint serve projector"
_NEEDS = (
    ("read", "READ", ("journal", "checkpoints", "schemas", "nodes", "deadletters")),
    ("keep dead letters", "WRITE", ("deadletters",)),
    ("run a node", "WRITE", ("journal", "nodes")),
    ("run a projector", "WRITE", ("checkpoints",)),
    ("trim", "DELETE", ("journal",)),
)
_MIN_ISR = "min.insync.replicas"


class JournalHealth(StrEnum):
    """The result of a check."""

    OK = "ok"
    WARNING = "warning"
    ERROR = "error"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """The result of one check. ``advice`` is the next command, or empty."""

    subject: str
    health: JournalHealth
    found: str
    advice: str = ""
    unreachable: bool = False


def exit_code(diagnoses: Sequence[Diagnosis]) -> int:
    """Return 0 if no diagnosis is an error, 3 if Kafka could not be reached, else 1."""
    errors = [each for each in diagnoses if each.health is JournalHealth.ERROR]
    if any(each.unreachable for each in errors):
        return EXIT_UNREACHABLE
    return EXIT_FAULT if errors else 0


def failure(subject: str, error: SeekpointError) -> Diagnosis:
    """Return an error as a diagnosis."""
    facts = ", ".join(f"{name}={value}" for name, value in error.facts.items())
    found = f"{error.message} ({facts})" if facts else error.message
    unreachable = isinstance(error, Retryable)
    return Diagnosis(
        subject=subject, health=JournalHealth.ERROR, found=found, advice=error.hint, unreachable=unreachable
    )


def topics(findings: Sequence[TopicFinding], rows: Sequence[Sequence[object]]) -> list[Diagnosis]:
    """Return the findings of the topic audit, one diagnosis per row of ``grouped(findings)``."""
    if not findings:
        return [Diagnosis(subject="topics", health=JournalHealth.OK, found="as required")]
    return [
        Diagnosis(
            subject="topics",
            health=JournalHealth(str(severity)),
            found=f"{where}: {setting} is {found}, not {expected}",
            advice=str(advice),
        )
        for severity, where, setting, expected, found, advice in rows
    ]


def transactions(journal: str, hidden: Mapping[tuple[str, int], int]) -> list[Diagnosis]:
    """Report what open transactions of other producers hide: by topic and partition, the first hidden offset."""
    return [
        Diagnosis(
            subject="transactions",
            health=JournalHealth.ERROR,
            found=f"an open transaction of another producer hides {journal}.{kind}, partition {partition}, from"
            f" {offset} on",
            advice=TransactionOpen.hint,
        )
        for (kind, partition), offset in hidden.items()
    ]


def in_sync(facts: Mapping[str, TopicFacts]) -> Diagnosis:
    """Check whether enough replicas are in sync to write, and whether all are."""
    known = [topic for topic in facts.values() if topic.in_sync is not None]
    short = [topic.name for topic in known if (topic.in_sync or 0) < topic.replication]
    stuck = [  # brokers take no more than all replicas for the least number in sync
        topic.name
        for topic in known
        if (topic.in_sync or 0) < min(int(topic.config.get(_MIN_ISR, "1")), topic.replication)
    ]
    if stuck:
        found = f"too few replicas in sync to write: {_some(stuck)}"
        advice = "start the brokers that are down; appends wait for them"
        return Diagnosis(subject="replicas", health=JournalHealth.ERROR, found=found, advice=advice)
    if short:
        found = f"not all replicas are in sync: {_some(sorted(short))}"
        advice = "check the brokers: one is down or behind"
        return Diagnosis(subject="replicas", health=JournalHealth.WARNING, found=found, advice=advice)
    return Diagnosis(subject="replicas", health=JournalHealth.OK, found="all in sync")


def redis(url: str | None, found: RedisFacts | str | None) -> Diagnosis:
    """Check Redis. It is optional: without it Seekpoint is slower but correct."""
    if url is None or found is None:
        return Diagnosis(
            subject="redis", health=JournalHealth.OK, found="not configured: everything works from the log"
        )
    if isinstance(found, str):
        advice = "start it, or set redis_url to none; nothing is lost meanwhile"
        return Diagnosis(
            subject="redis", health=JournalHealth.WARNING, found=f"does not answer: {found}", advice=advice
        )
    if found.policy not in (None, "noeviction"):
        advice = "set maxmemory-policy to noeviction: Redis must not evict keys of the view"
        text = f"{found.server}, maxmemory-policy {found.policy}"
        return Diagnosis(subject="redis", health=JournalHealth.WARNING, found=text, advice=advice)
    return Diagnosis(
        subject="redis", health=JournalHealth.OK, found=f"{found.server}, {found.policy or 'eviction policy unknown'}"
    )


def permissions(allowed: Mapping[str, frozenset[str]]) -> Diagnosis:
    """Check what the current credentials may do by Kafka's ACLs. The keys of ``allowed`` are kinds of topics.

    Credentials without all permissions are no problem as long as they can read.
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


def view(before: Sequence[PartitionLag], after: Sequence[PartitionLag], is_configured: bool) -> Diagnosis:
    """Check whether each partition's view is usable, and makes progress between two observations if it is behind.

    ``is_configured`` is False if the settings name no Redis.
    """
    if not is_configured:
        return Diagnosis(subject="view", health=JournalHealth.OK, found="no view: redis_url is not set")
    problems = {one.partition: one.problem for one in after if one.problem is not None}
    if problems:
        reasons = "; ".join(dict.fromkeys(problems.values()))
        found = f"{counted(len(problems), 'partition')} without a usable view: {reasons}"
        return Diagnosis(subject="view", health=JournalHealth.WARNING, found=found, advice=_PROJECTOR)
    behind = sum(one.behind or 0 for one in after)
    stalled = [
        str(now.partition) for was, now in zip(before, after, strict=True) if now.behind and was.applied == now.applied
    ]
    if stalled:
        found = f"{counted(behind, 'offset')} behind, and no progress in partition {_some(stalled)}"
        return Diagnosis(subject="view", health=JournalHealth.WARNING, found=found, advice=_PROJECTOR)
    return Diagnosis(subject="view", health=JournalHealth.OK, found=f"{counted(behind, 'offset')} behind")


def floors(lags: Sequence[PartitionLag]) -> Diagnosis:
    """Check whether checkpoints cover trimmed entries, and how much of the log a recovery has to read."""
    lost = [str(one.partition) for one in lags if one.log_start > (one.floor or 0)]
    if lost:
        found = f"the log begins above the floor in partition {_some(lost)}: deleted history is in no checkpoint"
        advice = "find out who deleted records; list intact processes: seekpoint verify --all"
        return Diagnosis(subject="floors", health=JournalHealth.ERROR, found=found, advice=advice)
    without = [str(one.partition) for one in lags if one.floor is None and one.log_end > 0]
    if without:
        found = f"none in partition {_some(without)}: recovery without the view reads the whole partition"
        return Diagnosis(subject="floors", health=JournalHealth.WARNING, found=found, advice=_PROJECTOR)
    most = max((one.unsaved or 0 for one in lags), default=0)
    return Diagnosis(
        subject="floors", health=JournalHealth.OK, found=f"at most {counted(most, 'offset')} behind the log's end"
    )


def nodes(before: HeartbeatSnapshot, after: HeartbeatSnapshot, watched_s: float, census: Census | None) -> Diagnosis:
    """Check which heartbeats moved between two observations. A silent node that owns a process is a fault.

    Without a ``census`` the heartbeat says what its node owns.
    """
    if not after.complete:
        return Diagnosis(
            subject="nodes",
            health=JournalHealth.WARNING,
            found="heartbeats cannot be read",
            advice="seekpoint topics check",
        )
    if not after.heartbeats:
        return Diagnosis(subject="nodes", health=JournalHealth.OK, found="no node is running")
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
        advice = "a dead node leaves its processes claimed: open them on another node"
        if census is None:
            advice = "check for processes it left claimed: seekpoint doctor without --quick"
        advice += "; if its program runs, a quota of Kafka may delay it"
        return Diagnosis(subject="nodes", health=JournalHealth.WARNING, found=found, advice=advice)
    return Diagnosis(subject="nodes", health=JournalHealth.OK, found=found)


def _owns(name: str, heartbeat: Heartbeat, census: Census | None) -> bool:
    if census is None:
        return bool(heartbeat.claim_ids)
    return any((node, boot) == (name, heartbeat.boot_id) for _, node, boot, _ in census.owned)


@dataclass(slots=True)
class Census:
    """Counts and owners of all processes, without their states."""

    count: int = 0
    finished: int = 0
    degraded: list[str] = field(default_factory=list)
    owned: list[tuple[str, str, str, bytes]] = field(default_factory=list)
    """Each owned process with its owner's node, boot and claim."""

    @classmethod
    def of(cls, states: Iterable[tuple[str, State]]) -> Census:
        """Count processes one by one without keeping their states."""
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
    """Count processes, and list those that are degraded or owned by a dead node."""
    from seekpoint.consumers.heartbeats.liveness import LivenessVerdict

    text = f"{census.count}, {census.finished} of them finished"
    found = [Diagnosis(subject="processes", health=JournalHealth.OK, found=text)]
    degraded = sorted(census.degraded)
    if degraded:
        accept = f"seekpoint recover {pasted(degraded[0])} --claim --accept-degraded"
        advice = f"see its entries: seekpoint log {pasted(degraded[0])}; accept the loss: {accept}"
        text = f"{len(degraded)} degraded: {_some(degraded)}"
        found.append(Diagnosis(subject="processes", health=JournalHealth.ERROR, found=text, advice=advice))
    left = sorted(
        name
        for name, node, boot, claim in census.owned
        if liveness.judge(node, boot, claim) in (LivenessVerdict.FREE, LivenessVerdict.DEAD)
    )
    if left:
        text = f"{len(left)} still claimed by a dead node: {_some(left)}"
        advice = f"open them on a live node, or release one: seekpoint recover {pasted(left[0])} --claim"
        found.append(Diagnosis(subject="processes", health=JournalHealth.WARNING, found=text, advice=advice))
    return found


def dead_letters(count: int) -> Diagnosis:
    """Report the number of dead letters: records that are not entries."""
    if not count:
        return Diagnosis(subject="dead letters", health=JournalHealth.OK, found="none")
    found = f"{counted(count, 'record')} that {'is not an entry' if count == 1 else 'are not entries'}"
    return Diagnosis(
        subject="dead letters", health=JournalHealth.WARNING, found=found, advice="list them: seekpoint dlq ls"
    )


def _stands(before: object, now: object) -> bool:
    return before == now


def _some(names: Sequence[str]) -> str:
    more = len(names) - _NAMED_MAX
    return ", ".join(names[:_NAMED_MAX]) + (f" and {more} more" if more > 0 else "")
