"""What large values promise on every log, as one suite: a test of a log inherits it and brings its ``journal``."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pytest

from seekpoint.consumers import Projector, Recovery, Tier
from seekpoint.consumers.checkpoints.trimming import Trim
from seekpoint.producers import Node
from seekpoint.producers.journal_access import JournalAccess
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.errors import UnknownAttachment
from seekpoint.schemas.values.attachment_ref import Ref

__all__ = ["BYTES", "LargeValuesContract", "SettledJournal"]

MIB = 1_048_576
BYTES = {
    "video": Random(1).randbytes(8 * MIB),
    "archive": Random(2).randbytes(8 * MIB),
    "scan": Random(3).randbytes(4 * MIB),
}
"""20 MiB together, two values of 8 MiB."""
PROGRAM = Path(__file__).parents[1] / "embedded" / "attaching_program.py"


@dataclass
class SettledJournal:
    """A journal that programs reach by its settings, with a projector that a test runs when it wants to."""

    settings: Settings
    environment: Mapping[str, str] = field(default_factory=dict)
    """What a program needs to reach it too."""
    tiers: tuple[Tier, ...] = (Tier.VIEW, Tier.CHECKPOINT, Tier.SCAN)

    async def catch_up(self) -> None:
        """Save what is in the journal by now, in view and checkpoints."""
        async with Projector.connect(self.settings) as projector:
            await projector.catch_up(timeout_s=60)

    def trim(self) -> list[str]:
        """Trim it to its floors; return why it stopped above any."""
        reader = JournalAccess.of(self.settings).reader
        try:
            trim = Trim(reader, reader.checkpoints(), reader)
            return [done.note for done in map(trim.run, range(reader.partitions)) if done.note]
        finally:
            reader.close()


class LargeValuesContract:
    """The promises. ``place`` is a fixture: the journal."""

    async def test_20_mib_are_read_in_every_tier_and_after_a_trim(self, place: SettledJournal) -> None:
        """View, checkpoint and whole log give the same references; the bytes are read when somebody asks."""
        async with Node.connect(place.settings) as node:
            async with node.open("case-17") as process:
                for name, data in BYTES.items():
                    await process.update(name, await process.attach(data))
                assert process.state.attached_bytes == 20 * MIB
                assert len(process.state.to_bytes()) < 5_000
            await place.catch_up()
            async with Recovery.connect(place.settings) as recovery:
                for tier in place.tiers:
                    found = await recovery.recover("case-17", tier=tier)
                    assert found.report.tier == tier
                    assert found.state.attached_bytes == 20 * MIB
                    for name, data in BYTES.items():
                        assert await node.read_attachment(found.state.context[name]) == data
            async with node.open("case-17") as process:
                await process.detach(process.state.context["video"])
                await process.update("video", None)
            await place.catch_up()
            assert any("case-17 has an attachment there" in note for note in place.trim())
            found = await node.recover("case-17")
            for name in ("archive", "scan"):
                assert await node.read_attachment(found.state.context[name]) == BYTES[name]

    async def test_several_nodes_attach_8_mib(self, place: SettledJournal) -> None:
        """While the other one writes."""
        async with Node.connect(place.settings) as one, Node.connect(place.settings) as other:
            here, there = await one.open("thread", shared=True), await other.open("thread", shared=True)
            ref, _ = await asyncio.gather(
                here.attach(BYTES["video"]), asyncio.gather(*(there.record("busy", number) for number in range(10)))
            )
            assert await there.read_attachment(ref) == BYTES["video"]

    async def test_a_writer_killed_between_parts_leaves_nothing_readable(self, place: SettledJournal) -> None:
        """It costs its parts. Whoever attaches the same bytes writes the rest."""
        env = {**os.environ, **place.environment}
        env.pop("SEEKPOINT_TEST_LOG", None)  # of the tests alone: a program refuses settings that it does not know
        killed = await asyncio.to_thread(
            subprocess.run, [sys.executable, str(PROGRAM)], env=env, capture_output=True, timeout=60, check=False
        )
        assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
        async with Node.connect(place.settings) as node:
            state = (await node.recover("case-17")).state
            [(digest, left)] = state.attachments.items()
            assert 0 < left.received < left.size == 8 * MIB
            ref = Ref(digest, left.size, "case-17")
            with pytest.raises(UnknownAttachment, match="not whole"):
                await node.read_attachment(ref)
            async with node.open("case-17", take_over=True) as process:
                assert await process.attach(BYTES["video"]) == ref
                assert await process.read_attachment(ref) == BYTES["video"]
                whole = process.state.attachments[digest]
            assert whole.parts == -(-8 * MIB // 786_432), "no part was written twice"
