"""The tab **Story** of a process, in a real browser and through the API."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from browsers import Browser
from consoles import Served, file_settings, serving, work_on
from entry_examples import own
from seekpoint.console.services.arguments.target import CommandTarget
from seekpoint.console.web.markdown_text import MarkdownPage, markdown_html
from seekpoint.producers import Node
from seekpoint.schemas import bodies as b
from seekpoint.schemas.config.settings import Settings
from written_journals import a_case, many_steps, write_entries

TAGS = frozenset("p h1 h2 h3 h4 h5 h6 ul ol li em strong code pre blockquote hr br".split())  # noqa: SIM905
MARKDOWN = (
    "# Title\n\n**bold** and `code`\n\n- one\n- two\n\n[l](javascript:window.canary=4) [m](https://example.org) <b>"
)


@pytest.fixture
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """The settings of a journal with one case and a longer run."""
    made = file_settings(tmp_path_factory.mktemp("story"))
    said = [own(17, b.MessageSaid("assistant", MARKDOWN), epoch=2, claim_id=2)._replace(ts=a_case()[-1].ts + 1)]
    write_entries(made, [*a_case(), *said, *many_steps("long", 502)])
    return made


@pytest.fixture
def served(settings: Settings) -> Iterator[Served]:
    """A console on the journal."""
    with closing(CommandTarget(None, None, None, settings.journal_url)) as target, serving(target) as found:
        yield found


def test_it_tells_messages_calls_and_events_in_order(served: Served) -> None:
    """Each call once, where it began, as the calls' list has it."""
    with served.client() as client:
        found = client.get("/api/story?id=case-17").json()
        calls = client.get("/api/calls?id=case-17").json()["calls"]
    assert (found["is_complete"], found["total"], found["next"]) == (True, len(found["parts"]), None)
    assert [one["call"] for one in found["parts"] if one["kind"] == "call"] == calls
    kinds = [one["kind"] for one in found["parts"]]
    assert kinds == ["event", "event", *["call"] * 5, "event", "call", "message", "message"]
    assert [one["role"] for one in found["parts"][-2:]] == ["user", "assistant"]
    assert found["parts"][-1]["text"] == MARKDOWN
    assert [one["offset"] for one in found["parts"]] == sorted(one["offset"] for one in found["parts"])


def test_messages_are_markdown_that_cannot_do_anything(browser: Browser, served: Served) -> None:
    """Headings, lists and emphasis are shown; links, images and HTML are the text that they were written as."""
    browser.open(f"{served.url}/story?id=case-17")
    said = browser.all(".said")[-1]
    html = said.get_attribute("innerHTML") or ""
    assert html.count("<li>") == 2
    assert "<strong>bold</strong>" in html
    assert "[l](javascript:window.canary=4) [m](https://example.org) <b>" in said.text
    assert browser.script("return document.querySelectorAll('.said a, .said img, .said script').length") == 0
    assert browser.script("return window.canary") is None
    assert "\\u202e" in browser.all(".said")[0].text


@pytest.fixture
def chatty(tmp_path: Path) -> Iterator[Served]:
    """A console that shows a process whose messages are expensive Markdown."""
    settings = file_settings(tmp_path)

    async def say(node: Node) -> None:
        async with node.open("chatty") as process:
            for _ in range(60):
                await process.say("user", "- a\n" * 2_400)

    work_on(settings, say)
    with closing(CommandTarget(None, None, None, settings.journal_url)) as target, serving(target) as found:
        yield found


def test_a_page_of_expensive_messages_is_bounded_and_holds_up_nobody(chatty: Served) -> None:
    """It shows the first ones as Markdown and the others as they were written, while other pages are answered."""
    with chatty.client() as client, chatty.client() as other, ThreadPoolExecutor(1) as threads:
        began, waits = time.monotonic(), []
        shown = threads.submit(client.get, "/story?id=chatty")
        while not shown.done():
            asked = time.monotonic()
            assert other.get("/api/me").status_code == 200
            waits.append(time.monotonic() - asked)
        took_s = time.monotonic() - began
    assert max(waits) < took_s / 2
    page = shown.result().text
    plain = page.count("<pre>- a\n- a\n")
    assert 30 < plain < 60
    assert page.count("<li>a</li>") == (60 - plain) * 2_400


@pytest.mark.parametrize("text", ["# Title " * 2_000, "<b>\u202e" * 3_000])
def test_a_long_message_stays_as_it_was_written(text: str) -> None:
    """Escaped, and with invisible characters made visible."""
    html = MarkdownPage().html(text)
    assert html.startswith("<pre>")
    assert "<h1>" not in html
    assert "<b>" not in html
    assert "\u202e" not in html


@given(st.text(alphabet=st.sampled_from('ab*_`#>-[]()<>!&;:/\\\n\t "=1.'), max_size=60))
def test_no_text_becomes_an_element_that_acts(text: str) -> None:
    """Whatever an agent writes: no link, no image, no script, no attribute."""
    tags = set(re.findall(r"<(/?\w+)([^>]*)>", markdown_html(text)))
    assert {name.strip("/") for name, _ in tags} <= TAGS
    assert {
        attributes
        for _, attributes in tags
        if not re.fullmatch(r' start="\d+"| class="language-[^"]*"| /|', attributes)
    } == set()


def test_what_is_said_now_shows_at_once(browser: Browser, served: Served, settings: Settings) -> None:
    """On the last page, without a reload."""
    browser.open(f"{served.url}/story?id=case-17")
    assert "a last word" not in browser.text("#grows")
    said = own(18, b.MessageSaid("user", "a last word"), epoch=2, claim_id=2)
    write_entries(settings, [said._replace(ts=a_case()[-1].ts + 2)])
    browser.until(lambda: "a last word" in browser.text("#grows"))


def test_a_long_story_comes_in_pages(browser: Browser, served: Served) -> None:
    """Each part is on exactly one page."""
    browser.open(f"{served.url}/story?id=long")
    seen: list[str] = []
    while True:
        browser.until(lambda: browser.one("#grows").get_attribute("data-complete") == "true")
        seen += browser.script(
            "return [...document.querySelectorAll('#grows [data-row]')].map((row) => row.dataset.row)"
        )
        if not browser.click("a[rel=next]"):
            break
        browser.arrive(f"first={len(seen)}")
    assert seen == [str(number) for number in range(252)]


def test_the_page_is_accessible(browser: Browser, served: Served, axe: str) -> None:
    """axe-core finds nothing, in light and dark."""
    browser.open(f"{served.url}/story?id=case-17")
    for dark in (False, True):
        browser.resize(1280, 800, dark=dark)
        assert browser.violations(axe) == []


def test_a_bad_address_is_explained(served: Served) -> None:
    """By the page as by the API."""
    with served.client() as client:
        for address, status in (("?id=nobody", 404), ("?id=case-17&limit=501", 400), ("?id=case-17&first=-1", 400)):
            assert client.get(f"/api/story{address}").status_code == status
            assert client.get(f"/story{address}").status_code == status
