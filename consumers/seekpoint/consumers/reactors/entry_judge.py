"""Judges single entries: does the fold apply an entry, and what is the state of its process right after it?"""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple

from seekpoint.consumers.log_reading.scan import entries_of
from seekpoint.consumers.recovery.points import Point
from seekpoint.consumers.recovery.recoverer import Recoverer
from seekpoint.schemas.folding.fold import Verdict, advance
from seekpoint.schemas.state.process_state import Draft, State

_APPLIED = frozenset({Verdict.APPLIED, Verdict.DELIVERED, Verdict.CLAIM_WON})
_STATES_MAX = 1_000
_NEAR = 2_000
"""Up to how many records beyond a state that is still known are read again; a recovery is quicker beyond that."""


class Judgement(NamedTuple):
    """The fold's verdict on an entry."""

    is_applied: bool
    state: State
    """The state of the process right after the entry."""


class EntryJudge:
    """Judges entries by recovery, and keeps the last states to continue from. Blocks; for one thread at a time."""

    def __init__(self, recoverer: Recoverer) -> None:
        self._recoverer = recoverer
        self._states: OrderedDict[str, State] = OrderedDict()

    def judge(self, process_id: str, partition: int, offset: int) -> Judgement:
        """Judge the entry of the process at ``offset``. Of an aborted transaction nothing is applied.

        Faust delivers uncommitted records too: raises ``TransactionOpen`` while a transaction hides the entry, and what
        a recovery raises.
        """
        state, start = self._before(process_id, offset)
        draft, verdict = state.thaw(), None
        log, key = self._recoverer.log, process_id.encode()
        for batch in log.read(partition, start, offset + 1, {key}):
            for record, entry in entries_of(batch.records, log):
                verdict = advance(draft, record.offset, entry, log.limits)
                if record.offset != offset:
                    verdict = None
        after = draft.freeze()
        self._remember(process_id, after)
        return Judgement(verdict in _APPLIED, after)

    def _before(self, process_id: str, offset: int) -> tuple[State, int]:
        """Return a state of the process from before ``offset``, and the first offset that it may lack."""
        known = self._states.get(process_id)
        if known is not None and known.offset < offset <= known.offset + _NEAR:
            return known, known.offset + 1
        if offset == 0:
            return Draft().freeze(), 0
        found = self._recoverer.recover(process_id, missing_ok=True, point=Point(offset=offset - 1))
        return found.state, offset

    def _remember(self, process_id: str, state: State) -> None:
        self._states[process_id] = state
        self._states.move_to_end(process_id)
        if len(self._states) > _STATES_MAX:
            self._states.popitem(last=False)
