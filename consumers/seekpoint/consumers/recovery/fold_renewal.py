"""Recompute the results of users' folds from the log where a base has none that can be used.

A new fold, or a new version of one, has not seen the custom entries that a base already contains. Only the log still
has them. If its beginning is there, the processes concerned are read once more; otherwise their results are missing.
"""

from __future__ import annotations

import logging
from types import MappingProxyType

from seekpoint.consumers.log_reading.scan import scan
from seekpoint.schemas.folds import stale_folds
from seekpoint.schemas.log.log_ports import LogReader
from seekpoint.schemas.state.process_state import Draft, State

_logger = logging.getLogger("seekpoint.consumers")


def fold_reason(state: State) -> str | None:
    """Return which registered folds have no current result in ``state``, and why; None if all have one."""
    stale = stale_folds(state)
    return None if not stale else "; ".join(f"fold {name}: {why}" for name, why in sorted(stale.items()))


def renew_folds(log: LogReader, partition: int, states: dict[bytes, State | None], stop: int) -> frozenset[bytes]:
    """Recompute the stale fold results in ``states``, which are as of ``stop``; return the keys that changed.

    Reads [0, ``stop``) once for all of them. If the log's beginning was deleted, logs a warning and changes nothing.
    """
    stale = {key: state for key, state in states.items() if state is not None and stale_folds(state)}
    if not stale:
        return frozenset()
    if log.watermarks(partition).low > 0:
        _logger.warning("partition %d: cannot recompute the folds of %d processes: trimmed", partition, len(stale))
        return frozenset()
    _logger.info("partition %d: the folds of %d processes are recomputed from the log", partition, len(stale))
    drafts = {key: Draft() for key in stale}
    scan(log, partition, drafts, 0, stop)
    renewed = set()
    for key, state in stale.items():
        if drafts[key].customs == state.customs:  # otherwise they are of two histories, which another check reports
            draft = state.thaw()
            draft.folds = MappingProxyType({**state.folds, **drafts[key].folds})
            states[key] = draft.freeze()
            renewed.add(key)
    return frozenset(renewed)
