"""What a node logs of an error holds none of the settings' secrets."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest

import seekpoint.consumers
import seekpoint.producers
from seekpoint.producers.embedded_projector import EmbeddedProjector
from seekpoint.producers.tail.tail_follower import Follower
from seekpoint.producers.writer.healing import Healer
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.errors import JournalUnavailable, NewerFormat, SeekpointError

SECRET = "hush-hush-hush"
SETTINGS = Settings(kafka={"sasl.password": SECRET})
SAID = f"refused {SECRET}"


def masked(caplog: pytest.LogCaptureFixture, *, has_trace: bool = True) -> bool:
    """Whether the one error that was logged is there without its secret, in text, arguments and traceback."""
    (record,) = (each for each in caplog.records if each.levelno >= logging.ERROR)
    text = logging.Formatter().format(record)
    assert "refused" in text
    assert ("Traceback" in text) == has_trace
    return SECRET not in text and SECRET not in repr(record.args) and record.exc_info is None


class Broken:
    """A reader whose tail fails, and a projector that does."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def tail(self, *, is_steady: bool = False) -> Broken:
        return self

    def poll(self, timeout_s: float) -> None:
        raise self.error

    def close(self) -> None:
        pass

    async def run(self) -> None:
        raise self.error

    def stop(self) -> None:
        pass


async def test_a_tail_that_breaks(caplog: pytest.LogCaptureFixture) -> None:
    """Its thread ends and says why."""
    reader: Any = Broken(RuntimeError(SAID))
    follower = Follower(reader, SETTINGS)
    follower.wake()
    follower.start(asyncio.get_running_loop(), lambda generation, batch: None)
    assert follower._thread is not None
    await asyncio.to_thread(follower._thread.join, 60.0)
    follower.close()
    assert masked(caplog)


async def test_a_batch_that_cannot_be_delivered(caplog: pytest.LogCaptureFixture) -> None:
    """The thread goes on with the next one."""
    reader: Any = Broken(RuntimeError())
    follower = Follower(reader, SETTINGS)

    def fail(generation: int, batch: object) -> None:
        raise SeekpointError(SAID)

    follower._on_batch = fail
    batch: Any = None
    follower._handed([(1, batch)])
    assert masked(caplog)


async def test_a_process_that_cannot_be_healed(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What its owner is told holds no secret either."""

    class Handle:
        process_id = "case-17"
        error: SeekpointError

        def fail(self, error: SeekpointError) -> None:
            self.error = error

    nothing: Any = None
    handle: Any = Handle()
    healer = Healer(nothing, nothing, nothing, SETTINGS)

    async def claim_again(handle: object) -> bool:
        raise RuntimeError(SAID)

    monkeypatch.setattr(healer, "_claim_again", claim_again)
    await healer._heal(handle, JournalUnavailable("Kafka is away"))
    assert masked(caplog)
    assert "refused" in handle.error.message
    assert SECRET not in handle.error.message


@pytest.mark.parametrize("error", [RuntimeError(SAID), NewerFormat(SAID)], ids=["unforeseen", "typed"])
async def test_a_projector_that_fails(error: Exception, caplog: pytest.LogCaptureFixture) -> None:
    """With its traceback where nobody foresaw it."""
    embedded = EmbeddedProjector(Broken(error), SETTINGS)
    embedded.start()
    async with asyncio.timeout(60):
        while not caplog.records:  # noqa: ASYNC110  # it has no event
            await asyncio.sleep(0.001)
    await embedded.close()
    assert masked(caplog, has_trace=isinstance(error, RuntimeError))


def test_no_traceback_is_logged_as_it_is() -> None:
    """``logging`` would write it without the settings: ``traceback_of`` knows their secrets."""
    roots = [Path(found) for root in (seekpoint.producers, seekpoint.consumers) for found in root.__path__]
    files = [file for root in roots for file in root.rglob("*.py")]
    assert len(files) > 100
    texts = {file: file.read_text() for file in files}
    assert [str(file) for file, text in texts.items() if '.exception("' in text or "exc_info=" in text] == []
