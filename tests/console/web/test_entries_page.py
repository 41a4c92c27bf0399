"""The tab of a process's entries, in a real browser and through the API."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import httpx
import pytest
from selenium.webdriver.common.keys import Keys

from browsers import Browser
from consoles import Served, file_settings, serving
from entry_examples import own
from seekpoint.console.cli import main
from seekpoint.console.services.arguments.target import CommandTarget
from seekpoint.console.web.data import entry_search
from seekpoint.console.web.data.entry_search import EntrySearch, entries_after, entries_before
from seekpoint.console.web.data.histories import Histories
from seekpoint.schemas import bodies as b
from written_journals import CASE_BEGAN_US, a_case, many_steps, write_entries


@pytest.fixture(scope="module")
def journal(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The address of a journal with one case and a longer run. Tests only look at it."""
    settings = file_settings(tmp_path_factory.mktemp("entries"), partitions=1)
    write_entries(settings, [*a_case(), *many_steps("long", 1_002)])
    return f"sqlite:///{settings.sqlite_path}"


@pytest.fixture
def target(journal: str) -> Iterator[CommandTarget]:
    """The journal as a command has it."""
    with closing(CommandTarget(None, None, None, journal)) as found:
        yield found


@pytest.fixture
def served(target: CommandTarget) -> Iterator[Served]:
    """A console on the journal."""
    with serving(target) as found:
        yield found


def test_the_entries_are_those_of_the_command(served: Served, journal: str, capsys: pytest.CaptureFixture[str]) -> None:
    """One call of the API returns an entry exactly as ``seekpoint log --json`` has it, with the fold's verdict."""
    assert main(["log", "case-17", "--journal-url", journal, "--json"]) == 0
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    with served.client() as client:
        listed = client.get("/api/entries?id=case-17").json()
        addresses = [f"/api/entry?id=case-17&offset={one['offset']}" for one in listed["entries"]]
        assert [client.get(address).json()["entry"] for address in addresses] == told
    assert (listed["total"], listed["epochs"], listed["next"], listed["previous"]) == (20, [1, 2], None, None)
    assert [one["verdict"] for one in listed["entries"]].count("stale") == 1


_FILTERS: dict[str, list[int | None]] = {
    "kind=gate_opened&kind=gate_resolved": [12, 13],
    "kind=step_started&kind=step_ended&not_kind=step_started": [3, 8, 9, 11, 15],
    "epoch=2": [None, 13, 14, 15, 16],
    "not_epoch=1": [None, 13, 14, 15, 16],
    "epoch=1&kind=context_updated": [13],
    "text=NOROOM": [15],
    "text=busy&text=later": [8],
    "text=price%3A1&not_text=retry&not_text=%22succeeded%22": [6, 10],
    "text=%7B%22found%22%3A%22desk%22%7D": [3],
    "text=ann": [None, 13],
    "text=00000000-0000-0000-0000-00000000003c": [None, 13],
    "text=1790000000": [],
    "seq=14": [14, 15, 16],
    "seq=15&kind=message_said": [16],
    "seq=99": [],
    "limit=2&offset=2": [2, 3],
    "limit=2&before=4": [2, 3],
    "kind=nothing": [],
}


def test_filters_and_places(served: Served) -> None:
    """Of kinds and epochs one has to fit, of texts all, of the negated ones none. The page takes the same address."""
    with served.client() as client:
        told = {query: client.get(f"/api/entries?id=case-17&{query}").json()["entries"] for query in _FILTERS}
        assert {query: [one["seq"] for one in found] for query, found in told.items()} == _FILTERS
        pages = {query: client.get(f"/entries?id=case-17&{query}").text for query in [*_FILTERS][::4]}
    assert {query: page.count("data-row=") for query, page in pages.items()} == {
        query: len(_FILTERS[query]) for query in pages
    }


def _walk(client: httpx.Client, query: str, following: str, place: str) -> list[list[int]]:
    """Return the offsets of each page, by following one kind of link to its end."""
    pages: list[list[int]] = []
    at = "" if following == "next" else "&before=99999"
    while True:
        found: dict[str, Any] = client.get(f"/api/entries?id=long&{query}{at}").json()
        pages.append([one["offset"] for one in found["entries"]])
        if found[following] is None:
            return pages
        at = f"&{place}={found[following]}"


def test_pages_have_each_entry_once(served: Served) -> None:
    """Forwards and backwards, with and without filters. No page is longer than its limit, and only the last shorter."""
    for limit, query in ((300, ""), (100, "&kind=step_ended"), (50, "&text=9"), (500, "&text=step")):
        with served.client() as client:
            forwards = _walk(client, f"limit={limit}{query}", "next", "offset")
            backwards = _walk(client, f"limit={limit}{query}", "previous", "before")
        flat = [offset for page in forwards for offset in page]
        assert flat == sorted(set(flat))
        assert flat == [offset for page in reversed(backwards) for offset in page]
        assert [len(page) for page in forwards[:-1]] == [limit] * (len(forwards) - 1)
        assert len(flat) > limit


def test_a_search_ends_early_and_goes_on(target: CommandTarget, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it ended, so that rare texts in a long history cost one bounded read a page."""
    monkeypatch.setattr(entry_search, "SEARCHED_MAX", 250)
    history = Histories(target).of("long")
    history.read()
    wanted, found, at = EntrySearch(texts=("step:450",)), list[dict[str, Any]](), 0
    pages = []
    while True:
        page = entries_after(history, wanted, at, 10)
        pages.append(page)
        found += page.entries
        if page.next is None:
            break
        at = page.next
    assert [one["seq"] for one in found] == [900, 901]
    assert [page.is_cut for page in pages] == [True, True, True, True, False]
    assert all(page.searched <= 250 for page in pages)
    backwards = entries_before(history, wanted, 99_999, 10)
    assert [one["seq"] for one in backwards.entries] == [900, 901]
    assert backwards.is_cut


def test_the_index_reads_what_was_appended(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Nothing is read twice, and a process that began after the console is found."""
    settings = file_settings(tmp_path_factory.mktemp("grows"))
    case = a_case()
    write_entries(settings, case)
    with closing(CommandTarget(None, None, None, f"sqlite:///{settings.sqlite_path}")) as target:
        history = Histories(target).of("case-17")
        history.read()
        before = [*history.index.marks]
        late = own(17, b.ContextUpdated("a", "1"), epoch=2, claim_id=2)._replace(ts=CASE_BEGAN_US)
        write_entries(settings, [*many_steps("new", 4), late])
        history.read()
        after = history.index.marks
        assert history.index.entries_read == len(case) + 1
        assert after[:-1] == before
        assert after[-1].verdict is not None
        assert (after[-1].seq, after[-1].verdict.name) == (17, "APPLIED")
        new = Histories(target).of("new")
        new.read()
        assert len(new.index.marks) == 4


def test_the_page_shows_verdicts_and_whole_entries(browser: Browser, served: Served) -> None:
    """A fenced write says so. / leads to the text, j and Enter unfold an entry; the filter is the address."""
    browser.open(f"{served.url}/entries?id=case-17")
    [fenced] = browser.all("tr.fenced")
    assert "context_updated fenced" in fenced.text
    assert browser.script("return getComputedStyle(arguments[0]).backgroundImage", fenced) != "none"
    browser.press("/")
    browser.press("late")
    browser.press(Keys.ENTER)
    browser.arrive("text=late")
    assert len(browser.all("#entries tbody tr")) == 2
    browser.all("tr[data-row]")[1].find_element("css selector", "a").send_keys(Keys.ENTER)
    browser.until(lambda: '"value": "fenced"' in browser.text("tr.detail"))


def test_hostile_content_is_text(browser: Browser, served: Served) -> None:
    """In the list, below a row, on the page of an entry, and in the fields of the filter."""
    planted = "%22%3E%3Cimg+src%3Dx+onerror%3D%27window.canary%3D4%27%3E"
    address = f"/entries?id=case-17&text=%3Cscript%3E&kind={planted}&kind=message_said"
    browser.open(f"{served.url}{address}")
    browser.one("[data-whole]").send_keys(Keys.ENTER)
    browser.until(lambda: "javascript:window.canary=3" in browser.text("tr.detail"))
    for place in (address, "/entry?id=case-17&offset=19"):
        browser.open(f"{served.url}{place}")
        assert "<script>window.canary=1</script>" in browser.text("main")
        assert "\\u202egnp\\x1b[31m" in browser.text("main").replace("\\u001b", "\\x1b")
        assert browser.script("return window.canary ?? null") is None
        assert browser.all("main img, main script, main a[href^=javascript]") == []


_BAD = {
    "/api/entries?id=nobody": 404,
    "/api/entries?id=case-17&offset=1&seq=1": 400,
    "/api/entries?id=case-17&limit=501": 400,
    "/api/entries?id=case-17&epoch=x": 400,
    "/api/entries?id=case-17&offset=-1": 400,
    "/api/entry?id=case-17&offset=20": 404,
    "/api/entry?id=case-17&offset=9223372036854775807": 404,
}


def test_a_bad_address_is_explained(served: Served) -> None:
    """By the page as by the API. An entry of another process is none of this one."""
    with served.client() as client:
        assert {address: client.get(address).status_code for address in _BAD} == _BAD
        assert {address: client.get(address.removeprefix("/api")).status_code for address in _BAD} == _BAD


def test_the_page_is_accessible(browser: Browser, served: Served, axe: str) -> None:
    """axe-core finds nothing, in light and dark, with an entry unfolded."""
    browser.open(f"{served.url}/entries?id=case-17&not_kind=claim")
    browser.one("[data-whole]").send_keys(Keys.ENTER)
    browser.until(lambda: '"body"' in browser.text("tr.detail"))
    for dark in (False, True):
        browser.resize(1280, 800, dark=dark)
        assert browser.violations(axe) == []
