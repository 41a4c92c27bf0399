"""What a listing takes in memory does not grow with what it lists."""

from __future__ import annotations

import json
import os
import tracemalloc
from collections.abc import Iterator
from typing import Any, TextIO

import pytest

from seekpoint.console.letters import ls
from seekpoint.console.output import emit_json, emit_json_list
from seekpoint.consumers.deadletters import DeadLetter, DeadLetters
from seekpoint.schemas import MemoryLog, Settings
from seekpoint.schemas.memory_log import MemoryTable

LETTER_BYTES = 100_000
LETTERS = 400


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


@pytest.mark.parametrize("is_terminal", [True, False])
@pytest.mark.parametrize("items", [[], [1], [{"a": [1, "\x9b\u202e"]}, {}, []], ["x[]"]])
def test_a_list_that_is_written_item_by_item_is_the_same_text(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, is_terminal: bool, items: list[Any]
) -> None:
    """On a terminal, indented, as in a pipe."""
    monkeypatch.setattr("sys.stdout.isatty", lambda: is_terminal, raising=False)
    head = {"journal": "fleet []"}
    emit_json({**head, "letters": items})
    whole = capsys.readouterr().out
    emit_json_list(head, "letters", iter(items))
    assert capsys.readouterr().out == whole
    assert json.loads(whole) == {**head, "letters": items}
