"""Which requests for a recovery wait for an answer, as their two topics tell. Pure."""

from __future__ import annotations

from collections import OrderedDict

__all__ = ["OpenRequests"]


class OpenRequests:
    """Requests by id, until they are answered or their deadline is over. Remembers ``remembered_max`` of each sort."""

    def __init__(self, remembered_max: int = 10_000) -> None:
        self._remembered_max = remembered_max
        self._open: OrderedDict[bytes, int] = OrderedDict()
        self._answered: OrderedDict[bytes, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._open)

    def asked(self, request_id: bytes, deadline: int) -> None:
        """A request was seen, perhaps once more."""
        if request_id not in self._answered:
            self._open[request_id] = deadline
            _trim(self._open, self._remembered_max)

    def answered(self, request_id: bytes) -> None:
        """An answer was seen, perhaps before its request."""
        self._open.pop(request_id, None)
        self._answered[request_id] = None
        _trim(self._answered, self._remembered_max)

    def expire(self, now: int) -> list[bytes]:
        """Those that were not answered in time; they are forgotten."""
        late = [request_id for request_id, deadline in self._open.items() if deadline < now]
        for request_id in late:
            del self._open[request_id]
        return late


def _trim(kept: OrderedDict[bytes, object] | OrderedDict[bytes, int] | OrderedDict[bytes, None], most: int) -> None:
    while len(kept) > most:
        kept.popitem(last=False)
