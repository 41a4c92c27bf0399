"""The page of all processes, in a real browser and through the API."""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import closing

import pytest
from selenium.webdriver.common.keys import Keys

from browsers import SCROLL_MS_MAX, Browser
from consoles import Served, file_settings, serving, work_on
from entry_examples import claim
from seekpoint.console.services.arguments.target import CommandTarget
from seekpoint.console.web.app import make_parts
from seekpoint.console.web.console_options import ConsoleOptions
from seekpoint.console.web.data.board import ListQuery
from seekpoint.console.web.data.log_source import LogSource
from seekpoint.console.web.routes.process_list_routes import list_stream
from seekpoint.producers import Node
from seekpoint.schemas.bodies.entry import Entry
from seekpoint.schemas.config.settings import Settings
from written_journals import write_entries


def test_the_list_has_each_process(browser: Browser, console: Served) -> None:
    """Its status, its agent and version, its error; counted by agent."""
    browser.open(f"{console.url}/")
    rows = [row.text for row in browser.all("#rows tr")]
    assert len(rows) == 3
    assert browser.text("#source").startswith("3 processes · reading from the log: ")
    [failed] = [row for row in rows if row.startswith("order-2")]
    assert "failed clerk 2" in failed
    assert "ValueError: no such order" in failed
    assert "clerk\t2" in browser.text("#counts")
    with console.client() as client:
        counts = client.get("/api/processes").json()["counts"]
    assert [(one["agent"], one["total"]) for one in counts] == [("clerk", 2), (None, 1)]  # no shared value


@pytest.mark.parametrize(
    ("query", "ids"),
    [
        ("", ["order-1", "order-2", "order-3"]),
        ("prefix=order-2", ["order-2"]),
        ("agent=clerk", ["order-1", "order-2"]),
        ("lifecycle=finished", ["order-1"]),
        ("only=failed", ["order-2"]),
        ("only=open&only=failed&since=2h", ["order-2"]),
        ("since=1999-01-01&sort=id&limit=2", ["order-1", "order-2"]),
        ("only=on_hold", []),
        ("shared=true", ["order-1", "order-2", "order-3", "shared:rate"]),
        ("shared=True&only=open", ["order-2", "order-3"]),
    ],
)
def test_the_address_is_the_filter(console: Served, query: str, ids: list[str]) -> None:
    """The page and the API take the same parameters."""
    with console.client() as client:
        found = client.get(f"/api/processes?{query}&sort=id" if "sort" not in query else f"/api/processes?{query}")
        assert [one["process_id"] for one in found.json()["processes"]] == ids
        page = client.get(f"/processes?{query}").text
        assert all(f'data-row="{name}"' in page for name in ids)


@pytest.mark.parametrize("query", ["lifecycle=odd", "sort=size", "limit=0", "limit=x", "only=all", "since=soon", "x=1"])
def test_a_bad_filter_is_explained(console: Served, query: str) -> None:
    """What is allowed, not an empty list."""
    with console.client() as client:
        for path in ("/api/processes", "/events/processes", "/processes"):
            answer = client.get(f"{path}?{query}")
            assert answer.status_code == 400
        assert client.get(f"/api/processes?{query}").json()["error"]["code"] == "BadQuery"


def test_keys_walk_through_the_list(browser: Browser, console: Served) -> None:
    """j and k choose a row, Enter opens it, / leads to the search and ? explains."""
    browser.open(f"{console.url}/processes?sort=id")
    browser.press("j")
    browser.press("j")
    browser.press("k")
    browser.press("G")
    assert browser.one("tr.selected").get_attribute("data-row") == "order-3"
    browser.press("/")
    browser.press("order-1")
    browser.press(Keys.ENTER)
    browser.arrive("prefix=order-1")
    assert len(browser.all("#rows tr")) == 1
    browser.press("?")
    assert "next, previous row" in browser.text("#help")
    browser.press(Keys.ESCAPE)
    browser.press("j")
    browser.press(Keys.ENTER)
    browser.arrive("/process?id=order-1")
    assert "order-1" in browser.text("h1")


def test_a_filter_can_be_saved(browser: Browser, console: Served) -> None:
    """In this browser; the address is the filter."""
    browser.open(f"{console.url}/processes?only=failed")
    browser.one("#save-filter").click()
    browser.open(f"{console.url}/processes")
    browser.one("#saved a").click()
    browser.arrive("/processes?only=failed")
    browser.one("#saved button").click()
    assert browser.all("#saved a") == []


def test_the_list_is_live(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> None:
    """What goes on shows without a reload; after a restart of the console the page connects by itself."""
    settings = file_settings(tmp_path_factory.mktemp("live"))
    work_on(settings, lambda node: _update(node, "first"))
    assert settings.sqlite_path is not None
    url = f"sqlite:///{settings.sqlite_path}"
    with closing(CommandTarget(None, None, None, url)) as target, serving(target) as served:
        browser.open(f"{served.url}/processes")
        browser.until(lambda: "first" in browser.text("#rows"))
        work_on(settings, lambda node: _update(node, "second"))
        browser.until(lambda: "second" in browser.text("#rows"))
        port = int(served.url.rpartition(":")[2])
    browser.until(lambda: "not connected" in browser.text("#connection"))
    work_on(settings, lambda node: _update(node, "third"))
    with closing(CommandTarget(None, None, None, url)) as target, serving(target, ConsoleOptions(port=port)):
        browser.until(lambda: "third" in browser.text("#rows"))
        assert browser.text("#connection") == ""
    browser.driver.get("about:blank")
    browser.problems()


def test_a_process_may_change_again_and_again(tmp_path_factory: pytest.TempPathFactory) -> None:
    """What is read from the log is read on from where it was, at each change."""
    settings = file_settings(tmp_path_factory.mktemp("again"))
    work_on(settings, lambda node: _update(node, "one"))
    target = CommandTarget(None, None, None, settings.journal_url)
    source = LogSource(target)
    before = source.load()["one"].seq
    for change in (1, 2, 3):
        work_on(settings, lambda node: _update(node, "one"))
        assert source.changed()["one"].seq > before + change - 1
    target.close()


async def _update(node: Node, process_id: str) -> None:
    async with node.open(process_id) as process:
        await process.update("x", 1)


def test_ten_thousand_processes_are_usable(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> None:
    """The first paint comes within a second, no scroll step waits over 200 ms, and pages have each process once."""
    settings = file_settings(tmp_path_factory.mktemp("many"))
    write_entries(settings, map(_claim, range(10_000)))
    url = f"sqlite:///{settings.sqlite_path}"
    with closing(CommandTarget(None, None, None, url)) as target, serving(target) as served:
        with served.client() as client:
            deadline = time.monotonic() + 60
            while client.get("/api/processes").json()["total"] < 10_000:
                assert time.monotonic() < deadline
            pages = [client.get(f"/api/processes?sort=id&limit=300&skip={skip}").json() for skip in (0, 4_000, 9_000)]
            beyond = client.get("/api/processes?skip=10000").json()
        ids = [one["process_id"] for page in pages for one in page["processes"]]
        assert ids == [f"case-{n:05}" for first in (0, 4_000, 9_000) for n in range(first, first + 300)]
        assert (beyond["processes"], beyond["total"]) == ([], 10_000)
        browser.open(f"{served.url}/processes?sort=id&limit=300")
        painted = "return performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0"
        assert 0 < browser.until(lambda: browser.script(painted)) <= 1_000
        places = [270 * step for step in range(30)]
        assert browser.slowest_scroll_ms(".scroller", places, lambda: browser.arrive("sort=id")) <= SCROLL_MS_MAX
        assert "1 to 300 shown" in browser.text("#source")
        browser.press("]")
        browser.arrive("skip=300")
        assert browser.one("#rows tr").get_attribute("data-row") == "case-00300"
        browser.press("[")
        browser.arrive("skip=0")
        assert browser.one("#rows tr").get_attribute("data-row") == "case-00000"


def _claim(number: int) -> Entry:
    return claim(number + 1)._replace(process_id=f"case-{number:05}")


def test_viewers_share_one_reader(target: CommandTarget) -> None:
    """However many streams are open, the journal is read as for one, and equal lists are computed once."""

    async def watch(viewers: int) -> tuple[int, int]:
        parts = make_parts(target, ConsoleOptions(), "ann")
        parts.board.start()
        streams = [list_stream(parts, ListQuery()) for _ in range(viewers)]
        for stream in streams:
            await anext(stream)
        await asyncio.sleep(2.5)
        for stream in streams:
            await anext(stream)
        counted = parts.board.reads, parts.streams.computed
        for stream in streams:
            await stream.aclose()
        await parts.board.stop()
        parts.end_threads()
        return counted

    one, hundred = asyncio.run(watch(1)), asyncio.run(watch(100))
    assert abs(one[0] - hundred[0]) <= 1
    assert hundred[1] <= one[1] + 1


def test_the_page_is_accessible(browser: Browser, console: Served, axe: str) -> None:
    """axe-core finds nothing, in light and dark, wide and narrow."""
    for width, dark in ((1280, False), (1280, True), (800, False)):
        browser.resize(width, 800, dark=dark)
        browser.open(f"{console.url}/processes")
        assert browser.violations(axe) == []


def test_the_api_is_described(console: Served, some_processes: Settings) -> None:
    """Each call with its role, its parameters and its answers."""
    with console.client() as client:
        document = client.get("/api/openapi.json").json()
    listed = document["paths"]["/api/processes"]["get"]
    assert {one["name"] for one in listed["parameters"]} >= {"agent", "lifecycle", "only", "limit"}
    assert json.dumps(document).count("#/components/schemas/ProcessList") >= 1
