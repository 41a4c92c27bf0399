"""P1b: the rebuild of a view from the checkpoints. Several projectors may do it at once: the last to begin wins."""

from __future__ import annotations

import logging
from collections.abc import Iterator

from seekpoint.consumers.checkpoints.checkpoint_inventory import CheckpointInventory, stored_states
from seekpoint.consumers.log_reading.scan import scan
from seekpoint.consumers.projector.projection_source import ProjectionSource
from seekpoint.consumers.view.view_store import Pointer
from seekpoint.schemas.state.process_state import Draft, State

_logger = logging.getLogger("seekpoint.consumers")

_PUT_STATES, _PUT_BYTES = 200, 2_000_000
"""The maximum of one call of the view."""


def rebuild(source: ProjectionSource, partition: int, saved: CheckpointInventory) -> None:
    """Make a view of the saved states, as of just below the floor. Its meta shows whether it became ready.

    ``saved`` has to contain the whole partition. A process whose checkpoint is damaged is left out if the log was
    trimmed: no reader takes that for proof that it does not exist.
    """
    view = source.view
    level = logging.WARNING if saved.heads else logging.INFO  # a journal's first view is no rebuild
    _logger.log(level, "partition %d: the view is rebuilt from %d checkpoints", partition, len(saved.heads))
    token = view.install(partition, source.topic_id)
    processes = 0
    for chunk in _chunks(source, saved):
        if not view.put(partition, token, chunk):
            return
        processes += len(chunk)
    epoch = -1 if saved.published is None else saved.published.leader_epoch
    view.ready(partition, token, saved.floor - 1, epoch, processes)


def _chunks(source: ProjectionSource, saved: CheckpointInventory) -> Iterator[dict[bytes, tuple[State, Pointer]]]:
    chunk: dict[bytes, tuple[State, Pointer]] = {}
    width = 0
    for key, state, head in stored_states(source.checkpoints, saved):
        chunk[key] = state, Pointer(head.position, saved.floor)
        width += state.content_bytes
        if len(chunk) >= _PUT_STATES or width >= _PUT_BYTES:
            yield chunk
            chunk, width = {}, 0
    for key, draft in _refolded(source, saved).items():
        chunk[key] = draft.freeze(), Pointer(-1, saved.floor)
    if chunk:
        yield chunk


def _refolded(source: ProjectionSource, saved: CheckpointInventory) -> dict[bytes, Draft]:
    """Fold the processes with a damaged checkpoint from the log, if it is complete."""
    if not saved.damaged or not saved.floor:
        return {}
    if source.log.watermarks(saved.partition).low > 0:
        _logger.error(
            "partition %d: the view lacks processes whose checkpoint is damaged, as the log was trimmed: %s",
            saved.partition, sorted(saved.damaged)[:10],
        )  # fmt: skip
        return {}
    drafts = {key: Draft() for key in saved.damaged}
    scan(source.log, saved.partition, drafts, 0, saved.floor)
    return {key: draft for key, draft in drafts.items() if draft.offset >= 0}
