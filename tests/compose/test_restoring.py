"""The manifest saved, lost with its topic, and put back: only where it fits what is there. On Kafka."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient
from typer.testing import CliRunner

from raw_kafka import RawKafka
from seekpoint.compose import check_topics, restore_manifest_sync, save_manifest_sync, saved_records
from seekpoint.console.cli import app
from seekpoint.console.exit_codes import EXIT_FAULT
from seekpoint.producers import Node
from seekpoint.schemas import Settings
from seekpoint.schemas.errors import JournalMismatch
from seekpoint.schemas.log.manifest import MANIFEST_KEY
from seekpoint.schemas.wire.codec import SCHEMA_FINGERPRINT

pytestmark = pytest.mark.cluster


@pytest.fixture
async def written(journal: Settings) -> Settings:
    """A journal with entries."""
    settings = replace(journal, redis_url=None)
    async with Node.connect(settings) as node, node.open("case-1") as process:
        await process.update("city", "Oslo")
    return settings


def _lose_schemas(settings: Settings) -> None:
    admin = AdminClient({"bootstrap.servers": settings.bootstrap_servers})
    [done] = admin.delete_topics([settings.topic_name("schemas")], operation_timeout=30).values()
    done.result(30)


def _seekpoint(settings: Settings, *arguments: str) -> Any:
    environ = {
        "SEEKPOINT_JOURNAL": settings.journal,
        "SEEKPOINT_BOOTSTRAP_SERVERS": settings.bootstrap_servers,
        "SEEKPOINT_REDIS_URL": "",
        "SEEKPOINT_PARTITIONS": str(settings.partitions),
    }
    return CliRunner().invoke(app, arguments, env=environ)


def _restored(settings: Settings) -> None:
    """All is well, and the process goes on."""
    assert [one for one in asyncio.run(check_topics(settings)) if one.severity == "error"] == []

    async def go_on() -> None:
        async with Node.connect(settings) as node, node.open("case-1") as process:
            assert process.state.context == {"city": "Oslo"}
            await process.update("city", "Rome")

    asyncio.run(go_on())


def test_commands_restore_a_saved_manifest(written: Settings, tmp_path: Path) -> None:
    """Saved, lost, refused by create, compared, restored; once more changes nothing."""
    saved = _seekpoint(written, "topics", "manifest")
    file = tmp_path / "manifest.json"
    file.write_text(saved.stdout)
    _lose_schemas(written)
    assert "topics restore" in _seekpoint(written, "topics", "create").output
    dry = _seekpoint(written, "topics", "restore", str(file), "--dry-run")
    assert (dry.exit_code, "fits" in dry.output) == (0, True), dry.output
    assert _seekpoint(written, "topics", "manifest").exit_code == EXIT_FAULT  # nothing was written
    for _ in range(2):
        told = _seekpoint(written, "topics", "restore", str(file), "--json")
        assert told.exit_code == 0, told.output
    assert json.loads(told.stdout)["journal"] == written.journal
    _restored(written)


def test_a_capture_of_the_journal_holds_its_manifest_too(written: Settings, tmp_path: Path) -> None:
    """Whoever captured the journal, or copied it, has saved the manifest."""
    capture = str(tmp_path / "copy.spk")
    made = _seekpoint(written, "replay", "--from", f"default/{written.topic_name('journal')}", "--into", capture)
    assert made.exit_code == 0, made.output
    _lose_schemas(written)
    told = _seekpoint(written, "topics", "restore", capture)
    assert told.exit_code == 0, told.output
    _restored(written)


def test_restore_refuses_a_manifest_that_does_not_fit(written: Settings) -> None:
    """Another journal's manifest, topics that are others, schemas that are missing, a file that is none."""
    records = saved_records(json.dumps(save_manifest_sync(written)).encode())
    manifest = json.loads(records[MANIFEST_KEY])
    _lose_schemas(written)

    def refused(match: str, changed: dict[str, Any] | None = None, without: bytes = b"") -> None:
        wrong = {**records, MANIFEST_KEY: json.dumps({**manifest, **(changed or {})}).encode()}
        wrong.pop(without.hex().encode(), None)
        with pytest.raises(JournalMismatch, match=match):
            restore_manifest_sync(written, wrong, {SCHEMA_FINGERPRINT})

    refused("another journal", {"journal": "fleet"})
    refused("partition count", {"partitions": 7})
    journal = written.topic_name("journal")
    refused("is not the one", {"topic_ids": {**manifest["topic_ids"], journal: "another"}})
    refused("not among the saved ones", without=SCHEMA_FINGERPRINT)
    with pytest.raises(JournalMismatch, match="no saved manifest"):
        saved_records(b"[]")
    with pytest.raises(JournalMismatch, match="no manifest"):
        save_manifest_sync(written)


def test_restore_does_not_replace_an_existing_manifest(written: Settings, tmp_path: Path) -> None:
    """By one that says something else; and an entry of an unknown schema is noticed before anything is written."""
    records = saved_records(json.dumps(save_manifest_sync(written)).encode())
    manifest = json.loads(records[MANIFEST_KEY])
    manifest["limits"]["record_bytes"] += 1
    other = {**records, MANIFEST_KEY: json.dumps(manifest).encode()}
    with pytest.raises(JournalMismatch, match="another manifest"):
        restore_manifest_sync(written, other, set())
    RawKafka(written).append(0, b"case-9", b"\xc3\x01unknown!body")
    file = tmp_path / "saved.json"
    file.write_text(json.dumps(save_manifest_sync(written)))
    told = _seekpoint(written, "topics", "restore", str(file), "--dry-run")
    assert (told.exit_code, "--accept-missing" in told.output) == (EXIT_FAULT, True)
    told = _seekpoint(written, "topics", "restore", str(file), "--dry-run", "--accept-missing")
    assert told.exit_code == 0, told.output
