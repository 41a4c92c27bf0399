"""Pages that are shown while something else of the journal is still being read."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

from consoles import serving
from seekpoint.console.services.arguments.target import CommandTarget
from seekpoint.console.web.data.entry_index import EntryIndex
from seekpoint.console.web.data.log_source import LogSource

READS = 12


class Held:
    """A call that begins, and goes on when the test says so."""

    def __init__(self, call: Any) -> None:
        self._call = call
        self.began = threading.Semaphore(0)
        self.may_go_on = threading.Event()
        self.was_too_long = False

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        self.began.release()
        self.was_too_long |= not self.may_go_on.wait(15)
        return self._call(*arguments, **named)


@contextmanager
def held(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> Iterator[Held]:
    """Hold a method for the block."""
    one = Held(getattr(owner, name))
    monkeypatch.setattr(owner, name, lambda *arguments, **named: one(*arguments, **named))
    try:
        yield one
    finally:
        one.may_go_on.set()


def test_the_list_does_not_wait_until_the_journal_was_read(
    target: CommandTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page says that it is being read. What programs get has all processes."""
    with serving(target) as served, served.client() as client, held(monkeypatch, LogSource, "load") as load:
        page = client.get("/processes").text
        assert "reading the journal" in page
        assert not load.was_too_long
        load.may_go_on.set()
        found = client.get("/api/processes?sort=id").json()
        assert [one["process_id"] for one in found["processes"]] == ["order-1", "order-2", "order-3"]


def test_slow_reads_of_pages_leave_other_pages_alone(target: CommandTarget, monkeypatch: pytest.MonkeyPatch) -> None:
    """Twelve states are recovered, slowly. The list is kept up to date meanwhile, and another page is shown."""
    recoverer = target.recoverer
    with serving(target) as served, served.client() as client, ThreadPoolExecutor(READS) as viewers:
        with held(monkeypatch, recoverer, "recover") as recover:
            slow = [viewers.submit(client.get, "/api/state?id=order-1") for _ in range(READS)]
            for _ in range(READS):
                assert recover.began.acquire(timeout=10)
            assert len(client.get("/api/processes").json()["processes"]) == 3
            assert client.get("/api/entries?id=order-2").json()["total"] > 3
            assert not any(one.done() for one in slow)
        assert [one.result(30).status_code for one in slow] == [200] * READS


def test_an_unknown_process_is_not_looked_for_page_by_page(
    target: CommandTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A log that takes long to read: once the list is there, who is not in it is looked up at once."""
    monkeypatch.setattr(EntryIndex, "read_on", lambda index, seconds: False)
    with serving(target) as served, served.client() as client:
        assert len(client.get("/api/processes").json()["processes"]) == 3
        for tab in ("entries", "calls", "timeline", "story"):
            answer = client.get(f"/{tab}?id=nobody")
            assert answer.status_code == 404
            assert "no such process" in answer.text
        assert "reading" in client.get("/entries?id=order-1").text
