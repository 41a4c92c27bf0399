"""Compare the topics of a journal with their required settings. Pure: facts in, findings out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from seekpoint.compose.topic_plan import PARTITIONED, PINNED, Severity, TopicPlan
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.errors import JournalMismatch
from seekpoint.schemas.log.manifest import FORMAT, Manifest

_REPLICATION_SAFE = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicFacts:
    """A topic as Kafka describes it. ``replication`` and ``in_sync`` are those of the partition with the fewest."""

    name: str
    topic_id: str
    partitions: int
    replication: int
    config: Mapping[str, str] = field(default_factory=dict)
    in_sync: int | None = None
    """The number of replicas in sync; None if it is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicFinding:
    """A difference between a topic and its required settings, with advice."""

    topic: str
    setting: str
    expected: str
    found: str
    severity: Severity
    advice: str

    def mismatch(self) -> JournalMismatch:
        """Return the finding as an error."""
        return JournalMismatch(
            f"the topic {self.topic} has a wrong setting: {self.setting}",
            topic=self.topic,
            setting=self.setting,
            expected=self.expected,
            found=self.found,
            hint=self.advice,
        )


def compare(plans: Sequence[TopicPlan], facts: Mapping[str, TopicFacts], replication: int | None) -> list[TopicFinding]:
    """Return the differences of each topic. ``replication`` is the configured number of replicas, or None."""
    findings: list[TopicFinding] = []
    for plan in plans:
        found = facts.get(plan.name)
        if found is None:
            findings.append(_missing(plan))
        else:
            findings += [*_partitions(plan, found), *_replication(found, replication), *_settings(plan, found)]
    return findings


def first_error(findings: Sequence[TopicFinding]) -> TopicFinding | None:
    """Return the first finding that is an error."""
    return next((finding for finding in findings if finding.severity == "error"), None)


def make_manifest(settings: Settings, facts: Mapping[str, TopicFacts], like: Manifest) -> Manifest:
    """Return the manifest of these topics, with the format and limits of ``like``."""
    names = [settings.topic_name(kind) for kind in PINNED]
    return Manifest(
        journal=settings.journal,
        format=like.format,
        partitions=facts[settings.topic_name("journal")].partitions,
        topic_ids={name: facts[name].topic_id for name in names},
        limits=like.limits,
    )


def compare_manifest(
    settings: Settings, manifest: Manifest | None, schema_known: bool, facts: Mapping[str, TopicFacts]
) -> list[TopicFinding]:
    """Compare the manifest of the journal with the existing topics."""
    schemas = settings.topic_name("schemas")
    if manifest is None:
        return [_finding(schemas, "manifest", "a manifest", "none", "write it: seekpoint topics create")]
    findings = []
    if manifest.journal != settings.journal:
        advice = "these are another journal's topics: check the journal's name"
        findings.append(_finding(schemas, "manifest journal", settings.journal, manifest.journal, advice))
    journal = facts.get(settings.topic_name("journal"))
    if journal is not None and journal.partitions != manifest.partitions:
        advice = "partitions were added: keys map elsewhere now; copy the journal into new topics"
        expected, found = str(manifest.partitions), str(journal.partitions)
        findings.append(_finding(journal.name, "partitions in the manifest", expected, found, advice))
    for topic, topic_id in manifest.topic_ids.items():
        is_now = facts[topic].topic_id if topic in facts else "none"
        if is_now != topic_id:
            advice = "the topic was deleted or re-created; its entries are gone: restore it, or begin a new journal"
            findings.append(_finding(topic, "topic id", topic_id, is_now, advice))
    if manifest.format < FORMAT:
        advice = "this version only reads it: stop the programs of older versions, then run seekpoint upgrade"
        findings.append(_finding(schemas, "format", str(FORMAT), str(manifest.format), advice, "warning"))
    elif not schema_known:
        advice = f"register the writer schema of format {FORMAT}: seekpoint topics create"
        findings.append(_finding(schemas, "writer schema", "registered", "missing", advice))
    return findings


def _finding(
    topic: str, setting: str, expected: str, found: str, advice: str, severity: Severity = "error"
) -> TopicFinding:
    return TopicFinding(topic=topic, setting=setting, expected=expected, found=found, severity=severity, advice=advice)


def _missing(plan: TopicPlan) -> TopicFinding:
    return _finding(plan.name, "topic", "exists", "missing", "create it: seekpoint topics create")


def _partitions(plan: TopicPlan, found: TopicFacts) -> list[TopicFinding]:
    if found.partitions == plan.partitions:
        return []
    advice = "set partitions to what the journal has, or use another journal name; a count cannot be changed"
    if plan.kind not in PARTITIONED:  # whatever the settings say
        advice = "it always has one partition: stop the programs, delete it, then run seekpoint topics create"
        if plan.kind == "schemas":
            advice = "it always has one partition: save it (seekpoint topics manifest), delete it, restore it"
    return [_finding(plan.name, "partitions", str(plan.partitions), str(found.partitions), advice)]


def _replication(found: TopicFacts, configured: int | None) -> list[TopicFinding]:
    expected = configured or _REPLICATION_SAFE
    if found.replication >= max(expected, _REPLICATION_SAFE):
        return []
    short = configured is not None and found.replication < configured
    advice = "enough on one machine; elsewhere run three brokers and add replicas: kafka-reassign-partitions"
    severity: Severity = "error" if short else "warning"
    return [
        _finding(
            found.name,
            "replication factor",
            str(max(expected, _REPLICATION_SAFE)),
            str(found.replication),
            advice,
            severity,
        )
    ]


def _settings(plan: TopicPlan, found: TopicFacts) -> list[TopicFinding]:
    findings = []
    for rule in plan.rules:
        value = found.config.get(rule.setting)
        if not rule.fits(value):
            advice = f"{rule.why}; {_alter(plan.name, rule.setting, rule.value)}"
            shown = "none" if value is None else value
            findings.append(_finding(plan.name, rule.setting, rule.expected, shown, advice, rule.severity))
    for setting, value in plan.extras.items():
        is_now = found.config.get(setting)
        if is_now != value:
            advice = f"your settings ask for it; {_alter(plan.name, setting, value)}"
            findings.append(_finding(plan.name, setting, value, str(is_now), advice, "warning"))
    return findings


def _alter(topic: str, setting: str, value: str) -> str:
    return f"kafka-configs --alter --topic {topic} --add-config {setting}={value}"
