"""The rows of a data set: one for each call of a process, with its values masked by the rules of a staging replay."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Any

from seekpoint.console.render.output import warn
from seekpoint.console.render.progress import ReadingProgress
from seekpoint.console.services.arguments.target import CommandTarget
from seekpoint.producers.durable.replay.call_records import CallRecord, CallTable
from seekpoint.producers.durable.replay.recorded_run import Admission
from seekpoint.schemas.errors import JournalGap

if TYPE_CHECKING:
    from seekpoint.consumers.staging.masks.mask_rules import MaskRules
    from seekpoint.consumers.staging.masks.masking import Masking
    from seekpoint.schemas.bodies.entry import Entry

_SAME_NAME = (
    *("key", "kind", "name", "turn", "seq", "status", "error", "usage", "cost_usd"),
    *("started_at_us", "ended_at_us", "duration_us"),
)


class CallRows:
    """Reads processes and returns their calls as rows, in the order in which the calls began."""

    def __init__(self, target: CommandTarget, kinds: Collection[str], rules: MaskRules | None) -> None:
        """Read through ``target``; without ``kinds`` all kinds of calls, without ``rules`` unmasked."""
        self._target, self._kinds = target, frozenset(kinds)
        self.dropped: Counter[str] = Counter()
        """What the policy of the mask rules has dropped, by reason."""
        self._masking = None if rules is None else _masking(rules, self.dropped)

    def of(self, process_ids: list[str]) -> Iterator[dict[str, Any]]:
        """Yield the rows of these processes. Raise ``UnknownProcess``, ``JournalGap`` and ``ReplayRefused``."""
        from seekpoint.console.services.histories.process_scan import entries_of

        for process_id in process_ids:
            calls = _ProcessCalls(self._masking)
            for entry in entries_of(self._target, process_id):
                calls.take(entry)
            yield from calls.rows(self._kinds)

    def of_all(self) -> Iterator[dict[str, Any]]:
        """Yield the rows of all processes, reading each partition once. Warn of those without their beginning."""
        log = self._target.log
        marks = [log.watermarks(partition) for partition in range(log.partitions)]
        with ReadingProgress("reading", sum(mark.high - mark.low for mark in marks)) as progress:
            for partition, mark in enumerate(marks):
                found = self._partition(partition, mark.low, mark.high, progress)
                for process_id in sorted(found):
                    yield from found.pop(process_id).rows(self._kinds)

    def _partition(self, partition: int, low: int, high: int, progress: ReadingProgress) -> dict[str, _ProcessCalls]:
        from seekpoint.consumers.log_reading import scan

        log = self._target.log
        found: dict[str, tuple[Admission, _ProcessCalls]] = {}
        left_out: set[str] = set()
        for batch in log.read(partition, low, high):
            for record, entry in scan.entries_of(batch.records, log):
                process_id = entry.process_id
                if process_id in left_out:
                    continue
                if process_id not in found:
                    found[process_id] = Admission(log.limits), _ProcessCalls(self._masking)
                admission, calls = found[process_id]
                try:
                    if admission.admits(record.offset, entry):
                        calls.take(entry)
                except JournalGap as exc:
                    warn(f"{process_id} is left out: {exc.message}")
                    left_out.add(process_id)
                    del found[process_id]
            progress.advance(batch.scanned)
        return {process_id: calls for process_id, (_, calls) in found.items()}


class _ProcessCalls:
    """The calls of one process."""

    def __init__(self, masking: Masking | None) -> None:
        self._masking, self._table = masking, CallTable()
        self._process_id = ""

    def take(self, entry: Entry) -> None:
        """Read the next valid entry."""
        masked = entry if self._masking is None else self._masking.entry(entry)
        if masked is None:
            return
        self._process_id = masked.process_id
        if masked is entry:
            self._table.take(entry)
        else:
            self._table.take_masked(entry, masked)

    def rows(self, kinds: frozenset[str]) -> Iterator[dict[str, Any]]:
        """Yield the rows of the calls of these kinds; of all calls if ``kinds`` is empty."""
        return (_row(self._process_id, one) for one in self._table.found if not kinds or one.kind in kinds)


def _row(process_id: str, one: CallRecord) -> dict[str, Any]:
    facts = one.to_dict()
    return {
        "process": process_id,
        **{name: facts[name] for name in _SAME_NAME},
        "request": one.input,
        "response": one.output,
        "attempts": len(one.attempts),
        "model": one.facts.get("model"),
        "facts": {name: value for name, value in one.facts.items() if name != "model"},
    }


def _masking(rules: MaskRules, dropped: Counter[str]) -> Masking:
    from seekpoint.consumers.staging.masks.masking import Masking

    return Masking(rules, dropped)
