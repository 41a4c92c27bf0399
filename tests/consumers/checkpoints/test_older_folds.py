"""Checkpoints of an older fold are converted, or recomputed from the log, and never ignored."""

from __future__ import annotations

from dataclasses import replace
from hashlib import blake2b
from typing import Any

import orjson
import pytest

from executors import Inline
from owners import Owner
from seekpoint.consumers.checkpoints.checkpoint import FLOOR_KEY, Checkpoint, Floor
from seekpoint.consumers.checkpoints.memory_checkpoints import MemoryCheckpoints
from seekpoint.consumers.projector.projection import PartitionProjection
from seekpoint.consumers.projector.projection_source import ProjectionSource
from seekpoint.consumers.recovery.recoverer import Recoverer
from seekpoint.consumers.recovery.tiers import Tier
from seekpoint.consumers.view.memory_view import MemoryView
from seekpoint.schemas.errors import JournalGap, NewerFormat
from seekpoint.schemas.log.manifest import FORMAT, MANIFEST_KEY
from seekpoint.schemas.log.memory_log import MemoryLog
from seekpoint.schemas.state.migrations import STEPS
from seekpoint.schemas.state.process_state import FOLD_VERSION, State

KEY = b"case-17"


class Kept:
    """A process with four entries and a checkpoint of all of them, written by another fold."""

    def __init__(self, fold_version: int) -> None:
        self.log = MemoryLog(partitions=1)
        owner = Owner(self.log.append, 1, "case-17")
        owner.claim()
        for number in (1, 2, 3):
            owner.update("n", str(number))
        self.state = Recoverer(self.log).recover("case-17").state
        self.view = MemoryView(1)
        self.checkpoints = MemoryCheckpoints(1)
        self.recoverer = Recoverer(self.log, view=self.view, checkpoints=self.checkpoints)
        whole = {**orjson.loads(self.state.to_bytes()), "fold_version": fold_version}
        whole["counted"] = whole.pop("counters")
        data = orjson.dumps(whole)
        made = Checkpoint.of("case-17", 0, self.state, self.log.topic_id, 0)
        digest = blake2b(data, digest_size=16).hexdigest()
        made = replace(made, state=data, digest=digest, fold_version=fold_version)
        floor = Floor(offset=4, leader_epoch=0, topic_id=self.log.topic_id, since=0)
        self.checkpoints.write(0, [(KEY, made.to_bytes()), (FLOOR_KEY, floor.to_bytes())])

    def rebuilt(self) -> State | None:
        """Return what a projector of this version writes into an empty view."""
        source: Any = ProjectionSource(
            log=self.log,
            topic_id=self.log.topic_id,
            view=self.view,
            checkpoints=self.checkpoints,
            writer=self,  # type: ignore[arg-type]
            writes=Inline(),
            on_poison=lambda record, error: None,
        )
        projection = PartitionProjection(0, source)
        assert projection.prepare() or projection.prepare()
        return self.view.look_up(0, KEY).state

    def settle(self) -> None:
        """Do nothing: no transaction is ever open."""


def renamed(whole: dict[str, Any]) -> dict[str, Any]:
    """A conversion step: counters have another name."""
    whole["counters"] = whole.pop("counted")
    return whole


def impossible(whole: dict[str, Any]) -> dict[str, Any]:
    """A conversion step that fails."""
    raise ValueError("only the entries tell")


def test_a_checkpoint_of_an_older_fold_is_converted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Readers and the projector convert it, also where the log below it was deleted."""
    monkeypatch.setitem(STEPS, 0, renamed)
    kept = Kept(0)
    kept.log.trim(0, 4)
    found = kept.recoverer.recover("case-17", tier=Tier.CHECKPOINT)
    assert (found.state, found.report.seek_point) == (kept.state, 4)
    assert kept.rebuilt() == kept.state


def test_a_checkpoint_that_cannot_be_converted_is_recomputed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A recovery uses the next tier and says so, and the projector recomputes the state. A trimmed log is a gap."""
    monkeypatch.setitem(STEPS, 0, impossible)
    kept = Kept(0)
    found = kept.recoverer.recover("case-17")
    assert (found.state, found.report.tier) == (kept.state, Tier.SCAN)
    assert any("state" in note for note in found.report.notes)
    assert kept.rebuilt() == kept.state
    kept.view.flush()
    kept.log.trim(0, 4)
    assert kept.rebuilt() is None
    with pytest.raises(JournalGap):
        kept.recoverer.recover("case-17")


def test_a_reader_of_an_older_version_stops_at_a_newer_fold() -> None:
    """It uses no other tier and rebuilds nothing, once the manifest names the newer format."""
    kept = Kept(FOLD_VERSION + 1)
    manifest = b'{"journal":"memory","format":%d,"partitions":1,"topic_ids":{},"limits":{}}' % (FORMAT + 1)
    kept.log.table("schemas").put(MANIFEST_KEY, manifest)
    for tier in (None, Tier.CHECKPOINT):
        with pytest.raises(NewerFormat):
            kept.recoverer.recover("case-17", tier=tier)
    with pytest.raises(NewerFormat):
        kept.rebuilt()
    assert kept.view.meta(0) is None
