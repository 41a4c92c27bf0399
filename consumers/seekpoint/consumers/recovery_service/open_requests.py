"""Find the recovery requests that wait for an answer, from the two topics."""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from typing import TypeVar

from seekpoint.consumers.recovery_service.exchange import Exchange, Kind
from seekpoint.schemas.errors import UndecodableRecord
from seekpoint.schemas.log.log_ports import Record
from seekpoint.schemas.log.recovery_requests import ANSWER, decode_request

T = TypeVar("T")

_ID_AT = 2 + len(ANSWER.fingerprint)
_KINDS: tuple[Kind, ...] = ("recover", "recovered")


class OpenRequests:
    """Requests by id, until they are answered or expire. Keeps ``remembered_max`` open and as many answered ones."""

    def __init__(self, remembered_max: int = 10_000) -> None:
        self._remembered_max = remembered_max
        self._open: OrderedDict[bytes, int] = OrderedDict()
        self._answered: OrderedDict[bytes, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._open)

    def add_request(self, request_id: bytes, deadline: int) -> None:
        """Record a request. It may arrive more than once."""
        if request_id not in self._answered:
            self._open[request_id] = deadline
            _trim(self._open, self._remembered_max)

    def add_answer(self, request_id: bytes) -> None:
        """Record an answer. It may arrive before its request."""
        self._open.pop(request_id, None)
        self._answered[request_id] = None
        _trim(self._answered, self._remembered_max)

    def expire(self, now: int) -> list[bytes]:
        """Remove and return the requests that were not answered in time."""
        late = [request_id for request_id, deadline in self._open.items() if deadline < now]
        for request_id in late:
            del self._open[request_id]
        return late


def _trim(items: OrderedDict[bytes, T], items_max: int) -> None:
    while len(items) > items_max:
        items.popitem(last=False)


class RequestAudit:
    """Follows both topics of an exchange, from their ends at the first ``read`` on."""

    def __init__(self, exchange: Exchange) -> None:
        self.requests = OpenRequests()
        self._exchange = exchange
        self._next: dict[tuple[Kind, int], int] = {}

    def read(self) -> None:
        """Read what is new, requests first, so that an answer has its request. Blocks; raises as the exchange does."""
        for kind in _KINDS:
            for partition in range(self._exchange.partitions):
                start = self._next.get((kind, partition))
                if start is None:
                    self._next[kind, partition] = self._exchange.end(kind, partition)
                    continue
                records, self._next[kind, partition] = self._exchange.read(kind, partition, start)
                for record in records:
                    self._note(kind, record)

    def _note(self, kind: Kind, record: Record) -> None:
        if kind == "recovered":  # only its id is decoded: the state behind it may be large
            self.requests.add_answer((record.value or b"")[_ID_AT : _ID_AT + 16])
            return
        with contextlib.suppress(UndecodableRecord):
            request = decode_request(record.value, self._exchange.limits)
            self.requests.add_request(request.id, request.deadline)
