"""States that entries fold to, and what became of an entry."""

from __future__ import annotations

from entry_examples import claim, own
from seekpoint.schemas import bodies as b
from seekpoint.schemas.bodies.entry import Entry
from seekpoint.schemas.folding.fold import Verdict, advance, fold
from seekpoint.schemas.log.memory_log import MemoryLog
from seekpoint.schemas.state.process_state import COUNTERS, State, new_state

__all__ = ["FINISHED", "GAPPED", "MISFITTED", "OWNED", "RELEASED", "SIGNAL", "counted", "folded", "refold", "verdict"]


def folded(*entries: Entry, start: State | None = None) -> State:
    """The state after ``entries`` at the offsets that follow."""
    state = new_state() if start is None else start
    for offset, entry in enumerate(entries, state.offset + 1):
        state = fold(state, offset, entry)
    return state


def refold(log: MemoryLog, process_id: str) -> State:
    """The oracle: every entry of the process, folded from nothing."""
    state = new_state()
    for partition in range(log.partitions):
        for batch in log.read(partition, 0, log.watermarks(partition).high, {process_id.encode()}):
            for record in batch.records:
                state = fold(state, record.offset, log.codec.decode(record.value))
    return state


def verdict(state: State, entry: Entry) -> Verdict:
    """What becomes of ``entry`` as the next one of ``state``."""
    return advance(state.thaw(), state.offset + 1, entry)


def counted(before: State, after: State) -> dict[str, int]:
    """The counters that moved."""
    moved = {name: getattr(after, name) - getattr(before, name) for name in COUNTERS}
    return {name: count for name, count in moved.items() if count}


OWNED = folded(claim(1), own(1), own(2))
"""A process with an owner and two entries."""
GAPPED = folded(own(4), start=OWNED)
MISFITTED = folded(own(3, b.LifecycleChanged("stopping")), start=OWNED)
RELEASED = folded(own(3, b.Released()), start=OWNED)
FINISHED = folded(own(3, b.Finished('{"ok":true}')), start=OWNED)
SIGNAL = b.Signal("wake", '{"n":1}')
