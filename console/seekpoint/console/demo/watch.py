"""What can be seen of the fleet from outside while it works: its notes and the model's bill, followed as they grow."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from seekpoint.console.demo.outside_ledger import (
    BilledCall,
    Ended,
    FileTail,
    Note,
    Opened,
    Receipt,
    read_calls,
    read_notes,
)
from seekpoint.console.demo.worker import bill_path, node_name, notes_path

__all__ = ["FleetWatch"]


class FleetWatch:
    """Follows a fleet's records in ``folder``. ``look`` before asking."""

    def __init__(self, folder: Path, nodes: int) -> None:
        self._bill = FileTail(bill_path(folder))
        self._tails = [FileTail(notes_path(folder, node_name(number))) for number in range(1, nodes + 1)]
        self.calls: list[BilledCall] = []
        self.notes: list[Note] = []
        self._answered: set[str] = set()
        self._held: dict[str, dict[str, Opened]] = {}

    def look(self) -> list[Note]:
        """Take in what was written since; the new notes."""
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
        """How many model calls were answered and acknowledged."""
        return len(self._answered)

    def held(self, node: str) -> list[str]:
        """The cases the node works on, in the order it opened them."""
        return list(self._held.get(node, {}))

    def answers_in(self, case: str) -> int:
        """How many of a case's model calls were answered."""
        return len({call.turn for call in self.calls if call.case == case and call.call_id in self._answered})

    def under_way(self, node: str) -> list[BilledCall]:
        """The node's calls that have no acknowledged answer."""
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
        """The node whose death would hurt most: in the middle of several cases, a model call under way."""
        hurt = {node: sum(self.answers_in(case) > 0 for case in self.held(node)) for node in nodes}
        worth = [node for node, begun in hurt.items() if begun >= cases_min and self.under_way(node)]
        return max(worth, key=hurt.__getitem__, default=None)

    def finished(self) -> int:
        """How many cases are finished."""
        return len({note.case for note in self.notes if isinstance(note, Ended) and note.how == "finished"})

    def take_overs(self) -> list[Opened]:
        """The openings that went on where another node had stopped, as they came."""
        found = [note for note in self.notes if isinstance(note, Opened) and note.epoch > 1]
        return sorted(found, key=lambda note: note.at)

    def receipts(self) -> list[Receipt]:
        """Everything that was acknowledged."""
        return [note for note in self.notes if isinstance(note, Receipt)]
