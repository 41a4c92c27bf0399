"""A process that has ended is run again by the console, which compares both runs and can be told to stop."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from selenium.webdriver.common.keys import Keys

from browsers import Browser
from consoles import Served, file_settings, serving, work_on
from seekpoint.console.services.arguments.target import CommandTarget
from seekpoint.console.web.console_options import ConsoleOptions
from seekpoint.producers import Node, Process, agent
from seekpoint.schemas.config.settings import Settings
from waiting_processes import Caller


@agent("quote", "1")
async def quote(process: Process, town: str) -> Any:
    price = await process.step("price", len, town)
    if town == "for ever":
        await process.step("hang", asyncio.Event().wait)
    return {"town": town, "price": price}


@pytest.fixture
def journal(tmp_path: Any) -> Settings:
    settings = file_settings(tmp_path)
    work_on(settings, lambda node: node.run(quote, "q-1", "rome"))
    return settings


@pytest.fixture
def acting(journal: Settings) -> Iterator[Served]:
    options = ConsoleOptions(port=0, allow_changes=True, agents=(quote,))
    with (
        closing(CommandTarget(None, None, None, journal.journal_url)) as target,
        serving(target, options) as served,
    ):
        yield served


def test_a_process_is_run_again_and_compared(browser: Browser, acting: Served, journal: Settings, axe: str) -> None:
    """With another input; the page shows what differs, and the rerun has the actor."""
    browser.open(f"{acting.url}/act?id=q-1")
    form = '[data-act="/api/rerun"]'
    browser.one(f"{form} [name=input]").send_keys('"paris!"')
    browser.one(f"{form} [name=reason]").send_keys("a longer town" + Keys.ENTER)
    button = browser.until(lambda: browser.all(".plan button.primary"))[0]
    assert "runs q-1~rerun: from q-1" in browser.text(".plan")
    assert "no effect is made" in browser.text(".plan")
    button.click()
    browser.until(lambda: browser.all('.plan a[href^="/job?id="]'))[0].click()
    browser.until(lambda: browser.all("#comparison"))
    assert "q-1~rerun is finished, with another outcome" in browser.text("#outcome")
    rows = browser.text("#comparison")
    assert '{"price":4,"town":"rome"}' in rows
    assert '{"price":6,"town":"paris!"}' in rows
    assert browser.all('[data-act="/api/stop-job"]') == []
    assert browser.violations(axe) == []
    browser.open(f"{acting.url}/jobs")
    assert "finished" in browser.text("#jobs")
    assert browser.violations(axe) == []
    actors = work_on(journal, _actors)
    assert "ann" in actors


async def _actors(node: Node) -> set[str | None]:
    return {one.entry.actor async for one in node.entries("q-1~rerun")}


def test_a_rerun_is_stopped(browser: Browser, acting: Served) -> None:
    """The page says that it goes on, and offers to stop it."""
    with Caller(acting) as caller:
        job = caller.act("rerun", id="q-1", input='"for ever"', new_id="q-2", reason="x")["facts"]["job"]
        browser.open(f"{acting.url}/job?id={job}")
        browser.until(lambda: browser.text("#job-state") == "running")
        browser.one("[name=reason]").send_keys("too long" + Keys.ENTER)
        browser.until(lambda: browser.all(".plan button.primary"))[0].click()
        browser.until(lambda: browser.text("#job-state") == "stopped")
        assert caller.refused("stop-job", job=job, reason="x") == (409, "JobEnded")
        assert caller.refused("stop-job", job="nothing", reason="x") == (404, "NoSuchJob")


def test_what_cannot_be_run_again_is_explained(caller: Caller, journal: Settings) -> None:
    """An agent whose code the console lacks, a process without an agent, and a rerun that fails."""
    work_on(journal, _open)
    assert caller.refused("rerun", id="plain", reason="x") == (409, "NoAgentCode")
    assert caller.refused("rerun", id="q-1", input="{", reason="x") == (400, "BadBody")
    job = caller.act("rerun", id="q-1", new_id="plain", reason="x")["facts"]["job"]
    with closing(caller.client):
        found: dict[str, Any] = {}
        while found.get("state") not in ("failed", "finished"):
            found = caller.client.get(f"/api/job?id={job}").json()
        assert (found["state"], found["error"]["code"]) == ("failed", "Refused")


async def _open(node: Node) -> None:
    async with node.open("plain") as process:
        await process.update("x", 1)
