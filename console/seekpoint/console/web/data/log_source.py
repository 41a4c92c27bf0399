"""Summaries of processes from the log alone: one read from its beginning, then what was appended since."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from seekpoint.console.web.data.spilled_drafts import SpilledDrafts, slim

if TYPE_CHECKING:
    from seekpoint.console.services.arguments.target import CommandTarget
    from seekpoint.consumers.view.process_summary import Summary
    from seekpoint.schemas.log.log_ports import Batch

_STATES_BYTES_MAX = 33_554_432


class LogSource:
    """Folds the log, as ``seekpoint ps`` does without a view. Every call blocks.

    At most about ``bytes_max`` of states are in memory, of the processes that went on last; the others are in a
    temporary file. Of finished processes it keeps only the gravestone.
    """

    name = "log"

    def __init__(self, target: CommandTarget, bytes_max: int = _STATES_BYTES_MAX) -> None:
        self._target = target
        self._bytes_max = bytes_max
        self._kept: dict[int, SpilledDrafts] = {}
        self._positions: dict[int, int] = {}
        self.behind: dict[int, int] = {}
        """Empty: the log is never behind itself."""

    @property
    def drafts_in_memory(self) -> int:
        """Return the number of states in memory."""
        return sum(len(kept.drafts) for kept in self._kept.values())

    def load(self) -> dict[str, Summary]:
        """Return all processes by id."""
        log = self._target.log
        found: dict[str, Summary] = {}
        self.close()
        for partition in range(log.partitions):
            self._kept[partition] = SpilledDrafts(self._bytes_max // log.partitions)
            marks = log.watermarks(partition)
            if marks.low > 0:
                found |= self._recovered(partition)
            elif marks.high > 0:
                found |= self._scanned(partition, 0, marks.high)
        return found

    def changed(self) -> dict[str, Summary]:
        """Return the processes with an entry that was appended since the last call."""
        log = self._target.log
        found: dict[str, Summary] = {}
        for partition in range(log.partitions):
            position, high = self._positions.get(partition, 0), log.watermarks(partition).high
            if high > position:
                found |= self._scanned(partition, position, high)
        return found

    def close(self) -> None:
        """Close the temporary files."""
        for kept in self._kept.values():
            kept.close()

    def _scanned(self, partition: int, start: int, stop: int) -> dict[str, Summary]:
        """Fold the entries in [start, stop), and return the summaries of their processes."""
        from seekpoint.consumers.log_reading.scan import scan_all
        from seekpoint.consumers.recovery.dead_letters import PoisonCollector
        from seekpoint.consumers.view.process_summary import summary_of

        kept, keys = self._kept[partition], set[bytes]()
        found: dict[str, Summary] = {}

        def spare() -> None:
            for key, state in kept.spare().items():
                if key in keys:
                    found[key.decode()] = summary_of(partition, key, state)

        def prepare(batch: Batch) -> None:
            spare()
            here = {record.key for record in batch.records if record.key is not None}
            keys.update(here)
            kept.bring(here)

        poison: Callable[..., object] = PoisonCollector(self._target.dead_letters.add).add
        stats = scan_all(self._target.log, partition, kept.drafts, start, stop, poison, on_batch=prepare)
        self._positions[partition] = max(stop, stats.next_offset)
        for key in keys & kept.drafts.keys():  # poison has keys of no process
            state = kept.drafts[key].freeze()
            found[key.decode()] = summary_of(partition, key, state)
            kept.drafts[key] = slim(state.thaw())  # a frozen state takes no further entry
        kept.spare()
        return found

    def _recovered(self, partition: int) -> dict[str, Summary]:
        """Recover all processes of a partition whose beginning was deleted: its states are in memory meanwhile."""
        from seekpoint.consumers.recovery.recoverer import Recoverer
        from seekpoint.consumers.recovery.tiers import Tier
        from seekpoint.consumers.view.process_summary import summary_of

        target, kept = self._target, self._kept[partition]
        found: dict[str, Summary] = {}
        recoverer = Recoverer(target.log, target.dead_letters, checkpoints=target.checkpoints)
        states = recoverer.recover_partition(partition, tier=Tier.CHECKPOINT)
        for number, process_id in enumerate([*states]):
            one = states.pop(process_id)
            found[process_id] = summary_of(partition, process_id.encode(), one.state)
            kept.drafts[process_id.encode()] = slim(one.state.thaw())
            self._positions[partition] = one.report.log_end
            if number % 100 == 99:
                kept.spare()
        kept.spare()
        return found
