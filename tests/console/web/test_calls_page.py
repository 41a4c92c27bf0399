"""The tab of a process's calls, in a real browser and through the API."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest
from selenium.webdriver.common.keys import Keys

from browsers import Browser
from consoles import Served, file_settings, serving
from entry_examples import claim, own
from seekpoint.console.cli import main
from seekpoint.console.services.arguments.target import CommandTarget
from seekpoint.console.web.data.histories import Histories
from seekpoint.schemas import bodies as b
from seekpoint.schemas.bodies.entry import Entry
from seekpoint.schemas.state.process_state import new_state
from written_journals import a_case, many_steps, write_entries


@pytest.fixture(scope="module")
def journal(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The address of a journal with one case and a longer run. Tests only look at it."""
    settings = file_settings(tmp_path_factory.mktemp("calls"))
    fork = own(1, b.Forked("case-17", 3, new_state().content_json()))
    others = [
        *_changed(),
        *_without_stock(),
        *a_case("shorter")[:-3],
        claim(1)._replace(process_id="fork"),
        fork._replace(process_id="fork"),
    ]
    write_entries(settings, [*a_case(), *many_steps("long", 502), *others])
    return f"sqlite:///{settings.sqlite_path}"


def _changed() -> list[Entry]:
    """Return the entries of a case with another stock and another charge."""
    answers = {"~1.2/stock:1": "13", "charge:1": "1"}
    return [
        one._replace(body=replace(one.body, outcome="succeeded", output=answers[one.body.key]))
        if isinstance(one.body, b.StepEnded) and one.body.key in answers
        else one
        for one in a_case("changed")
    ]


def _without_stock() -> list[Entry]:
    """Return the entries of a case whose code did not look at the stock."""
    return [
        one._replace(body=b.MessageSaid("user", "no stock")) if getattr(one.body, "key", "") == "~1.2/stock:1" else one
        for one in a_case("without")
    ]


@pytest.fixture
def served(journal: str) -> Iterator[Served]:
    """A console on the journal."""
    with closing(CommandTarget(None, None, None, journal)) as target, serving(target) as found:
        yield found


def test_the_calls_are_those_of_the_command(served: Served, journal: str, capsys: pytest.CaptureFixture[str]) -> None:
    """One call of the API returns a call exactly as ``seekpoint steps --json`` has it."""
    assert main(["steps", "case-17", "--journal-url", journal, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["calls"]
    with served.client() as client:
        listed = client.get("/api/calls?id=case-17").json()
        whole = [client.get(f"/api/call?id=case-17&number={one['number']}").json()["call"] for one in listed["calls"]]
    assert whole == told
    assert [one["key"] for one in listed["calls"]] == [one["key"] for one in told]
    assert (listed["total"], listed["cost_usd"], listed["next"]) == (6, "0.0125", None)


def test_a_row_says_what_a_call_was(browser: Browser, served: Served) -> None:
    """Status, attempts, time, cost and usage; of a failed call the error; and what it was asked."""
    browser.open(f"{served.url}/calls?id=case-17")
    rows = {row.text.split()[0]: row.text for row in browser.all("#calls tbody tr")}
    assert "6 calls · 0.0125 USD" in browser.text(".source")
    assert "decision succeeded 1" in rows["plan:1"]
    assert "200 ms 0.0125 input_tokens 120, output_tokens 30" in rows["plan:1"]
    assert "step succeeded 2" in rows["~1.1/price:1"]
    assert "failed" in rows["charge:1"]
    assert "NoRoom: <script>" in rows["charge:1"]
    assert "approved" in rows["refund:1"]


def test_enter_shows_a_call_whole(browser: Browser, served: Served) -> None:
    """Below its row, with each attempt; Enter again folds it. Without scripts the link is a page of its own."""
    browser.open(f"{served.url}/calls?id=case-17")
    for _ in range(3):
        browser.press("j")
    browser.press(Keys.ENTER)
    browser.until(lambda: "attempt 2" in browser.text("tr.detail"))
    assert "Busy: try later" in browser.text("tr.detail")
    assert browser.one("tr.selected a").get_attribute("aria-expanded") == "true"
    browser.press(Keys.ENTER)
    browser.until(lambda: browser.all("tr.detail") == [])
    browser.open(f"{served.url}/call?id=case-17&number=2")
    assert "attempt 1: retry" in browser.text("#whole")


def test_hostile_content_is_text(browser: Browser, served: Served) -> None:
    """In the list, below a row and on the page of a call; what steers a terminal or the direction is made visible."""
    for place in ("/calls?id=case-17", "/call?id=case-17&number=5"):
        browser.open(f"{served.url}{place}")
        for link in browser.all("[data-whole]"):
            link.send_keys(Keys.ENTER)
        browser.until(lambda: "reading…" not in browser.text())
        assert "<script>window.canary=1</script>" in browser.text()
        assert "\\u202egnp\\x1b[31m" in browser.text()
        assert "\u202e" not in browser.text()
        assert browser.script("return window.canary ?? null") is None
        assert browser.all("main img, main script, a[href^=javascript]") == []


def test_a_long_list_comes_in_pages(browser: Browser, served: Served) -> None:
    """Each call is on exactly one page, and the links lead through all of them."""
    with served.client() as client:
        assert client.get("/api/calls?id=long").json()["is_complete"]  # a page does not wait until all is read
    browser.open(f"{served.url}/calls?id=long")
    seen: list[str] = []
    while True:
        seen += browser.script("return [...document.querySelectorAll('#calls tbody tr')].map((row) => row.dataset.row)")
        if not browser.click("a[rel=next]"):
            break
        browser.arrive(f"first={len(seen)}")
    assert seen == [str(number) for number in range(250)]
    assert browser.click("a[rel=prev]")
    browser.arrive("first=0")


def compared(served: Served, left: str, right: str) -> dict[str, Any]:
    """Return the comparison of the calls of two processes."""
    with served.client() as client:
        answer = client.get(f"/api/calls/comparison?id={left}&other_id={right}")
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def test_the_first_call_that_differs_is_found(served: Served) -> None:
    """It is the one that began first in either process, with where it differs and its number in both."""
    changed = compared(served, "case-17", "changed")
    assert [changed[name] for name in ("same", "changed", "only_here", "only_there")] == [4, 2, 0, 0]
    assert changed["first"] == {
        "key": "~1.2/stock:1", "kind": "step", "number": 3, "other_number": 3, "status": "succeeded",
        "other_status": "succeeded", "difference": "answer $: 12 is now 13",
    }  # fmt: skip
    here, there = compared(served, "case-17", "shorter")["first"], compared(served, "shorter", "case-17")["first"]
    assert [here[name] for name in ("key", "number", "other_number", "other_status")] == ["charge:1", 5, None, None]
    assert [there[name] for name in ("key", "number", "other_number", "status")] == ["charge:1", None, 5, None]
    both = compared(served, "shorter", "changed")
    assert [both[name] for name in ("changed", "only_there")] == [1, 1]
    assert both["first"]["key"] == "~1.2/stock:1"
    earlier = compared(served, "without", "changed")  # only the other one has it, before a call that changed in both
    assert [earlier["first"][name] for name in ("key", "number", "other_number")] == ["~1.2/stock:1", None, 3]
    same = compared(served, "case-17", "case-17")
    assert (same["same"], same["first"]) == (6, None)


def test_the_tab_marks_the_first_call_that_differs(browser: Browser, served: Served) -> None:
    """From a form on the tab, with links to the call here and there, and back to the plain list."""
    browser.open(f"{served.url}/calls?id=case-17")
    browser.one("input[name=other_id]").send_keys("changed", Keys.ENTER)
    browser.arrive("other_id=changed")
    assert "First difference: step ~1.2/stock:1, answer $: 12 is now 13" in browser.text("#compared")
    assert "4 same, 2 changed, 0 only here, 0 only there" in browser.text("#compared")
    assert [row.get_attribute("id") for row in browser.all("#calls tr:has(.tag.bad)")] == ["call-3"]
    addresses = [str(link.get_attribute("href")).removeprefix(served.url) for link in browser.all("#compared a")]
    assert addresses == [
        "/calls?id=case-17&limit=200&other_id=changed&first=0#call-3", "/call?id=changed&number=3",
        "/differences?id=case-17&other_id=changed",
    ]  # fmt: skip
    browser.open(f"{served.url}/calls?id=case-17&other_id=case-17")
    assert "All 6 calls are the same." in browser.text("#compared")
    assert browser.all("#calls .tag.bad") == []
    browser.open(f"{served.url}/calls?id=shorter&other_id=case-17")
    assert "step charge:1, which only the other process has" in browser.text("#compared")


def test_a_fork_is_compared_with_its_parent_by_default(browser: Browser, served: Served) -> None:
    """The form has its id; nothing is compared before somebody asks."""
    browser.open(f"{served.url}/calls?id=fork")
    browser.until(lambda: browser.one("input[name=other_id]").get_attribute("value") == "case-17")
    assert browser.all("#compared") == []


_BAD = {
    "/api/calls/comparison?id=case-17&other_id=nobody": 404,
    "/api/calls/comparison?id=nobody&other_id=case-17": 404,
    "/api/calls/comparison?id=case-17": 400,
    "/api/calls?id=nobody": 404,
    "/api/calls?id=case-17&limit=501": 400,
    "/api/calls?id=case-17&first=-1": 400,
    "/api/call?id=case-17&number=6": 404,
    "/api/call?id=case-17": 400,
}


def test_a_bad_address_is_explained(served: Served) -> None:
    """By the page as by the API."""
    pages = {address: status for address, status in _BAD.items() if "comparison" not in address}
    with served.client() as client:
        assert {address: client.get(address).status_code for address in _BAD} == _BAD
        assert {address: client.get(address.removeprefix("/api")).status_code for address in pages} == pages
        assert client.get("/calls?id=case-17&other_id=nobody").status_code == 404


def test_what_is_appended_shows(tmp_path_factory: pytest.TempPathFactory) -> None:
    """The calls grow with each entry, and no entry is read twice."""
    settings = file_settings(tmp_path_factory.mktemp("grows"))
    case = a_case()
    write_entries(settings, case)
    with closing(CommandTarget(None, None, None, f"sqlite:///{settings.sqlite_path}")) as target:
        history = Histories(target).of("case-17")
        history.read()
        before = [one.key for one in history.calls()]
        assert (len(history.timeline().places), history.cost_usd) == (len(before) + 1, "0.0125")
        step = b.StepStarted("new:1", 6, "new", "7" * 32, "null", 1, "", case[-1].ts)
        write_entries(settings, [own(17, step, epoch=2, claim_id=2)._replace(ts=case[-1].ts + 1)])
        history.read()
        assert [one.key for one in history.calls()] == [*before, "new:1"]
        assert history.timeline().places[-1].call == len(before)
        assert history.index.entries_read == len(case) + 1


def test_the_page_is_accessible(browser: Browser, served: Served, axe: str) -> None:
    """axe-core finds nothing, in light and dark, with a call unfolded."""
    browser.open(f"{served.url}/calls?id=case-17")
    browser.all("[data-whole]")[5].send_keys(Keys.ENTER)
    browser.until(lambda: "attempt 1" in browser.text("tr.detail"))
    for dark in (False, True):
        browser.resize(1280, 800, dark=dark)
        assert browser.violations(axe) == []
