"""``seekpoint topics create | check | manifest | restore``: create, audit and restore a journal's topics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from seekpoint.console.exit_codes import EXIT_FAULT
from seekpoint.console.render.output import emit, emit_json, say
from seekpoint.console.render.tables import emit_table
from seekpoint.console.services.arguments.target import CommandTarget

if TYPE_CHECKING:
    from seekpoint.schemas.log.manifest import Manifest
from seekpoint.console.render.topic_findings import FINDING_COLUMNS, grouped
from seekpoint.console.services.arguments.options import AsJson, Wide

__all__ = ["check", "create", "manifest", "restore"]


def create(target: CommandTarget, json: AsJson = False) -> None:
    """Create the journal's topics. Existing correct topics are left unchanged."""
    from seekpoint.compose import create_topics_sync

    manifest = create_topics_sync(target.require_kafka())
    if json:
        emit_json(manifest_facts(manifest))
    else:
        emit(f"journal {manifest.journal}: {manifest.partitions} partitions, format {manifest.format}")


def check(target: CommandTarget, wide: Wide = False, json: AsJson = False) -> int:
    """Compare the journal's topics with their required settings. Exits with 1 if a guarantee is missing."""
    from seekpoint.compose import check_topics_sync

    findings = check_topics_sync(target.require_kafka())
    wrong = any(finding.severity == "error" for finding in findings)
    if json:
        plain = [asdict(finding) for finding in findings]
        emit_json({"journal": target.settings.journal, "ok": not wrong, "findings": plain})
    elif findings:
        emit_table(FINDING_COLUMNS, grouped(findings), wide=wide)
    else:
        say(f"the topics of journal {target.settings.journal} have the required settings")
    return EXIT_FAULT if wrong else 0


def manifest(target: CommandTarget, json: AsJson = True) -> None:
    """Print the journal's manifest and writer schemas as JSON: a backup for ``topics restore``."""
    from seekpoint.compose import save_manifest_sync

    emit_json(save_manifest_sync(target.require_kafka()))


def restore(
    target: CommandTarget,
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE",
            help="A file that topics manifest printed, a capture (.spk), or CLUSTER/TOPIC.",
            show_default=False,
        ),
    ],
    accept_missing: Annotated[
        bool, typer.Option("--accept-missing", help="Restore even if entries name schemas that are not in the copy.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Compare; write nothing.")] = False,
    json: AsJson = False,
) -> None:
    """Restore the manifest of a journal whose schemas topic was lost, if it matches the topics and their entries."""
    from seekpoint.compose import restore_manifest_sync

    settings = target.require_kafka()
    restored = restore_manifest_sync(
        settings, _saved_records(target, source), _used_schemas(target), accept_missing=accept_missing, dry_run=dry_run
    )
    if json:
        emit_json({**manifest_facts(restored), "dry_run": dry_run})
        return
    result = "fits, nothing was written" if dry_run else "is restored; restart nodes and projectors"
    emit(f"journal {restored.journal}: the manifest {result}")


def _saved_records(target: CommandTarget, source: str) -> Mapping[bytes, bytes]:
    """Return the records of the lost schemas topic, from the copy that ``source`` names."""
    from seekpoint.compose import saved_records
    from seekpoint.schemas.errors import InvalidName

    if Path(source).is_file() and not source.endswith(".spk"):
        return saved_records(Path(source).read_bytes())
    if "/" not in source and not source.endswith(".spk"):
        raise InvalidName("no such file", file=source, hint="name a file, a capture (.spk) or CLUSTER/TOPIC")
    from seekpoint.consumers.staging.kafka_replay import open_source
    from seekpoint.schemas.config.cluster_profiles import DEFAULT_CLUSTER, Cluster, load_clusters

    own = Cluster(name=DEFAULT_CLUSTER, settings=target.settings)
    copy = open_source(source, {**load_clusters(target.config), DEFAULT_CLUSTER: own})
    try:
        return copy.schemas()
    finally:
        copy.close()


def _used_schemas(target: CommandTarget) -> set[bytes]:
    """Read the whole journal and return the fingerprints of the schemas that entries name."""
    from seekpoint.compose.topic_admin import TopicAdmin
    from seekpoint.console.render.progress import ReadingProgress
    from seekpoint.consumers.recovery.fingerprints import used_fingerprints
    from seekpoint.schemas.errors import JournalMismatch

    name = target.settings.topic_name("journal")
    found = TopicAdmin(target.settings).topics([name])
    if name not in found:
        raise JournalMismatch("the journal's topic does not exist: its entries are lost", topic=name)
    marks = [target.kafka_log.marks_of(name, partition) for partition in range(found[name].partitions)]
    with ReadingProgress("reading the journal", sum(high - low for low, high in marks)) as progress:
        return used_fingerprints(target.kafka_log, found[name].partitions, progress.advance)


def manifest_facts(manifest: Manifest) -> dict[str, Any]:
    """Return the manifest as plain data, for JSON."""
    return {
        "journal": manifest.journal,
        "format": manifest.format,
        "partitions": manifest.partitions,
        "topic_ids": dict(manifest.topic_ids),
        "limits": asdict(manifest.limits),
    }
