"""Create and audit the topics of a journal on Kafka. ``topic_plan`` and ``topic_audit`` hold the rules."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace

from seekpoint.compose.topic_admin import TopicAdmin, append_records, read_newest
from seekpoint.compose.topic_audit import (
    TopicFacts,
    TopicFinding,
    compare,
    compare_manifest,
    first_error,
    make_manifest,
)
from seekpoint.compose.topic_plan import leader_plan, plan_topics
from seekpoint.schemas.config.limits import DEFAULT_LIMITS, Limits
from seekpoint.schemas.config.settings import TOPICS, Settings
from seekpoint.schemas.errors import JournalMismatch, JournalUnavailable
from seekpoint.schemas.log.manifest import FORMAT, MANIFEST_KEY, Manifest, schema_key
from seekpoint.schemas.wire.codec import SCHEMA_FINGERPRINT, schema_json

_logger = logging.getLogger("seekpoint.compose")


async def create_topics(settings: Settings, *, limits: Limits = DEFAULT_LIMITS) -> Manifest:
    """Create the missing topics of the journal and return its manifest. Idempotent, also for concurrent callers.

    ``limits`` apply to a new journal; an existing one keeps its own. Raises ``JournalMismatch`` with topic, setting,
    expected and found if an existing topic has wrong settings (nothing is changed), and ``JournalUnavailable`` if
    Kafka does not answer within ``start_timeout_s``. Warnings go to the log.
    """
    return await asyncio.to_thread(create_topics_sync, settings, limits=limits)


async def check_topics(settings: Settings) -> list[TopicFinding]:
    """Return every difference between the journal's topics and their required settings. Change nothing."""
    return await asyncio.to_thread(check_topics_sync, settings)


def create_topics_sync(settings: Settings, *, limits: Limits = DEFAULT_LIMITS) -> Manifest:
    """Do the work of ``create_topics`` without an event loop. Blocks."""
    admin = TopicAdmin(settings)
    known = _existing_topics(admin, settings)
    template = known.manifest or Manifest(
        journal=settings.journal, format=FORMAT, partitions=settings.partitions, topic_ids={}, limits=limits
    )
    _refuse_lost_history(admin, settings, known)
    replication = settings.replication_factor or min(3, admin.brokers())
    plans = plan_topics(settings, replication, template.limits)
    _refuse([finding for finding in _differences(settings, known, template) if finding.setting != "topic"])
    created = admin.create([plan for plan in plans if plan.name not in known.topics], replication)
    known = _KnownTopics(manifest=known.manifest, schema_known=known.schema_known, topics={**known.topics, **created})
    findings = _differences(settings, known, template)
    _refuse(findings)
    _log_warnings(findings)
    return _publish(settings, known, template)


def check_topics_sync(settings: Settings) -> list[TopicFinding]:
    """Do the work of ``check_topics`` without an event loop. Blocks."""
    admin = TopicAdmin(settings)
    known = _existing_topics(admin, settings)
    limits = known.manifest.limits if known.manifest else DEFAULT_LIMITS
    template = Manifest(
        journal=settings.journal, format=FORMAT, partitions=settings.partitions, topic_ids={}, limits=limits
    )
    findings = _differences(settings, known, template)
    findings += _leader_differences(admin, settings)
    if settings.topic_name("schemas") in known.topics:
        findings += compare_manifest(settings, known.manifest, known.schema_known, known.topics)
    return findings


def raise_format_sync(settings: Settings) -> Manifest:
    """Raise the journal's format to that of this code, and return its manifest. Idempotent. Blocks.

    Raises ``JournalMismatch`` if the journal has no manifest.
    """
    schemas = settings.topic_name("schemas")
    raw = read_newest(settings, schemas).get(MANIFEST_KEY)
    if raw is None:
        raise JournalMismatch(
            "the journal has no manifest", journal=settings.journal, hint="create it: seekpoint topics create"
        )
    manifest = Manifest.from_bytes(raw)
    if manifest.format < FORMAT:
        manifest = replace(manifest, format=FORMAT)
        append_records(settings, schemas, [_own_schema(), (MANIFEST_KEY, manifest.to_bytes())])
    return manifest


def _own_schema() -> tuple[bytes, bytes]:
    return schema_key(SCHEMA_FINGERPRINT), schema_json().encode()


@dataclass(frozen=True, slots=True, kw_only=True)
class _KnownTopics:
    """The existing topics, manifest and schema of a journal."""

    topics: Mapping[str, TopicFacts]
    manifest: Manifest | None
    schema_known: bool


def _existing_topics(admin: TopicAdmin, settings: Settings) -> _KnownTopics:
    topics = admin.topics(map(settings.topic_name, TOPICS))
    schemas = settings.topic_name("schemas")
    records: dict[bytes, bytes] = {}
    if schemas in topics:
        try:
            records = read_newest(settings, schemas, lambda: schemas in admin.topics([schemas]))
        except JournalUnavailable:
            topics = admin.topics(map(settings.topic_name, TOPICS))
            if schemas in topics:
                raise
    manifest = Manifest.from_bytes(records[MANIFEST_KEY]) if MANIFEST_KEY in records else None
    return _KnownTopics(topics=topics, manifest=manifest, schema_known=schema_key(SCHEMA_FINGERPRINT) in records)


def _differences(settings: Settings, known: _KnownTopics, template: Manifest) -> list[TopicFinding]:
    """Compare each topic with the plan for its number of replicas: 2 in sync of 1 replica could never be written."""
    findings = []
    for kind in TOPICS:
        name = settings.topic_name(kind)
        facts = known.topics.get(name)
        plans = plan_topics(settings, facts.replication if facts else 1, template.limits)
        plan = next(plan for plan in plans if plan.kind == kind)
        findings += compare([plan], known.topics, settings.replication_factor)
    return findings


def _leader_differences(admin: TopicAdmin, settings: Settings) -> list[TopicFinding]:
    """Compare the topic with which recovery workers elect their leader. It exists only if a worker has run.

    With a single replica, one broker that is down stops all workers.
    """
    plan = leader_plan(settings)
    found = admin.topics([plan.name])
    return compare([plan], found, settings.replication_factor) if found else []


def _refuse(findings: list[TopicFinding]) -> None:
    error = first_error(findings)
    if error is not None:
        raise error.mismatch()


def _refuse_lost_history(admin: TopicAdmin, settings: Settings, known: _KnownTopics) -> None:
    """Raise if a topic of the manifest is missing, or if there are entries without a manifest."""
    if known.manifest is not None:
        _refuse(compare_manifest(settings, known.manifest, True, known.topics))
        return
    journal = known.topics.get(settings.topic_name("journal"))
    if journal is not None and not admin.is_empty(journal):
        raise JournalMismatch(
            "the journal's topic holds entries, but its manifest is gone",
            topic=journal.name,
            setting="manifest",
            expected="a manifest",
            found="none",
            hint="restore it from a copy: seekpoint topics restore; or use another journal name",
        )


def _publish(settings: Settings, known: _KnownTopics, template: Manifest) -> Manifest:
    """Write the missing schema and manifest. The schema comes first, so each manifest has its schema."""
    manifest = known.manifest or make_manifest(settings, known.topics, template)
    records = []
    if not known.schema_known and manifest.format == FORMAT:
        records.append(_own_schema())
    if known.manifest is None:
        records.append((MANIFEST_KEY, manifest.to_bytes()))
    if records:
        append_records(settings, settings.topic_name("schemas"), records)
    return manifest


def _log_warnings(findings: list[TopicFinding]) -> None:
    """Log one warning per setting, with all topics that it concerns."""
    for setting in dict.fromkeys(finding.setting for finding in findings):
        same = [finding for finding in findings if finding.setting == setting]
        where = same[0].topic if len(same) == 1 else f"{len(same)} topics"
        _logger.warning("%s is %s, not %s (%s); %s", setting, same[0].found, same[0].expected, where, same[0].advice)
