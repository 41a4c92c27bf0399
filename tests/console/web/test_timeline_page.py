"""The timeline of a process, in a real browser and through the API."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from selenium.webdriver.common.keys import Keys

from browsers import SCROLL_MS_MAX, Browser
from consoles import Served, file_settings, serving
from entry_examples import an_id, external, own
from seekpoint.console.services.arguments.target import CommandTarget
from seekpoint.console.web.data.timeline import bars_of, timeline_of
from seekpoint.producers.durable.replay.call_records import Attempt, CallRecord
from seekpoint.schemas import bodies as b
from written_journals import CASE_BEGAN_US, HOUR_US, a_case, write_entries

Growing: TypeAlias = tuple[Served, Callable[[int], None]]

_HELD_FETCH = """
    const real = window.fetch, opened = new Promise((resolve) => { window.openGate = resolve; });
    window.held = 0;
    window.fetch = async (...given) => {
        const found = await real(...given); window.held += 1; await opened; return found;
    };
    """
"""Lets the page wait for each answer until ``openGate`` is called."""


@pytest.fixture(scope="module")
def journal(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The address of a journal with one case. Tests only look at it."""
    settings = file_settings(tmp_path_factory.mktemp("timeline"))
    mail = external(b.Signal("later", "1"), 70)._replace(process_id="mail")
    write_entries(settings, [*a_case(), mail])
    return f"sqlite:///{settings.sqlite_path}"


@pytest.fixture
def served(journal: str) -> Iterator[Served]:
    """A console on the journal."""
    with closing(CommandTarget(None, None, None, journal)) as target, serving(target) as found:
        yield found


def _open(browser: Browser, served: Served, process_id: str = "case-17") -> None:
    browser.open(f"{served.url}/timeline?id={process_id}")
    browser.until(lambda: browser.all(".row .bar"))


def _at(after_ms: int) -> int:
    return CASE_BEGAN_US + after_ms * 1_000


def test_the_api_tells_what_is_behind_the_rows(served: Served) -> None:
    """Each call once in the order of time, attempts and retries apart, the fenced write, two epochs, the idle hour."""
    with served.client() as client:
        found = client.get("/api/timeline?id=case-17").json()
    assert [one["key"] for one in found["rows"]] == [
        "look:1", "plan:1", "~1.1/price:1", "~1.2/stock:1", "refund:1", "context_updated", "charge:1",
    ]  # fmt: skip
    rows = {one["key"]: one for one in found["rows"]}
    assert [(bar["what"], bar["start_us"], bar["end_us"]) for bar in rows["~1.1/price:1"]["bars"]] == [
        ("retry", _at(300), _at(500)), ("backoff", _at(500), _at(800)), ("succeeded", _at(800), _at(900)),
    ]  # fmt: skip
    assert [rows[key]["branch"] for key in ("look:1", "~1.1/price:1", "~1.2/stock:1")] == ["", "~1.1", "~1.2"]
    assert [bar["what"] for bar in rows["refund:1"]["bars"]] == ["wait"]
    assert (rows["context_updated"]["status"], rows["context_updated"]["epoch"]) == ("fenced", 1)
    assert rows["charge:1"]["summary"].startswith("NoRoom: <script>")
    claimed = CASE_BEGAN_US + HOUR_US + 1_000_000
    assert [(one["epoch"], one["node_id"], one["start_us"], one["end_us"]) for one in found["bands"]] == [
        (1, "node", CASE_BEGAN_US, claimed), (2, "node-b", claimed, None),
    ]  # fmt: skip
    assert found["gaps"][0] == {"start_us": _at(1_000), "end_us": CASE_BEGAN_US + HOUR_US}


def test_a_window_has_what_is_behind_its_own_rows(served: Served) -> None:
    """Only the epochs and gaps of its time, unless those of the whole time are asked for."""
    with served.client() as client:
        first = client.get("/api/timeline?id=case-17&limit=2").json()
        last = client.get("/api/timeline?id=case-17&first=6").json()
        whole = client.get("/api/timeline?id=case-17&first=6&whole=true").json()
        behind = client.get("/api/timeline?id=case-17&first=7").json()
        assert client.get("/api/timeline?id=nobody").status_code == 404
        assert client.get("/timeline?id=nobody").status_code == 404
        assert client.get("/api/timeline?id=case-17&limit=501").status_code == 400
    assert ([one["epoch"] for one in first["bands"]], first["gaps"], first["total"]) == ([1], [], 7)
    assert ([one["epoch"] for one in last["bands"]], last["gaps"]) == ([2], [])
    assert ([one["epoch"] for one in whole["bands"]], len(whole["gaps"])) == ([1, 2], 2)
    assert (behind["rows"], behind["bands"]) == ([], [])


def test_a_process_that_nobody_claimed_has_no_rows(browser: Browser, served: Served) -> None:
    """It has only mail. Its tabs say so."""
    for place, text in (("timeline", "no calls"), ("calls", "no calls"), ("entries", "later: 1")):
        browser.open(f"{served.url}/{place}?id=mail")
        browser.until(lambda text=text: text in browser.text("main"))  # type: ignore[misc]
    assert browser.all(".row") == []


def test_attempts_whose_end_nobody_saw() -> None:
    """An owner that was lost, an attempt under way, and clocks of two owners that differ."""

    def bars(*attempts: Attempt) -> list[tuple[str, int, int | None]]:
        call = CallRecord("a:1", "step", "a", 1, attempts=[*attempts])
        return [(bar.what, bar.start_us, bar.end_us) for bar in bars_of(call)]

    lost, going = Attempt(1, b"1", 100), Attempt(2, b"2", 500)
    assert bars(lost, going) == [("interrupted", 100, 500), ("open", 500, None)]
    back = Attempt(1, b"1", 100, ended_at_us=90, outcome="retry")
    assert bars(back, going) == [("retry", 100, 100), ("backoff", 100, 500), ("open", 500, None)]
    many = [Attempt(n, b"n", n * 10, ended_at_us=n * 10 + 5, outcome="retry") for n in range(200)]
    assert len(bars(*many)) == 60


def test_only_idle_time_is_folded() -> None:
    """A long step is no idle time, a long wait is; so is a gap only if it is long beside the rest."""

    def gaps(kind: str, second: int) -> list[tuple[int, int]]:
        calls = [
            CallRecord("a:1", kind, "a", 1, attempts=[Attempt(1, b"1", 0, 60_000_000, 1, "succeeded")]),
            CallRecord("b:1", "step", "b", 2, attempts=[Attempt(1, b"2", second, second + 10, 10, "succeeded")]),
        ]
        return [(gap.start_us, gap.end_us) for gap in timeline_of(calls, []).gaps]

    assert gaps("step", 61_100_000) == []
    assert gaps("step", 70_000_000) == [(60_000_000, 70_000_000)]
    assert gaps("gate", 61_100_000) == [(0, 61_100_000)]
    assert timeline_of([], []).places == []


def test_the_picture(browser: Browser, served: Served) -> None:
    """A claim is a seam, an idle hour is narrow, failures are bold, fenced writes hatched, and no bar is under 3 px."""
    _open(browser, served)
    facts: dict[str, Any] = browser.script("""
        const box = (one) => one.getBoundingClientRect();
        const all = (selector) => [...document.querySelectorAll(selector)];
        const row = (key) => all(".row").find((one) => one.querySelector(".key").textContent.startsWith(key));
        const style = (one) => getComputedStyle(one);
        return {
          rows: all(".row").length,
          narrowest: Math.min(...all(".row .bar").map((one) => box(one).width)),
          seams: all(".band.seam").map((one) => one.dataset.epoch),
          seam_at: box(all(".band.seam")[1]).left, fenced_at: box(row("context_updated").querySelector(".bar")).left,
          folded: all(".folded").map((one) => [one.textContent, box(one).width]),
          folded_ends: box(all(".folded").at(-1)).right,
          weight: style(row("charge:1").querySelector(".key")).fontWeight,
          usual: style(row("look:1").querySelector(".key")).fontWeight,
          hatched: style(row("context_updated").querySelector(".bar")).backgroundImage,
          indents: ["look:1", "price:1"].map((key) => parseFloat(style(row(key).querySelector(".label")).paddingLeft)),
          parts: [...row("price:1").querySelectorAll(".bar")].map((one) => one.className),
          overflow: document.documentElement.scrollWidth > innerWidth,
        }""")
    assert facts["rows"] == 7
    assert facts["narrowest"] >= 3
    assert facts["seams"] == ["1", "2"]
    assert facts["folded_ends"] <= facts["seam_at"] + 1 < facts["fenced_at"]
    assert facts["folded"] == [["59 min 59 s idle", 26], ["1.0 s idle", 26]]
    assert int(facts["weight"]) >= 700 > int(facts["usual"])
    assert "repeating-linear-gradient" in facts["hatched"]
    assert facts["indents"][0] < facts["indents"][1]
    assert facts["parts"] == ["bar retry", "bar backoff", "bar succeeded"]
    assert not facts["overflow"]
    assert "14:13:20" in browser.text("#ticks")
    assert "15:13:2" in browser.text("#ticks")


@pytest.fixture
def growing(tmp_path: Path) -> Iterator[Growing]:
    """A console on a journal of its own, and what appends a call that begins, with this seq, from 17 on."""
    settings = file_settings(tmp_path)
    write_entries(settings, case := a_case())

    def append(seq: int) -> None:
        step = b.StepStarted(f"new:{seq}", seq, f"new{seq}", "7" * 32, "null", 1, "", case[-1].ts)
        entry = own(seq, step, epoch=2, claim_id=2)
        write_entries(settings, [entry._replace(id=an_id(500 + seq), ts=case[-1].ts + seq)])

    url = f"sqlite:///{settings.sqlite_path}"
    with closing(CommandTarget(None, None, None, url)) as target, serving(target) as served:
        yield served, append


@pytest.mark.parametrize("tab", ["timeline", "calls", "entries"])
def test_what_is_appended_shows_by_itself(browser: Browser, growing: Growing, tab: str) -> None:
    """A call that begins is a new row of the open page, and the head of the page tells the new seq."""
    served, append = growing
    browser.open(f"{served.url}/{tab}?id=case-17")
    browser.until(lambda: "refund:1" in browser.text("main"))
    append(17)
    _shows(browser, 17)


@pytest.mark.parametrize("tab", ["timeline", "calls", "entries"])
def test_what_is_appended_before_the_page_is_connected_shows(browser: Browser, growing: Growing, tab: str) -> None:
    """The first event that a page receives may be about more than the page was made with."""
    served, append = growing
    with browser.blocking("*/events/*"):
        browser.open(f"{served.url}/{tab}?id=case-17")
        browser.until(lambda: "refund:1" in browser.text("main"))
        append(17)
    _shows(browser, 17)


@pytest.mark.parametrize(("tab", "asked"), [("timeline", "/api/timeline"), ("calls", "/calls")])
def test_what_is_appended_while_the_console_does_not_answer_shows(
    browser: Browser, growing: Growing, tab: str, asked: str
) -> None:
    """A page whose request failed asks again by itself."""
    served, append = growing
    browser.open(f"{served.url}/{tab}?id=case-17")
    browser.until(lambda: "refund:1" in browser.text("main"))
    with browser.blocking(f"*{asked}?*"):
        append(17)
        browser.until(lambda: "seq\n17" in browser.text("#head"))
        time.sleep(1)
        assert "new:17" not in browser.text("main")
    _shows(browser, 17)


@pytest.mark.parametrize("tab", ["timeline", "calls", "entries"])
def test_what_is_appended_while_an_answer_is_under_way_shows(browser: Browser, growing: Growing, tab: str) -> None:
    """An answer that was made before the newest entry does not make the page forget that there is more."""
    served, append = growing
    browser.open(f"{served.url}/{tab}?id=case-17")
    browser.until(lambda: "refund:1" in browser.text("main"))
    browser.script(_HELD_FETCH)
    append(17)
    browser.until(lambda: "seq\n17" in browser.text("#head") and browser.script("return window.held"))
    append(18)
    browser.until(lambda: "seq\n18" in browser.text("#head"))
    time.sleep(1)  # until the page has noticed
    browser.script("window.openGate()")
    _shows(browser, 18)


def test_what_is_appended_while_the_first_answer_is_under_way_shows(browser: Browser, growing: Growing) -> None:
    """The timeline has no rows yet, and learns that there are more than the answer tells of."""
    served, append = growing
    with browser.starting_with(_HELD_FETCH):
        browser.open(f"{served.url}/timeline?id=case-17")
    browser.until(lambda: browser.script("return window.held"))
    append(17)
    browser.until(lambda: "seq\n17" in browser.text("#head"))
    time.sleep(1)  # until the page has noticed
    browser.script("window.openGate()")
    _shows(browser, 17)


def _shows(browser: Browser, seq: int) -> None:
    browser.until(lambda: f"new:{seq}" in browser.text("main"))
    browser.until(lambda: f"seq\n{seq}" in browser.text("#head"))
    browser.driver.get("about:blank")


def test_keys_walk_through_the_rows(browser: Browser, served: Served) -> None:
    """j, k, g and G choose a row, f shows the whole time, Enter opens the call or the fenced entry."""
    _open(browser, served)
    browser.press("j")
    browser.press("j")
    browser.press("k")
    assert browser.one(".row.selected").get_attribute("data-number") == "0"
    browser.press("f")
    browser.until(lambda: browser.one("#fit").get_attribute("aria-pressed") == "true")
    browser.press("G")
    browser.press("k")
    assert browser.script("return document.activeElement.textContent").startswith("context_updated")
    browser.press(Keys.ENTER)
    browser.arrive("/entry?id=case-17&offset=15")
    assert '"verdict": "stale"' in browser.text("#whole")


def test_hostile_content_is_text(browser: Browser, served: Served) -> None:
    """In summaries and in titles."""
    _open(browser, served)
    assert "NoRoom: <script>window.canary=1</script>" in browser.text("#rows")
    [title] = [one for row in browser.all(".row") if "NoRoom" in (one := row.get_attribute("title") or "")]
    assert "\\u202egnp\\u001b[31m" in title
    assert browser.script("return window.canary ?? null") is None
    assert browser.all("main img, main script, main a[href^=javascript]") == []


@pytest.mark.parametrize(
    ("tab", "row"), [("timeline", ".row .bar"), ("calls", "#calls [data-row]"), ("entries", "#entries [data-row]")]
)
def test_a_cold_console_shows_rows_before_it_read_everything(
    browser: Browser, long_journal: str, tab: str, row: str
) -> None:
    """The first rows come while the rest of 100,000 entries is read. A loaded machine gets four seconds for it."""
    with closing(CommandTarget(None, None, None, long_journal)) as target, serving(target) as served:
        browser.open(f"{served.url}/{tab}?id=long")
        browser.until(lambda: browser.all(row))
        paint = browser.script("return performance.getEntriesByName('first-contentful-paint')[0].startTime")
        assert paint < 4_000
        line = "#rows-line" if tab == "timeline" else "#line"
        assert "reading…" in browser.text(line)
        browser.driver.get("about:blank")


def test_a_hundred_thousand_entries_scroll(browser: Browser, long_journal: str) -> None:
    """Only the rows in view exist, windows come as they are needed, and no scroll step waits over 200 ms."""
    with closing(CommandTarget(None, None, None, long_journal)) as target, serving(target) as served:
        _open(browser, served, "long")
        places = [*range(0, 7_500, 300), *range(750_000, 1_200_000, 30_000)]

        def loaded() -> None:
            browser.until(lambda: browser.text("#rows-line") == "49,999 rows", timeout_s=60)

        assert browser.slowest_scroll_ms("#scroller", places, loaded) <= SCROLL_MS_MAX
        browser.press("G")
        browser.until(lambda: "step:49999" in browser.text("#rows"))
        assert len(browser.all(".row")) < 60
        assert browser.one(".row.selected").get_attribute("aria-posinset") == "49999"
        asked = browser.script(
            "return performance.getEntriesByType('resource').filter((one) => one.name.includes('/api/timeline')).length"
        )
        assert 3 < asked < 120
        browser.press("f")
        browser.until(lambda: browser.one("#fit").get_attribute("aria-pressed") == "true")
        narrowest = (
            "Math.min(...[...document.querySelectorAll('.row .bar')].map((one) => one.getBoundingClientRect().width))"
        )
        assert browser.script(f"return {narrowest}") >= 3
        browser.driver.get("about:blank")


def test_the_page_is_accessible(browser: Browser, served: Served, axe: str) -> None:
    """axe-core finds nothing, in light and dark, wide and narrow."""
    _open(browser, served)
    browser.press("j")
    for width, dark in ((1280, False), (1280, True), (800, False)):
        browser.resize(width, 800, dark=dark)
        assert browser.violations(axe) == []
