"""Read the processes of a journal: their states, and the entries of one of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from seekpoint.console.render.output import clean, say
from seekpoint.console.render.progress import ReadingProgress, watched
from seekpoint.console.services.arguments.target import CommandTarget

if TYPE_CHECKING:
    from seekpoint.schemas.bodies.entry import Entry
    from seekpoint.schemas.state.process_state import State


def scan_processes(target: CommandTarget) -> Iterator[tuple[str, int, State]]:
    """Read the whole log once. Yield each process with its partition and its state, and show progress on a terminal.

    The order is by partition, then by id. Only the states of one partition are in memory at a time. Trimmed history
    comes from checkpoints.
    """
    from seekpoint.consumers.recovery.recoverer import Recoverer
    from seekpoint.consumers.recovery.tiers import Tier

    partitions = range(target.log.partitions)
    marks = [target.log.watermarks(partition) for partition in partitions]
    with ReadingProgress("reading", sum(mark.high - mark.low for mark in marks)) as progress:
        log = watched(target.log, progress.advance)
        recoverer = Recoverer(log, target.dead_letters, checkpoints=target.checkpoints)
        for partition in partitions:
            tier = Tier.CHECKPOINT if marks[partition].low > 0 else Tier.SCAN
            states = recoverer.recover_partition(partition, tier=tier)
            progress.hide()
            for process_id in sorted(states):
                yield process_id, partition, states.pop(process_id).state


def states_of(target: CommandTarget, process_id: str | None) -> Iterator[tuple[str, State]]:
    """Yield the state of one process, or of each process if ``process_id`` is None, reading the whole log once."""
    if process_id is not None:
        yield process_id, target.recoverer.recover(process_id).state
        return
    for name, _, state in scan_processes(target):
        yield name, state


def entries_of(target: CommandTarget, process_id: str) -> list[Entry]:
    """Return the applied entries of a process. Raises ``UnknownProcess`` and ``JournalGap``."""
    from seekpoint.consumers.recovery.process_history import history
    from seekpoint.producers.durable.replay.recorded_run import applied
    from seekpoint.schemas.errors import JournalGap

    logged = [one for batch in history(target.recoverer, process_id) for one in batch]
    if not logged:
        raise JournalGap("the log has no entries of the process", process_id=process_id)
    return list(applied(logged, target.log.limits))


def without_view() -> Callable[[str], None]:
    """Return a function that says on stderr why the view was not used: of the first partition, which tells enough."""
    told: list[str] = []

    def say_why(why: str) -> None:
        told.append(why)
        if len(told) == 1:
            say(clean(f"reading checkpoints and the log: {why}"))

    return say_why
