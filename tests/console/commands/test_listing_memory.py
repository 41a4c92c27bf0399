"""What a listing takes in memory does not grow with what it lists."""

from __future__ import annotations

import json
import os
import tracemalloc
from collections.abc import Callable, Collection, Iterator
from functools import partial
from typing import Any, TextIO

import pytest

from owners import Owner
from seekpoint.console.commands.control import effects, gates
from seekpoint.console.commands.histories import verify
from seekpoint.console.commands.journal import checkpoints
from seekpoint.console.commands.journal.dlq import ls
from seekpoint.console.commands.processes import ps, shared
from seekpoint.console.render.output import emit_json, emit_json_list
from seekpoint.console.services.histories import process_scan
from seekpoint.console.services.histories.process_scan import scan_processes
from seekpoint.consumers import Recoverer
from seekpoint.consumers.recovery.dead_letters import DeadLetter, DeadLetters
from seekpoint.consumers.recovery.verification import Verification
from seekpoint.consumers.view.process_summary import summary_of
from seekpoint.consumers.view.view_store import Loaded, Page, ViewMeta
from seekpoint.schemas import MemoryLog, Settings
from seekpoint.schemas import bodies as b
from seekpoint.schemas.folding.fold import SHARED_PREFIX
from seekpoint.schemas.log.log_ports import Watermarks
from seekpoint.schemas.log.memory_log import MemoryTable
from seekpoint.schemas.state.process_state import State

LETTER_BYTES = 100_000
LETTERS = 400
PROCESSES = 6_000
PARTITIONS = 8
PEAK_BYTES_MAX = 2_800_000
"""What all of them take together is more."""


class Made(MemoryTable):
    """A table whose values are made when they are asked for: only the reader could keep them."""

    def stream(self) -> Iterator[tuple[bytes, bytes]]:
        for offset in range(LETTERS):
            letter = DeadLetter(
                topic="memory.journal", partition=0, offset=offset, timestamp_ms=0, key=b"k" * 1_000,
                value=os.urandom(LETTER_BYTES), error="junk", seen_at="2026-01-01T00:00:00.000+00:00",
            )  # fmt: skip
            yield letter.place.encode(), letter.to_bytes()


class Target:
    """As much of one as ``dlq ls`` asks for."""

    settings = Settings(redis_url=None)

    def __init__(self) -> None:
        log = MemoryLog()
        log.table = lambda name: Made()  # type: ignore[method-assign]
        self.dead_letters = DeadLetters(log, self.settings)


@pytest.fixture
def nowhere(monkeypatch: pytest.MonkeyPatch) -> Iterator[TextIO]:
    with open(os.devnull, "w") as out:
        monkeypatch.setattr("sys.stdout", out)
        yield out


@pytest.mark.parametrize("as_json", [True, False])
def test_dead_letters_are_listed_one_by_one(nowhere: TextIO, as_json: bool) -> None:
    """Forty megabytes of them take less than eight; so do counting them, and looking for one."""
    target: Any = Target()
    tracemalloc.start()
    try:
        ls(target, json=as_json)
        assert target.dead_letters.count() == LETTERS
        assert target.dead_letters.get(f"memory.journal:0:{LETTERS - 1}") is not None
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 8_000_000


class Fleet:
    """A target whose processes, states and checkpoints are made when they are asked for."""

    partitions = PARTITIONS
    topic_id = "topic-id"
    name = "memory"
    settings = Settings(redis_url=None)

    def __init__(self) -> None:
        self.log: Any = self
        self.view: Any = self
        self.checkpoints: Any = self
        self.recoverer = Recoverer(MemoryLog())
        self.pages_until_gone = PROCESSES
        self.processes = PROCESSES
        self.state = a_state()

    def ids_of(self, partition: int) -> list[str]:
        return [f"{SHARED_PREFIX}case-{number:05}" for number in range(partition, self.processes, PARTITIONS)]

    def reachable(self, *, may_create: bool = False) -> Settings:
        return self.settings

    def watermarks(self, partition: int) -> Watermarks:
        return Watermarks(0, 10)

    def scan(self, target: object) -> Iterator[tuple[str, int, State]]:
        """As ``scan_processes``: by partition, and by id within it."""
        for partition in range(PARTITIONS):
            for process_id in self.ids_of(partition):
                yield process_id, partition, self.state

    # the view
    def meta(self, partition: int) -> ViewMeta:
        return ViewMeta("token", 9, self.topic_id, 0)

    def page(self, partition: int, after: bytes, prefix: bytes, count: int, *, open_only: bool = False) -> Page:
        self.pages_until_gone -= 1
        if self.pages_until_gone < 0:
            return Page(None, [])
        ids = [one for one in self.ids_of(partition) if one > after.decode()][:count]
        return Page(self.meta(partition), [summary_of(partition, one.encode(), self.state) for one in ids])

    def load(self, partition: int, token: str, keys: Collection[bytes]) -> Loaded:
        return Loaded(9, dict.fromkeys(keys, self.state))

    def table(self, name: str) -> MemoryTable:
        """Of heartbeats: there is no node."""
        return MemoryTable()

    # checkpoints
    def stable_end(self, partition: int) -> int:
        return PROCESSES

    def records(self, partition: int, start: int, stop: int) -> Iterator[tuple[int, bytes, bytes]]:
        for position, process_id in enumerate(self.ids_of(partition)):
            yield position, process_id.encode(), b"damaged"


class View(Fleet):
    """The view of a fleet: its ``partitions`` are asked for by a call."""

    def __init__(self, fleet: Fleet) -> None:
        super().__init__()
        self.fleet = fleet

    def ids_of(self, partition: int) -> list[str]:
        return self.fleet.ids_of(partition)

    def partitions(self) -> int:  # type: ignore[override]
        return PARTITIONS


def a_state() -> State:
    """Of a process with an open gate and an effect in doubt."""
    log = MemoryLog(partitions=1)
    owner = Owner(log.append, 1, "case-17")
    owner.claim()
    owner.own(b.GateOpened("refund:1", 1, "refund", prompt='"may I?"'))
    owner.own(b.EffectIntended("pay:1", 1, "pay", semantics="at_most_once", idempotency_key="k"))
    return Recoverer(log).recover("case-17").state


def peak_bytes(run: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        run()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


LISTINGS: dict[str, Callable[[Any, bool], object]] = {
    "ps --all": lambda target, as_json: ps.ps(target, shared=True, json=as_json),
    "ps --all --from-log": lambda target, as_json: ps.ps(target, shared=True, from_log=True, json=as_json),
    "gates ls": lambda target, as_json: gates.ls(target, json=as_json),
    "effects ls --in-doubt": lambda target, as_json: effects.ls(target, in_doubt=True, json=as_json),
    "effects ls": lambda target, as_json: effects.ls(target, json=as_json),
    "shared ls": lambda target, as_json: shared.ls(target, json=as_json),
    "checkpoints ls": lambda target, as_json: checkpoints.ls(target, json=as_json),
    "verify --all": lambda target, as_json: verify.verify(target, everything=True, json=as_json),
}


@pytest.fixture
def fleet(monkeypatch: pytest.MonkeyPatch) -> Fleet:
    found = Fleet()
    found.view = View(found)
    monkeypatch.setattr(process_scan, "scan_processes", found.scan)
    monkeypatch.setattr(shared, "scan_processes", found.scan)
    monkeypatch.setattr("seekpoint.consumers.recovery.verification.verify_all", partial(verified, found))
    return found


def verified(fleet: Fleet, recoverer: object, advance: object) -> Iterator[Verification]:
    for partition in range(PARTITIONS):
        for process_id in fleet.ids_of(partition):
            hashes = dict.fromkeys(("scan", "audit"), "0" * 32)
            missing = {"view": f"the view has no {process_id}"}
            yield Verification(process_id=process_id, offset=9, seq=1, epoch=1, hashes=hashes, missing=missing)


@pytest.mark.parametrize("as_json", [True, False])
@pytest.mark.parametrize("command", LISTINGS)
def test_processes_are_listed_one_by_one(nowhere: TextIO, fleet: Fleet, command: str, as_json: bool) -> None:
    """Six thousand of them take less than 2.8 megabytes: pages of 500 from each of eight partitions."""
    fleet.processes = 1
    LISTINGS[command](fleet, as_json)  # loads its modules
    fleet.processes = PROCESSES
    assert peak_bytes(lambda: LISTINGS[command](fleet, as_json)) < PEAK_BYTES_MAX


@pytest.mark.parametrize("command", LISTINGS)
def test_a_listing_leaves_nobody_out(fleet: Fleet, command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Across the pages of a table, and in one JSON document."""
    everybody = {process_id for partition in range(PARTITIONS) for process_id in fleet.ids_of(partition)}
    LISTINGS[command](fleet, True)
    (listed,) = (value for name, value in json.loads(capsys.readouterr().out).items() if name in _LISTS)
    prefix = SHARED_PREFIX if command == "shared ls" else ""
    assert sorted(prefix + (one.get("process_id") or one["name"]) for one in listed) == sorted(everybody)
    LISTINGS[command](fleet, False)
    rows = [line.split()[0] for line in capsys.readouterr().out.splitlines() if "case-" in line]
    assert len(rows) == PROCESSES
    assert {prefix + row for row in rows} == everybody


_LISTS = ("processes", "gates", "effects", "shared", "checkpoints")


def test_a_view_that_goes_away_meanwhile_is_followed_by_the_log(
    fleet: Fleet, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each process is listed once, though a page of some was written already."""
    fleet.view.pages_until_gone = PARTITIONS + 1
    ps.ps(fleet, shared=True, json=True)  # type: ignore[arg-type]
    ran = capsys.readouterr()
    listed = [one["process_id"] for one in json.loads(ran.out)["processes"]]
    assert "reading from the log: the view is being rebuilt" in ran.err
    assert len(listed) == len(set(listed)) == PROCESSES
    assert listed[:500] == sorted(listed)[:500]
    assert listed != sorted(listed)


def test_a_scan_holds_the_states_of_one_partition(nowhere: TextIO) -> None:
    """Sixteen megabytes of states in eight partitions take less than the half."""
    log = MemoryLog(partitions=PARTITIONS)
    for number in range(160):
        owner = Owner(log.append, PARTITIONS, f"case-{number}")
        owner.claim()
        owner.update("report", json.dumps(f"{number:03}" * 33_000))
    target: Any = Fleet()
    target.log, target.dead_letters, target.checkpoints = log, None, None

    def scan() -> None:
        assert sum(len(state.values_json["report"]) > 0 for _, _, state in scan_processes(target)) == 160

    assert peak_bytes(scan) < 8_000_000


def test_a_listing_that_cannot_begin_writes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    """A program that reads the output finds no half of a document."""

    def items() -> Iterator[int]:
        raise LookupError("no such process")
        yield 1

    with pytest.raises(LookupError, match="no such"):
        emit_json_list({"journal": "fleet"}, "items", items())
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("is_terminal", [True, False])
@pytest.mark.parametrize("items", [[], [1], [{"a": [1, "\x9b\u202e"]}, {}, []], ["x[]"]])
def test_a_list_that_is_written_item_by_item_is_the_same_text(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, is_terminal: bool, items: list[Any]
) -> None:
    """On a terminal, indented, as in a pipe."""
    monkeypatch.setattr("sys.stdout.isatty", lambda: is_terminal, raising=False)
    head = {"journal": "fleet []"}
    for tail in ({}, {"floors": [{"partition": 0}]}):
        emit_json({**head, "letters": items, **tail})
        whole = capsys.readouterr().out
        emit_json_list(head, "letters", iter(items), tail)
        assert capsys.readouterr().out == whole
        assert json.loads(whole) == {**head, "letters": items, **tail}
