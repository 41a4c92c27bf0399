"""Whatever an agent, a client or another program wrote is text on every page, and nothing else."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import pytest

from browsers import Browser
from consoles import Served, file_settings, serving
from hostile_journals import HostileJournal, hostile_journal
from other_sites import OtherSite, other_site
from seekpoint.console.services.arguments.target import CommandTarget
from seekpoint.console.web.console_options import ConsoleOptions
from seekpoint.console.web.route_declarations import WebPage
from seekpoint.console.web.routes import PAGES
from seekpoint.consumers.projector.projector import Projector
from seekpoint.schemas.config.settings import Settings

_SHOWN = re.compile(r"cnry\d{3}x")
_UNSAFE = r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069]"


@dataclass
class Scene:
    """A console on a hostile journal. ``seen`` are the pages visited, and the canaries that they showed."""

    served: Served
    journal: HostileJournal
    site: OtherSite
    seen: set[str]
    place: str
    """Of a dead letter."""

    def addresses(self, page: WebPage) -> list[str]:
        """Return where a page is to be visited: for each process, and with hostile filters."""
        required = _required(page)
        found = []
        for process_id in (self.journal.process_id, self.journal.odd_id) if "id" in required else ("",):
            query: dict[str, Any] = {name: self._value(page, name, process_id) for name in required}
            found.append(f"{page.path}?{urlencode(query)}")
        texts = [name for name in page.query.__struct_fields__ if name not in required and name not in _NO_TEXTS]
        hostile = {name: self.journal.canaries.short(f"the filter {name} of {page.path}") for name in texts}
        return [*found, f"{page.path}?{urlencode({**query, **hostile})}"]

    def _value(self, page: WebPage, name: str, process_id: str) -> Any:
        if name == "id":
            return process_id
        if name == "place":
            return self.place
        if name == "key":
            return self.journal.effect if "effect" in page.path else self.journal.gate
        return self.journal.gate if page.query.__annotations__.get(name) == "str" else 2


_NOTHING_TO_SHOW = ("/job",)
"""Pages that need more than a journal: they show an error, which quotes what was asked."""
_NO_TEXTS = ("limit", "skip", "first", "sort", "whole", "offset", "seq", "before")


def _required(page: WebPage) -> list[str]:
    fields, defaults = page.query.__struct_fields__, page.query.__struct_defaults__
    return list(fields[: len(fields) - len(defaults)])


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Settings, HostileJournal, OtherSite]]:
    """A journal with canaries, its view and its dead letters, and a site that nobody should ask."""
    settings = file_settings(tmp_path_factory.mktemp("hostile"))
    with other_site() as site:
        journal = hostile_journal(settings, site.url)
        asyncio.run(_project(settings))
        yield settings, journal, site


async def _project(settings: Settings) -> None:
    """Run a projector until there are dead letters."""
    projector = Projector(settings)
    task = asyncio.ensure_future(projector.run())
    deadline = asyncio.get_running_loop().time() + 60
    with closing(CommandTarget(None, None, None, settings.journal_url)) as target:
        while len(await asyncio.to_thread(_dead_letters, target)) < 4:
            assert asyncio.get_running_loop().time() < deadline
            await asyncio.sleep(0.05)
    projector.stop()
    await task


def _dead_letters(target: CommandTarget) -> list[Any]:
    return list(target.dead_letters.stream())


_SEEN: set[str] = set()


@pytest.fixture
def scene(hostile: tuple[Settings, HostileJournal, OtherSite]) -> Iterator[Scene]:
    """A console in which everybody may do everything, so that all forms show."""
    settings, journal, site = hostile
    with (
        closing(CommandTarget(None, None, None, settings.journal_url)) as target,
        serving(target, ConsoleOptions(port=0, allow_changes=True)) as served,
    ):
        yield Scene(served, journal, site, _SEEN, _dead_letters(target)[0].place)


_TESTED = [one for one in PAGES if "events" not in one.path]


@pytest.mark.parametrize("page", _TESTED, ids=lambda one: one.path)
def test_each_page_shows_it_as_text(browser: Browser, scene: Scene, page: WebPage) -> None:
    """Nothing runs, nothing asks another site, nothing turns or hides a text; what is cut open is shown as text too."""
    visit(browser, scene, page)


def test_every_canary_is_shown_somewhere(browser: Browser, scene: Scene) -> None:
    """So each field is on some page, and was tested there."""
    for page in _TESTED:
        if page.path not in scene.seen:
            visit(browser, scene, page)
    missing = {where for word, where in scene.journal.canaries.planted.items() if word not in scene.seen}
    in_hex = "end of an entry"  # the word begins where an id is expected
    assert {one for one in missing if "filter" not in one and one != in_hex} == set()


def visit(browser: Browser, scene: Scene, page: WebPage) -> None:
    """Open a page with all that it can unfold, and check it."""
    for number, address in enumerate(scene.addresses(page)):
        browser.open(scene.served.url + address)
        settled(browser)
        is_error = bool(browser.all("section.message"))
        assert number or is_error == (page.path in _NOTHING_TO_SHOW), f"teach Scene what {page.path} needs"
        browser.script("for (const one of [...document.querySelectorAll('[data-whole]')]) one.click()")
        settled(browser)
        check(browser, scene)
        scene.seen.update(_SHOWN.findall(str(browser.script("return document.body.textContent"))))
    scene.seen.add(page.path)


def settled(browser: Browser) -> None:
    """Wait until the page, and what its scripts fetch, stands still."""
    browser.until(lambda: browser.script("return document.readyState") == "complete")
    measure = "return document.body.textContent.length + ' ' + performance.getEntriesByType('resource').length"
    last, same = "", 0
    while same < 4:
        now = str(browser.script(measure))
        last, same = now, same + 1 if now == last else 0
        asyncio.run(asyncio.sleep(0.03))


def check(browser: Browser, scene: Scene) -> None:
    """Fail if the page did what a canary wanted."""
    assert browser.script("return window.canary") is None
    assert [one for one in browser.problems() if "responded with a status of 4" not in one] == []
    assert scene.site.asked == []
    foreign = """
        return [...document.querySelectorAll(
                    'img, iframe, object, embed, base, [onerror], [onload], [onfocus], main :is(svg, script, style)'
        )].concat([...document.querySelectorAll('a[href], form[action], [src]')].filter((one) =>
        !(one.href ?? one.action ?? one.src).startsWith(location.origin + '/'))).map((one) => one.outerHTML)"""
    assert browser.script(foreign) == []
    unsafe = f"return (document.body.innerText + document.title).match(/.{{0,30}}{_UNSAFE}.{{0,30}}/)"
    assert browser.script(unsafe) is None
