"""Requests are answered and answers decoded, without Kafka."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import orjson
import pytest

from owners import Owner
from seekpoint.consumers.recovery.recovery import Recovery
from seekpoint.consumers.recovery_service.answering import RequestAnswerer, is_now, open_answer, point_of
from seekpoint.consumers.recovery_service.exchange import MemoryExchange
from seekpoint.consumers.recovery_service.open_requests import OpenRequests, RequestAudit
from seekpoint.schemas.config.limits import DEFAULT_LIMITS, Limits
from seekpoint.schemas.errors import (
    JournalGap,
    RequestTimeout,
    SeekpointError,
    UndecodableRecord,
    UnknownPoint,
    UnknownProcess,
)
from seekpoint.schemas.log.memory_log import MemoryLog
from seekpoint.schemas.log.recovery_requests import RecoveryAnswer, RecoveryRequest, encode_answer, encode_request

NOW = 1_000_000
ID = bytes(range(16))


def request(process_id: str = "case-17", **fields: Any) -> RecoveryRequest:
    return RecoveryRequest(**{"id": ID, "process_id": process_id, "deadline": NOW + 1, "ts": NOW, **fields})


def answering(log: MemoryLog, limits: Limits = DEFAULT_LIMITS, **how: Any) -> RequestAnswerer:
    return RequestAnswerer(Recovery.in_memory(log), limits, "node-1", clock=lambda: NOW, **how)


@pytest.fixture
def worked(owner: Owner) -> Owner:
    owner.claim("node-a")
    owner.update("a", "1")
    owner.update("a", "2")
    return owner


async def test_an_answer_is_the_state_and_its_report(log: MemoryLog, worked: Owner) -> None:
    """The answer equals the result of a local recovery."""
    answer = await answering(log).answer(request())
    found, own = open_answer(answer), await Recovery.in_memory(log).recover("case-17")
    assert (answer.id, found.answered_by) == (ID, "node-1")
    assert found.state == own.state
    assert found.hash == own.state.hash
    assert (found.report["tier"], found.report["entries_applied"]) == ("scan", 2)


async def test_a_point_in_the_past_is_asked_for(log: MemoryLog, worked: Owner) -> None:
    """A request may name a seq, an offset or a time."""
    by_seq = open_answer(await answering(log).answer(request(at_seq=1)))
    by_offset = open_answer(await answering(log).answer(request(at_offset=1)))
    assert by_seq.state is not None
    assert by_seq.state.context == {"a": 1}
    assert by_offset.hash == by_seq.hash
    with pytest.raises(UnknownPoint):
        open_answer(await answering(log).answer(request(at_time=1)))


async def test_an_error_is_raised_as_it_was_there(log: MemoryLog) -> None:
    """The requester gets its class, message, hint and facts, and the node that raised it."""
    with pytest.raises(UnknownProcess) as caught:
        open_answer(await answering(log).answer(request("nobody")))
    assert (caught.value.process_id, caught.value.answered_by) == ("nobody", "node-1")
    assert caught.value.hint == UnknownProcess.hint


async def test_facts_of_an_error_come_along(log: MemoryLog, worked: Owner) -> None:
    """Facts are sent as far as JSON can hold them."""
    log.trim(worked.partition, 1)
    with pytest.raises(JournalGap) as caught:
        open_answer(await answering(log).answer(request()))
    assert caught.value.low == 1


async def test_a_request_that_is_too_late_costs_nothing(log: MemoryLog, worked: Owner) -> None:
    """After its deadline a request is answered without a recovery."""
    late = await answering(log).answer(request("nobody", deadline=NOW))
    assert late.error == "RequestTimeout"
    with pytest.raises(RequestTimeout):
        open_answer(late)


async def test_whatever_goes_wrong_is_an_answer(log: MemoryLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """A failing request never stops the worker."""
    made = answering(log)

    def broken(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError("what")

    monkeypatch.setattr(made._recovery, "recover", broken)
    with pytest.raises(SeekpointError, match="unexpected ZeroDivisionError: what"):
        open_answer(await made.answer(request()))


async def test_a_state_that_does_not_fit_is_published_elsewhere(log: MemoryLog, worked: Owner) -> None:
    """A state up to the record limit is in the answer. A state one byte larger is published elsewhere."""
    whole = await answering(log).answer(request())
    size = len(encode_answer(whole)) + len("case-17")
    asked = []

    async def publish_state(process_id: str, found: Any) -> str:
        asked.append((process_id, found.state.hash))
        return "view"

    duration = orjson.loads(whole.report or "")["duration_s"]
    assert duration > 0
    room = Limits(record_bytes=size + 40)
    assert (await answering(log, room, publish_state=publish_state).answer(request())).state is not None
    tight = Limits(record_bytes=size - 200)
    found = open_answer(await answering(log, tight, publish_state=publish_state).answer(request()))
    assert (found.state, found.place, found.hash) == (None, "view", whole.hash)
    assert asked == [("case-17", whole.hash)]
    past = open_answer(await answering(log, tight, publish_state=publish_state).answer(request(at_seq=2)))
    assert (past.state, past.place, past.hash) == (None, None, whole.hash)  # what is kept is kept as of now
    assert open_answer(await answering(log, tight).answer(request())).place is None


async def test_an_inconsistent_answer_is_refused(log: MemoryLog, worked: Owner) -> None:
    """Refused are a state with another hash, an answer with neither state nor error, and facts that are no object."""
    answer = await answering(log).answer(request())
    for lie in (
        replace(answer, hash="0" * 32),
        replace(answer, hash=None),
        replace(answer, report="[]"),
        RecoveryAnswer(id=ID, process_id="p", error="UnknownProcess", facts="{", ts=0),
    ):
        with pytest.raises(UndecodableRecord):
            open_answer(lie)


@pytest.mark.parametrize("name", ["Nonsense", "Any", "__all__", "annotations"])
def test_an_error_of_a_newer_version_is_one_of_ours(name: str) -> None:
    """An unknown class becomes the base class with its name in the message, and never another name of the module."""
    with pytest.raises(SeekpointError, match=f"{name}: what"):
        open_answer(RecoveryAnswer(id=ID, process_id="p", error=name, message="what", ts=0))


def test_a_point_is_checked_before_it_is_sent() -> None:
    """The check is that of a local recovery."""
    assert point_of(at_seq=None, at_offset=None, at_time=datetime(1970, 1, 1, 0, 0, 1, 5, UTC))["at_time"] == 1_000_005
    assert point_of(at_seq=None, at_offset=None, at_time=1.5)["at_time"] == 1_500_000
    with pytest.raises(UnknownPoint):
        point_of(at_seq=0, at_offset=None, at_time=None)
    assert is_now(request())
    assert not is_now(request(at_offset=0))


# --- the audit of open requests ---------------------------------------------------------------------------------------
def test_open_requests_are_those_without_an_answer() -> None:
    """Each id counts once, however often it is requested and answered. Late requests are reported once."""
    open_requests = OpenRequests(remembered_max=3)
    for request_id in (b"a", b"b", b"a"):
        open_requests.add_request(request_id, 10)
    open_requests.add_answer(b"a")
    open_requests.add_request(b"a", 10)
    assert len(open_requests) == 1
    assert open_requests.expire(10) == []
    assert open_requests.expire(11) == [b"b"]
    assert open_requests.expire(12) == []
    for number in range(9):
        open_requests.add_request(bytes([number]), 10)
    assert len(open_requests) == 3


def test_the_audit_follows_both_topics() -> None:
    """It starts at their ends at the first read, and skips undecodable records."""
    exchange = MemoryExchange(partitions=2)
    exchange.send("recover", 0, b"case-17", encode_request(request(id=bytes(16))))
    audit = RequestAudit(exchange)
    audit.read()
    other = bytes(15) + b"x"
    for value in (b"junk", encode_request(request()), encode_request(request(id=other))):
        exchange.send("recover", 1, b"case-17", value)
    exchange.send("recovered", 0, b"case-17", encode_answer(RecoveryAnswer(id=ID, process_id="case-17", ts=0)))
    exchange.send("recovered", 0, b"case-17", b"")
    audit.read()
    assert len(audit.requests) == 1
    assert audit.requests.expire(NOW + 2) == [other]
