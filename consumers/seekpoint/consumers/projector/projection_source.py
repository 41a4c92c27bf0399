"""The ports and settings that a projection works with."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Executor

from msgspec import field

from seekpoint.consumers.checkpoints.cadence import Cadence
from seekpoint.consumers.checkpoints.checkpoint import CheckpointReader
from seekpoint.consumers.checkpoints.checkpoint_writer import CheckpointWriter
from seekpoint.consumers.view.view_store import ViewStore
from seekpoint.schemas.errors import UndecodableRecord
from seekpoint.schemas.frozen_struct import FrozenStruct
from seekpoint.schemas.log.log_ports import LogReader, Record


class ProjectionSource(FrozenStruct, frozen=True, kw_only=True):
    """The ports and settings of a projection. ``writes`` executes the calls that write to the view, one at a time."""

    log: LogReader
    topic_id: str
    view: ViewStore
    checkpoints: CheckpointReader
    writer: CheckpointWriter
    writes: Executor
    on_poison: Callable[[Record, UndecodableRecord], object]
    on_damage: Callable[[int, bytes, str], object] = lambda partition, key, why: None
    """Called for each process whose state in the view differs from checkpoint and log."""
    cadence: Cadence = field(default_factory=Cadence)
    finished_content_s: float = 604_800.0
    clock: Callable[[], float] = time.monotonic
    wall_clock: Callable[[], float] = time.time
    """Compared with the timestamps of the log's records."""
