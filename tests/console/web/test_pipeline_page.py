"""The page of the pipeline, in a real browser and through the API."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import msgspec
import pytest

from browsers import Browser
from consoles import Served, file_settings, serving, work_on
from seekpoint.console.services.arguments.target import CommandTarget
from seekpoint.console.services.facts.pipeline_facts import PipelineFacts, PipelineReader
from seekpoint.console.web.app import make_parts
from seekpoint.console.web.console_options import ConsoleOptions
from seekpoint.console.web.routes.pipeline_routes import pipeline_stream
from seekpoint.consumers.projector.projector import Projector
from seekpoint.producers import Node
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.errors import JournalUnavailable


def target_of(settings: Settings) -> CommandTarget:
    """The journal in a file, as a command has it."""
    return CommandTarget(None, None, None, f"sqlite:///{settings.sqlite_path}")


@contextmanager
def projecting(settings: Settings) -> Iterator[None]:
    """A projector in a thread."""
    ready: list[Projector] = []
    is_ready = threading.Event()

    async def run() -> None:
        ready.append(Projector(settings))
        is_ready.set()
        await ready[0].run()

    thread = threading.Thread(target=lambda: asyncio.run(run()))
    thread.start()
    assert is_ready.wait(30)
    try:
        yield
    finally:
        ready[0].stop()
        thread.join(30)


async def _update(node: Node) -> None:
    async with node.open("p-1") as process:
        await process.update("x", 1)


def test_the_page_is_live(browser: Browser, tmp_path: Path) -> None:
    """Lag grows without a projector; one that starts shows with its partitions, and the lag is gone."""
    settings = file_settings(tmp_path, checkpoint_age_max_s=0.2)
    work_on(settings, _update)
    with closing(target_of(settings)) as target, serving(target) as served:
        browser.open(f"{served.url}/pipeline")
        assert browser.text("#pipeline-summary").startswith("8 partitions · no usable view in some partitions")
        assert "none runs: seekpoint serve projector" in browser.text("#services")
        assert "no worker runs" in browser.text("#workers")
        assert len(browser.all("#partitions tbody tr")) == 8
        with projecting(settings):
            browser.until(lambda: "view 0 offsets behind · 1 projector ·" in browser.text("#pipeline-summary"))
            browser.until(lambda: "pid" in browser.text("#partitions"))
            assert browser.text("#services tbody tr").split("\t")[2] == "0-7"
            [row] = [row.text.split() for row in browser.all("#partitions tbody tr") if row.text.split()[4] != "0"]
            assert row[3] == row[4]
        browser.until(lambda: "nobody" in browser.text("#partitions"))
        work_on(settings, _update)
        browser.until(lambda: browser.all("td.late"))
        assert "view 0 offsets behind" not in browser.text("#pipeline-summary")


def test_the_api_has_the_same(console: Served) -> None:
    """Each partition; nothing of what the file does not have."""
    with console.client() as client:
        found = client.get("/api/pipeline").json()
    assert found["problem"] is None
    pipeline = found["pipeline"]
    assert (pipeline["is_embedded"], pipeline["members"], pipeline["workers"], pipeline["nodes"]) == (True, [], [], [])
    assert [one["partition"] for one in pipeline["partitions"]] == [*range(8)]
    assert all(one["log_end"] >= one["log_start"] == 0 for one in pipeline["partitions"])


def test_without_redis_the_page_says_so(console: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """And that processes are read from the log."""
    read = PipelineReader.read

    def without(reader: PipelineReader) -> PipelineFacts:
        return msgspec.structs.replace(read(reader), no_view="the settings name no Redis", behind=None)

    monkeypatch.setattr(PipelineReader, "read", without)
    with console.client() as client:
        page = client.get("/pipeline").text
    assert "<strong>without a view</strong>: the settings name no Redis, so processes are read from the log" in page


def test_a_journal_that_cannot_be_read_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By page and API, with the reason; what was read before stays."""
    settings = file_settings(tmp_path)
    work_on(settings, _update)
    with closing(target_of(settings)) as target, serving(target) as served, served.client() as client:
        (tmp_path / "journal.db").rename(tmp_path / "elsewhere.db")
        answer = client.get("/api/pipeline")
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "NotRead")
        assert "the journal cannot be read" in client.get("/pipeline").text
        (tmp_path / "elsewhere.db").rename(tmp_path / "journal.db")
        assert client.get("/api/pipeline").json()["problem"] is None

        def away(reader: PipelineReader) -> PipelineFacts:
            raise JournalUnavailable("Kafka does not answer")

        monkeypatch.setattr(PipelineReader, "read", away)
        deadline = time.monotonic() + 20
        while (seen := client.get("/api/pipeline").json())["problem"] is None:
            assert time.monotonic() < deadline
        assert seen["problem"].startswith("Kafka does not answer; ")
        page = client.get("/pipeline").text
        assert "this is what was read before" in page
        assert page.count('<td class="n">0</td>') > 8


def test_viewers_of_the_pipeline_share_one_reader(target: CommandTarget) -> None:
    """However many streams are open, the journal is read as for one, and the page is made once."""

    async def watch(viewers: int) -> tuple[int, int]:
        parts = make_parts(target, ConsoleOptions(), "ann")
        parts.pipeline.start()
        await parts.pipeline.current()
        streams = [pipeline_stream(parts) for _ in range(viewers)]
        for stream in streams:
            await anext(stream)
            await anext(stream)
        before = parts.pipeline.reads
        await asyncio.sleep(2.5)
        counted = parts.pipeline.reads - before, parts.pipeline_streams.computed
        for stream in streams:
            await stream.aclose()
        await parts.pipeline.stop()
        parts.end_threads()
        return counted

    one, hundred = asyncio.run(watch(1)), asyncio.run(watch(100))
    assert one[0] > 0
    assert abs(one[0] - hundred[0]) <= 1
    assert hundred[1] <= one[1] + 1


@pytest.mark.parametrize("dark", [False, True])
def test_the_page_is_accessible(browser: Browser, console: Served, axe: str, dark: bool) -> None:
    """axe-core finds nothing."""
    browser.resize(1280, 800, dark=dark)
    browser.open(f"{console.url}/pipeline")
    assert browser.violations(axe) == []
