"""Watch the workers while they work, by their notes and the model's bill."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from seekpoint.console.demo.demo_worker import bill_path, node_name, notes_path
from seekpoint.console.demo.outside_ledger import (
    BilledCall,
    Ended,
    FileTail,
    Note,
    Opened,
    read_calls,
    read_notes,
)


class FleetWatch:
    """Follows the workers' files in ``folder``. Its answers are as of the last ``look``."""

    def __init__(self, folder: Path, nodes: int) -> None:
        self._bill = FileTail(bill_path(folder))
        self._tails = [FileTail(notes_path(folder, node_name(number))) for number in range(1, nodes + 1)]
        self.calls: list[BilledCall] = []
        self.notes: list[Note] = []
        self._answered: set[str] = set()
        self._held: dict[str, dict[str, Opened]] = {}

    def look(self) -> list[Note]:
        """Read what was written since the last call, and return the new notes."""
        self.calls += read_calls(self._bill)
        fresh = read_notes(self._tails)
        self.notes += fresh
        for note in fresh:
            if isinstance(note, Opened):
                self._held.setdefault(note.node, {})[note.case] = note
            elif isinstance(note, Ended):
                self._held.get(note.node, {}).pop(note.case, None)
            elif note.call_id is not None:
                self._answered.add(note.call_id)
        return fresh

    @property
    def answers(self) -> int:
        """The number of model calls with an acknowledged answer."""
        return len(self._answered)

    def held(self, node: str) -> list[str]:
        """Return the cases that the worker works on, in the order of their opening."""
        return list(self._held.get(node, {}))

    def answers_in(self, case: str) -> int:
        """Return the number of answered model calls of a case."""
        return len({call.turn for call in self.calls if call.case == case and call.call_id in self._answered})

    def under_way(self, node: str) -> list[BilledCall]:
        """Return the worker's calls without an acknowledged answer."""
        held = self._held.get(node, {})
        since = {case: opened.at for case, opened in held.items()}
        return [
            call
            for call in self.calls
            if call.node == node
            and call.case in held
            and call.at >= since[call.case]
            and call.call_id not in self._answered
        ]

    def victim(self, nodes: Collection[str], cases_min: int) -> str | None:
        """Return the worker with the most open cases, at least ``cases_min``, and a model call in progress."""
        open_cases = {node: sum(self.answers_in(case) > 0 for case in self.held(node)) for node in nodes}
        busy = [node for node, begun in open_cases.items() if begun >= cases_min and self.under_way(node)]
        return max(busy, key=open_cases.__getitem__, default=None)

    def take_overs(self) -> list[Opened]:
        """Return the openings of cases that another worker had owned, in order of time."""
        found = [note for note in self.notes if isinstance(note, Opened) and note.epoch > 1]
        return sorted(found, key=lambda note: note.at)
