"""Which requests for a recovery wait for an answer, as their two topics tell."""

from __future__ import annotations

import contextlib
from collections import OrderedDict

from seekpoint.consumers.recovery_service.exchange import Exchange, Kind
from seekpoint.schemas.errors import UndecodableRecord
from seekpoint.schemas.log.log_ports import Record
from seekpoint.schemas.log.recovery_requests import ANSWER_FINGERPRINT, decode_request

__all__ = ["OpenRequests", "RequestAudit"]

_ID_AT = 2 + len(ANSWER_FINGERPRINT)
_KINDS: tuple[Kind, ...] = ("recover", "recovered")


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


class RequestAudit:
    """Follows both topics of an exchange, from where they ended at its first look."""

    def __init__(self, exchange: Exchange) -> None:
        self.requests = OpenRequests()
        self._exchange = exchange
        self._seen: dict[tuple[Kind, int], int] = {}

    def read(self) -> None:
        """What is new. Blocks; raises as the exchange does. Requests first: then an answer that is seen has its own."""
        for kind in _KINDS:
            for partition in range(self._exchange.partitions):
                start = self._seen.get((kind, partition))
                if start is None:
                    self._seen[kind, partition] = self._exchange.end(kind, partition)
                    continue
                records, self._seen[kind, partition] = self._exchange.read(kind, partition, start)
                for record in records:
                    self._note(kind, record)

    def _note(self, kind: Kind, record: Record) -> None:
        if kind == "recovered":  # its id alone: the state behind it may be large
            self.requests.answered((record.value or b"")[_ID_AT : _ID_AT + 16])
            return
        with contextlib.suppress(UndecodableRecord):
            request = decode_request(record.value, self._exchange.limits)
            self.requests.asked(request.id, request.deadline)
