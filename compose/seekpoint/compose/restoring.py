"""Save the manifest, and restore it after ``NAME.schemas`` was lost, if it matches the existing topics."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import orjson

from seekpoint.compose.topic_admin import TopicAdmin, append_records, read_newest
from seekpoint.compose.topic_audit import TopicFacts, make_manifest
from seekpoint.compose.topic_plan import PINNED, plan_topics
from seekpoint.schemas.config.settings import TOPICS, Settings
from seekpoint.schemas.errors import JournalMismatch
from seekpoint.schemas.log.manifest import MANIFEST_KEY, Manifest, schema_key, writer_schemas


def save_manifest_sync(settings: Settings) -> dict[str, Any]:
    """Return the manifest and every writer schema of ``NAME.schemas`` as plain data for a file. Blocks.

    Raises ``JournalMismatch`` if there is no manifest.
    """
    schemas = settings.topic_name("schemas")
    records = read_newest(settings, schemas) if schemas in TopicAdmin(settings).topics([schemas]) else {}
    _manifest_of(records, settings)
    texts = {fingerprint.hex(): text for fingerprint, text in writer_schemas(records).items()}
    return {"manifest": orjson.loads(records[MANIFEST_KEY]), "schemas": texts}


def saved_records(data: bytes) -> dict[bytes, bytes]:
    """Parse a file of ``save_manifest_sync`` into records. Raises ``JournalMismatch`` if it is not such a file."""
    try:
        saved = orjson.loads(data)
        schemas = {schema_key(bytes.fromhex(name)): text.encode() for name, text in saved["schemas"].items()}
        return {**schemas, MANIFEST_KEY: orjson.dumps(saved["manifest"])}
    except (KeyError, TypeError, ValueError, AttributeError) as exc:
        hint = "name a file that seekpoint topics manifest wrote"
        raise JournalMismatch("the file holds no saved manifest", found=data[:80], hint=hint) from exc


def restore_manifest_sync(
    settings: Settings,
    records: Mapping[bytes, bytes],
    used: Collection[bytes],
    *,
    accept_missing: bool = False,
    dry_run: bool = False,
) -> Manifest:
    """Restore ``NAME.schemas`` from ``records``, its former content, and return the manifest. Blocks.

    ``used`` are the fingerprints of the schemas that the journal's entries name. Topic ids, partition count and schemas
    are all compared before anything is written. Raises ``JournalMismatch`` with the first difference, also if another
    manifest exists. With ``accept_missing``, entries whose schema is not in ``records`` become dead letters. With
    ``dry_run`` nothing is written.
    """
    saved = _manifest_of(records, settings)
    admin = TopicAdmin(settings)
    topics = admin.topics(map(settings.topic_name, TOPICS))
    _compare(settings, saved, topics)
    schemas = writer_schemas(records)
    unknown = sorted(set(used) - schemas.keys())
    if unknown and not accept_missing:
        raise JournalMismatch(
            "entries of the journal name schemas that are not among the saved ones",
            missing=", ".join(fingerprint.hex() for fingerprint in unknown),
            hint="use a newer copy that has them; if other programs wrote these entries by mistake: --accept-missing",
        )
    name = settings.topic_name("schemas")
    there = read_newest(settings, name) if name in topics else {}
    if MANIFEST_KEY in there:
        return _check_existing(saved, Manifest.from_bytes(there[MANIFEST_KEY]), name)
    if dry_run:
        return saved
    if name not in topics:
        replication = min(facts.replication for facts in topics.values())
        plan = next(each for each in plan_topics(settings, replication, saved.limits) if each.kind == "schemas")
        topics = {**topics, **admin.create([plan], replication)}
    manifest = make_manifest(settings, topics, saved)
    wanted = [(schema_key(fingerprint), text.encode()) for fingerprint, text in schemas.items()]
    append_records(settings, name, [*wanted, (MANIFEST_KEY, manifest.to_bytes())])
    return manifest


def _manifest_of(records: Mapping[bytes, bytes], settings: Settings) -> Manifest:
    if MANIFEST_KEY not in records:
        raise JournalMismatch("there is no manifest", journal=settings.journal, hint="use another copy of the journal")
    manifest = Manifest.from_bytes(records[MANIFEST_KEY])
    if manifest.journal != settings.journal:
        raise JournalMismatch(
            "the manifest belongs to another journal",
            expected=settings.journal, found=manifest.journal, hint="name its journal: --journal",
        )  # fmt: skip
    return manifest


def _compare(settings: Settings, saved: Manifest, topics: Mapping[str, TopicFacts]) -> None:
    """Compare the topics that the manifest pins, except the one to be restored."""
    schemas = settings.topic_name("schemas")
    for name in map(settings.topic_name, PINNED):
        is_now = topics[name].topic_id if name in topics else None
        if name != schemas and is_now != saved.topic_ids.get(name):
            raise JournalMismatch(
                "a topic is not the one that the manifest names: its own records are lost, or the copy is too old",
                topic=name, expected=saved.topic_ids.get(name), found=is_now,
                hint="restore that topic first, or create a new journal",
            )  # fmt: skip
    partitions = topics[settings.topic_name("journal")].partitions
    if partitions != saved.partitions:
        raise JournalMismatch(
            "the journal's partition count changed: keys would map elsewhere",
            expected=saved.partitions, found=partitions, hint="copy the journal into new topics",
        )  # fmt: skip


def _check_existing(saved: Manifest, there: Manifest, name: str) -> Manifest:
    """Return the existing manifest. Raises ``JournalMismatch`` if it differs in anything but the restored topic."""
    others = [{topic: topic_id for topic, topic_id in one.topic_ids.items() if topic != name} for one in (saved, there)]
    if others[0] != others[1] or (saved.partitions, saved.limits) != (there.partitions, there.limits):
        hint = "nothing has to be restored here: seekpoint topics check"
        raise JournalMismatch("another manifest is there", topic=name, hint=hint)
    return there
