"""Results of users' folds made anew from the log, where a base has none that may be used.

A fold that is new, or has a new version, meets states whose custom entries it has not seen. Nothing but the log has
them: while its beginning is there the processes concerned are read once more, else their results stay unavailable.
"""

from __future__ import annotations

import logging

from seekpoint.consumers.log_reading.scan import scan
from seekpoint.schemas.folds import stale_folds
from seekpoint.schemas.log.log_ports import LogReader
from seekpoint.schemas.state.state import Draft, State

__all__ = ["fold_reason", "renew_folds"]

_logger = logging.getLogger("seekpoint.consumers")


def fold_reason(state: State) -> str | None:
    """Which registered folds ``state`` has no current result of, and why; None if it has all."""
    stale = stale_folds(state)
    return None if not stale else "; ".join(f"fold {name}: {why}" for name, why in sorted(stale.items()))


def renew_folds(log: LogReader, partition: int, states: dict[bytes, State | None], stop: int) -> frozenset[bytes]:
    """Give those of ``states`` that are behind what a fold of [0, ``stop``) gives; their keys. They are as of there.

    One read of the partition however many they are. Changes nothing where the log's beginning is gone, and says so.
    """
    behind = {key: state for key, state in states.items() if state is not None and stale_folds(state)}
    if not behind:
        return frozenset()
    if log.watermarks(partition).low > 0:
        _logger.warning("partition %d: folds of %d processes cannot be made anew: trimmed", partition, len(behind))
        return frozenset()
    _logger.info("partition %d: folds of %d processes are made anew from the log", partition, len(behind))
    drafts = {key: Draft() for key in behind}
    scan(log, partition, drafts, 0, stop, lambda record, error: None)
    renewed = set()
    for key, state in behind.items():
        if drafts[key].customs == state.customs:  # else they are not of one history: its own check will tell
            draft = state.thaw()
            draft.folds = {**state.folds, **drafts[key].folds}
            states[key] = draft.freeze()
            renewed.add(key)
    return frozenset(renewed)
