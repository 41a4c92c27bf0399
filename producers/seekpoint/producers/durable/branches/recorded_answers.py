"""The recorded answers that a replay of explicit branches hands out."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING

from seekpoint.producers.durable.replay.scopes import is_explicit, root_scope

if TYPE_CHECKING:
    from seekpoint.schemas.state.calls import Call

_OVER = frozenset({"succeeded", "failed"})


class RecordedAnswers:
    """(seq, key) of recorded answers in log order, by the scope whose code started the branches."""

    def __init__(self, records: Mapping[str, Call]) -> None:
        self._by_root: dict[str, deque[tuple[int, str]]] = {}
        roots = {root_scope(key) for key in records if is_explicit(key)}
        if roots:
            over = sorted((call.seq, key) for key, call in records.items() if call.position and call.status in _OVER)
            for seq, key in over:
                if (root := root_scope(key)) in roots:
                    self._by_root.setdefault(root, deque()).append((seq, key))

    def of(self, root: str) -> deque[tuple[int, str]]:
        """Return what is left of the calls that ``root`` and its branches made. The schedule takes from it."""
        return self._by_root.get(root) or deque()
