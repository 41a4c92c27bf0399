"""How a call differs from its history."""

from __future__ import annotations

from typing import NamedTuple

from seekpoint.schemas.errors import ReplayDivergence


class Difference(NamedTuple):
    """How a call differs from the history: the facts of ``ReplayDivergence`` and of a ``Diverged`` entry."""

    key: str
    position: int
    kind: str
    expected: str
    actual: str
    seq: int | None = None

    def error(self, process_id: str) -> ReplayDivergence:
        """Return the error that says so."""
        key, position, kind, expected, actual, seq = self
        return ReplayDivergence(
            _MESSAGES[kind], process_id=process_id, seq=seq, key=key, position=position, kind=kind, expected=expected,
            actual=actual,
        )  # fmt: skip


_MESSAGES = {
    "input": "the request of a call differs from its history",
    "prompt": "the request to a model differs from its history",
    "type": "the kind of a call differs from its history",
    "order": "another call stands here in the history",
    "length": "the code ended before it made every call of its history",
    "definition": "the agent's code is not the one this process began with",
}
