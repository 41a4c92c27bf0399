"""Summaries of processes from the log alone: one read from its beginning, then what was appended since."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from seekpoint.console.services.target import CommandTarget
    from seekpoint.consumers.view.process_summary import Summary
    from seekpoint.schemas.state.process_state import Draft

__all__ = ["LogSource"]


class LogSource:
    """Folds the log in memory, as ``seekpoint ps`` does without a view. Every call blocks.

    The states of all processes stay in memory, of finished ones only the gravestone. A journal too large for that needs
    a projector.
    """

    name = "log"

    def __init__(self, target: CommandTarget) -> None:
        self._target = target
        self._drafts: dict[int, dict[bytes, Draft]] = {}
        self._positions: dict[int, int] = {}
        self.behind: dict[int, int] = {}
        """Empty: the log is never behind itself."""

    def load(self) -> dict[str, Summary]:
        """Return all processes by id."""
        from seekpoint.consumers.recovery.recoverer import Recoverer
        from seekpoint.consumers.recovery.tiers import Tier
        from seekpoint.consumers.view.process_summary import summary_of

        target = self._target
        found: dict[str, Summary] = {}
        recoverer = Recoverer(target.log, target.dead_letters, checkpoints=target.checkpoints)
        for partition in range(target.log.partitions):
            tier = Tier.CHECKPOINT if target.log.watermarks(partition).low > 0 else Tier.SCAN
            states = recoverer.recover_partition(partition, tier=tier)
            drafts = self._drafts[partition] = {}
            for process_id in [*states]:
                one = states.pop(process_id)
                found[process_id] = summary_of(partition, process_id.encode(), one.state)
                drafts[process_id.encode()] = _slim(one.state.thaw())
                self._positions[partition] = one.report.log_end
        return found

    def changed(self) -> dict[str, Summary]:
        """Return the processes with an entry that was appended since the last call."""
        from seekpoint.consumers.log_reading.scan import scan_all
        from seekpoint.consumers.view.process_summary import summary_of
        from seekpoint.schemas.log.log_ports import Batch

        log = self._target.log
        found: dict[str, Summary] = {}
        for partition in range(log.partitions):
            position, high = self._positions.get(partition, 0), log.watermarks(partition).high
            if high <= position:
                continue
            drafts, keys = self._drafts[partition], set[bytes]()

            def note(batch: Batch, keys: set[bytes] = keys) -> None:
                keys.update(record.key for record in batch.records if record.key is not None)

            stats = scan_all(log, partition, drafts, position, high, on_batch=note)
            self._positions[partition] = max(high, stats.next_offset)
            for key in keys & drafts.keys():  # poison has keys of no process
                found[key.decode()] = summary_of(partition, key, drafts[key].snapshot())
                drafts[key] = _slim(drafts[key])
        return found


def _slim(draft: Draft) -> Draft:
    """Return the draft, of a finished process without its content."""
    from seekpoint.schemas.state.process_state import drop_content

    if draft.finished and not draft.content_dropped:
        drop_content(draft)
    return draft
