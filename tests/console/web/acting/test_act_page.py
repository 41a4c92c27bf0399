"""A process is controlled in the console: cancelled, suspended, resumed, redriven, rewound, forked, promoted."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select

from browsers import Browser
from consoles import Served, file_settings, serving, work_on
from seekpoint.console.services.arguments.target import CommandTarget
from seekpoint.console.web.console_options import ConsoleOptions
from seekpoint.producers import Node, Process, agent
from seekpoint.schemas.config.settings import Settings
from waiting_processes import Caller, run_until


@agent("travel", "1")
async def travel(process: Process, town: str) -> Any:
    weather = await process.step("weather", str.upper, town)
    await process.update("weather", weather)
    price = await process.step("price", len, weather)
    await process.say("assistant", f"{weather} costs {price}")
    if town == "nowhere":
        raise ValueError("there is no such town")
    answer = await process.gate("book", prompt=f"Book {weather} for {price}?")
    return [weather, price, answer.outcome]


@pytest.fixture
def journal(tmp_path: Any) -> Settings:
    """A journal with a process that waits at a gate, and with two that failed."""
    settings = file_settings(tmp_path)
    work_on(settings, _work)
    return settings


async def _work(node: Node) -> None:
    await run_until(node, travel, "trip-1", "rome", "awaiting")
    for name in ("bad-1", "bad-2"):
        with suppress(ValueError):
            await node.run(travel, name, "nowhere")


def carry_out(browser: Browser, form: str, done: str, **fields: str) -> str:
    """Fill a form in, look at its dry run, and carry it out. Return the text of the dry run."""
    for name, value in {**fields, "reason": "because"}.items():
        browser.one(f'{form} [name="{name}"]').send_keys(value)
    browser.one(f'{form} [name="reason"]').send_keys(Keys.ENTER)
    button = browser.until(lambda: browser.all(".plan button.primary"))[0]
    text = browser.text(".plan")
    assert button == browser.driver.switch_to.active_element
    browser.press(Keys.ENTER)
    browser.until(lambda: done in browser.text(".plan"))
    return text


def form(action: str, number: int = 1) -> str:
    return f'form.act[data-act="/api/{action}"]:nth-of-type({number})' if number > 1 else f'[data-act="/api/{action}"]'


def control_of(caller: Caller, process_id: str) -> dict[str, Any]:
    """Return the newest control entry of a process, as the API has it."""
    found = caller.client.get(f"/api/entries?id={process_id}&not_kind=claim&before=9000000000&limit=1").json()
    entry: dict[str, Any] = found["entries"][-1]
    return entry


def test_a_process_is_suspended_resumed_and_cancelled(
    browser: Browser, acting: Served, caller: Caller, axe: str
) -> None:
    """By the forms that fit how it stands; each entry has the actor."""
    browser.open(f"{acting.url}/process?id=trip-1")
    browser.press("a")
    browser.arrive("/act?id=trip-1")
    assert browser.all(form("resume")) == []
    assert browser.violations(axe) == []
    assert "puts trip-1 on hold" in carry_out(browser, form("suspend"), "trip-1: suspended, as ann")
    assert (control_of(caller, "trip-1")["kind"], control_of(caller, "trip-1")["actor"]) == ("suspend_requested", "ann")
    browser.open(f"{acting.url}/act?id=trip-1")
    assert browser.all(form("suspend")) == []
    carry_out(browser, form("resume"), "trip-1: resumed, as ann")
    browser.open(f"{acting.url}/act?id=trip-1")
    assert "stops trip-1" in carry_out(browser, form("cancel"), "trip-1: asked to stop, as ann")
    assert control_of(caller, "trip-1")["kind"] == "cancel_requested"
    browser.open(f"{acting.url}/act?id=trip-1")
    assert browser.all(form("cancel")) == []
    assert caller.refused("cancel", id="trip-1", reason="again") == (409, "Refused")


def test_a_failed_run_is_redriven(browser: Browser, acting: Served, caller: Caller) -> None:
    """The dry run has the failure."""
    browser.open(f"{acting.url}/act?id=bad-1")
    assert "ValueError: there is no such town" in carry_out(browser, form("redrive"), "bad-1: redriven, as ann")
    assert control_of(caller, "bad-1")["kind"] == "redrive_requested"
    assert caller.refused("redrive", id="nobody", reason="x") == (404, "UnknownProcess")


def test_a_process_is_rewound(browser: Browser, acting: Served, journal: Settings) -> None:
    """The dry run says what is forgotten; an error says what to do."""
    browser.open(f"{acting.url}/act?id=trip-1")
    browser.one(f'{form("rewind")} [name="reason"]').send_keys("because" + Keys.ENTER)
    browser.until(lambda: "a rewind needs a moment to go back to" in browser.text(".plan [role=alert]"))
    browser.problems()
    browser.open(f"{acting.url}/act?id=trip-1")
    text = carry_out(browser, form("rewind"), "trip-1: rewound to seq", after="weather:1")
    assert "forgets price:1 (step, succeeded)" in text
    assert "drops 1 message" in text
    state = work_on(journal, lambda node: node.recover("trip-1")).state
    assert [*state.calls] == ["weather:1"]


def test_a_rewind_of_a_process_that_went_on_is_refused(caller: Caller, journal: Settings) -> None:
    """The new dry run is not what was shown."""
    asked = {"id": "trip-1", "after": "weather:1", "reason": "x"}
    planned = caller.plan("rewind", **asked)
    work_on(journal, _write)
    assert caller.refused("rewind", **asked, plan_id=planned["plan_id"]) == (409, "PlanChanged")
    assert "price:1" in work_on(journal, lambda node: node.recover("trip-1")).state.calls


async def _write(node: Node) -> None:
    async with node.open("trip-1") as process:
        await process.update("x", 1)


def test_a_call_is_answered_differently_and_the_fork_promoted(
    browser: Browser, acting: Served, caller: Caller, journal: Settings
) -> None:
    """The process stays as it is until its fork is promoted."""
    browser.open(f"{acting.url}/act?id=trip-1")
    text = carry_out(
        browser, '[aria-label="Answer differently"]', "trip-2: forked from trip-1", answer_key="weather:1",
        answer='"SUNNY"', new_id="trip-2",
    )  # fmt: skip
    assert "answers weather:1 differently" in text
    browser.press(Keys.ENTER)
    browser.arrive("/process?id=trip-2")
    work_on(journal, lambda node: run_until(node, travel, "trip-2", "rome", "awaiting"))
    browser.open(f"{acting.url}/act?id=trip-2")
    browser.one(f'{form("promote")} [name="reason"]').send_keys("because" + Keys.ENTER)
    browser.until(lambda: "both changed context.weather: it is refused" in browser.text(".plan"))
    browser.press(Keys.ENTER)
    browser.until(lambda: "the fork and its parent have changed the same" in browser.text(".plan [role=alert]"))
    browser.problems()
    Select(browser.one(f'{form("promote")} [name="prefer"]')).select_by_value("fork")
    browser.one(f'{form("promote")} [name="reason"]').clear()
    text = carry_out(browser, form("promote"), "trip-2 is merged into trip-1, as ann")
    assert "both changed context.weather: the fork wins" in text
    assert work_on(journal, lambda node: node.recover("trip-1")).state.context["weather"] == "SUNNY"


def test_a_process_is_forked(caller: Caller, journal: Settings) -> None:
    """At the moment that the dry run showed; an id that is in use is refused."""
    asked = {"id": "trip-1", "reason": "x"}
    assert caller.refused("fork", **asked, new_id="bad-1") == (409, "Refused")
    assert caller.refused("fork", **asked, new_id="f", seq=1, turn=1) == (400, "BadBody")
    assert caller.refused("fork", **asked, new_id="f", answer="1") == (400, "BadBody")
    assert caller.refused("fork", **asked, new_id="f", time="soon") == (400, "BadBody")
    outcome = caller.act("fork", **asked, new_id="fork-1", before="price:1")
    assert outcome["facts"]["parent_seq"] == 4
    planned = caller.plan("fork", **asked, new_id="fork-2")
    work_on(journal, _write)
    done = caller.post("fork", **asked, new_id="fork-2", plan_id=planned["plan_id"])
    assert done.json()["outcome"]["facts"]["parent_seq"] == planned["facts"]["parent_seq"]
    fork = work_on(journal, lambda node: node.recover("fork-2")).state
    assert (fork.lineage.parent_seq, "x" in fork.context) == (planned["facts"]["parent_seq"], False)


def test_all_that_a_filter_selects_is_redriven(
    browser: Browser, acting: Served, caller: Caller, journal: Settings, axe: str
) -> None:
    """The dry run says how many and which; the others are left out with the reason."""
    browser.open(f"{acting.url}/processes?agent=travel")
    browser.until(lambda: "bad-2" in browser.text("#rows"))
    browser.press("a")
    browser.arrive("/bulk?agent=travel")
    assert browser.violations(axe) == []
    text = carry_out(browser, form("bulk-redrive"), "2 processes redriven, as ann")
    assert "tries again 2 processes of 3" in text
    assert "bad-1\nbad-2" in text
    assert "leaves out trip-1: the run of the process did not fail" in text
    for name in ("bad-1", "bad-2"):
        assert control_of(caller, name)["kind"] == "redrive_requested"
    assert control_of(caller, "trip-1")["kind"] != "redrive_requested"


def test_what_went_on_is_left_out_of_many(caller: Caller, journal: Settings) -> None:
    """The others are done; if none is as it was shown, nothing is done."""
    asked = {"only": ["failed"], "reason": "x"}
    planned = caller.plan("bulk-suspend", **asked)
    assert sorted(planned["facts"]["selected"]) == ["bad-1", "bad-2"]
    work_on(journal, lambda node: node.suspend("bad-2"))
    answer = caller.post("bulk-suspend", **asked, plan_id=planned["plan_id"])
    facts = answer.json()["outcome"]["facts"]
    assert (facts["done"], facts["moved"], facts["failed"]) == (["bad-1"], ["bad-2"], {})
    assert "bad-2" in answer.json()["outcome"]["text"]
    cancel = caller.plan("bulk-cancel", prefix="bad-1", reason="x")
    work_on(journal, lambda node: node.cancel("bad-1"))
    assert caller.refused("bulk-cancel", prefix="bad-1", reason="x", plan_id=cancel["plan_id"]) == (409, "PlanChanged")
    assert caller.refused("bulk-cancel", lifecycle="odd", reason="x") == (400, "BadQuery")


def test_too_many_are_refused(caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody reads a dry run of that many."""
    monkeypatch.setattr("seekpoint.console.web.acting.bulk_actions.BULK_MAX", 2)
    assert caller.refused("bulk-cancel", reason="x") == (409, "TooMany")


def test_who_only_looks_finds_no_way_to_act(browser: Browser, journal: Settings) -> None:
    """No tab, no link, and no page."""
    target = CommandTarget(None, None, None, journal.journal_url)
    with serving(target, ConsoleOptions(port=0)) as served:
        browser.open(f"{served.url}/process?id=trip-1")
        assert "Act" not in browser.text("nav.tabs")
        browser.open(f"{served.url}/processes")
        assert browser.all("#bulk") == []
        with served.client() as client:
            assert client.get("/act?id=trip-1").status_code == 403
            assert client.get("/bulk").status_code == 403
    target.close()
