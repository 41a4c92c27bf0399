"""The pages of dead letters, in a real browser and through the API."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from browsers import Browser
from consoles import Served, file_settings, serving, work_on
from seekpoint.console.services.arguments.target import CommandTarget
from seekpoint.producers import Node
from seekpoint.schemas.errors import UndecodableRecord
from seekpoint.schemas.log.log_ports import Record
from seekpoint.schemas.log.partition import partition_of
from seekpoint.schemas.wire.encoding import HEADER

JUNK = b"junk\x1b[31m <script>document.title='pwned'</script>\xe2\x80\xae"


@pytest.fixture(scope="module")
def with_letters(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A journal with four records that are no entries: text, a torn entry, bytes, nothing."""
    folder = tmp_path_factory.mktemp("letters")
    settings = file_settings(folder)

    async def work(node: Node) -> None:
        async with node.open("p-1") as process:
            await process.update("x", 1)

    work_on(settings, work)
    with closing(CommandTarget(None, None, None, f"sqlite:///{settings.sqlite_path}")) as target:
        partition = partition_of(b"p-1", target.log.partitions)
        [batch] = target.log.read(partition, 0, target.log.watermarks(partition).high)
        whole = batch.records[1].value or b""
        assert whole.startswith(HEADER)
        for offset, (key, value) in enumerate(
            [(b"p\x1b1", JUNK), (b"p-1", whole[:-3]), (b"\xff\x00", bytes(range(256)) * 20), (b"p-2", None)]
        ):
            poison = Record(partition, 100 + offset, 1_790_000_000_000, key, value)
            target.dead_letters.add(poison, UndecodableRecord(f"no entry <b>{offset}</b>"))
    return folder


@pytest.fixture
def letters(with_letters: Path) -> Iterator[Served]:
    """A console on that journal."""
    url = f"sqlite:///{with_letters / 'journal.db'}"
    with closing(CommandTarget(None, None, None, url)) as target, serving(target) as served:
        yield served


def test_the_newest_are_listed_first(browser: Browser, letters: Served) -> None:
    """Place, process, size, error; a key that is no id is shown as text, and a filter finds what it says."""
    browser.open(f"{letters.url}/dead-letters")
    rows = [row.text for row in browser.all("#letters tbody tr")]
    assert [row.split()[0].rpartition(":")[2] for row in rows] == ["103", "102", "101", "100"]
    assert "\\xff" in rows[1]
    assert "5,120" in rows[1]
    assert "no entry <b>3</b>" in rows[0]
    assert [link.text for link in browser.all("#letters td a")] == ["p-2", "p-1"]
    browser.press("/")
    browser.press("<b>2</B>\n")
    browser.arrive("text=")
    assert len(browser.all("#letters tbody tr")) == 1
    assert browser.text("p.source") == "1 record that is not an entry of 4"


def test_one_is_shown_below_its_row(browser: Browser, letters: Served) -> None:
    """With the hex dump and what can be read; hostile text stays text."""
    browser.open(f"{letters.url}/dead-letters")
    title = browser.driver.title
    browser.press("G")
    browser.press("\n")
    browser.until(lambda: "6a 75 6e 6b 1b 5b 33 31" in browser.text("tr.detail"))
    shown = browser.text("tr.detail")
    assert "text without the header of an entry" in shown
    assert "junk\\x1b[31m <script>" in shown
    assert "\\u202e" in shown
    browser.press("\n")
    browser.until(lambda: not browser.all("tr.detail"))
    browser.press("k")
    browser.press("\n")
    browser.until(lambda: "process_id" in browser.text("tr.detail"))
    shown = browser.text("tr.detail")
    assert "p-1" in shown
    assert "an entry of the schema" in shown
    assert "at byte" in shown
    assert browser.driver.title == title


def test_the_api_has_the_bytes(letters: Served) -> None:
    """In base64, with the fields that can be read; pages follow each other without a gap."""
    with letters.client() as client:
        listed = client.get("/api/dead-letters?limit=3").json()
        rest = client.get("/api/dead-letters?limit=3&skip=3").json()
        assert (listed["total"], listed["all"]) == (4, 4)
        assert [one["offset"] for one in listed["letters"] + rest["letters"]] == [103, 102, 101, 100]
        assert [one["process_id"] for one in listed["letters"]] == ["p-2", None, "p-1"]
        assert [(one["process_id"], one["key"]) for one in rest["letters"]] == [(None, "p\x1b1")]
        place = rest["letters"][0]["place"]
        found = client.get(f"/api/dead-letter?place={place}").json()
        assert base64.b64decode(found["letter"]["value"]) == JUNK
        torn = client.get(f"/api/dead-letter?place={listed['letters'][2]['place']}").json()["readable"]
        fields = dict(torn["fields"])
        assert (fields["process_id"], fields["body"], fields["seq"]) == ("p-1", "ContextUpdated", "1")
        assert torn["problem"] == "the record ends here"
        assert torn["read_bytes"] <= listed["letters"][2]["bytes"]
        none = client.get(f"/api/dead-letter?place={listed['letters'][0]['place']}").json()
        assert (none["letter"]["value"], none["readable"]["form"]) == (None, "a record without a value")
        short = ":".join(place.split(":")[1:])
        assert client.get(f"/api/dead-letter?place={short}").json() == found


@pytest.mark.parametrize(
    ("query", "status", "code"),
    [("place=1:99", 404, "UnknownDeadLetter"), ("place=odd", 400, "BadQuery"), ("", 400, "BadQuery"),
     ("place=1:%D9%A3", 400, "BadQuery")],
)  # fmt: skip
def test_a_letter_that_is_not_there_is_explained(letters: Served, query: str, status: int, code: str) -> None:
    """By the page, too."""
    with letters.client() as client:
        answer = client.get(f"/api/dead-letter?{query}")
        assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
        assert client.get(f"/dead-letter?{query}").status_code == status


def test_many_viewers_read_the_letters_once(letters: Served) -> None:
    """Within a few seconds the list is read once, and is complete each time."""
    with letters.client() as client:
        totals = [client.get("/api/dead-letters").json()["total"] for _ in range(20)]
    assert totals == [4] * 20


def test_the_pages_are_accessible(browser: Browser, letters: Served, axe: str) -> None:
    """axe-core finds nothing, in the list with an open row and on the page of one."""
    browser.open(f"{letters.url}/dead-letters")
    browser.press("j")
    browser.press("\n")
    browser.until(lambda: browser.all("tr.detail pre"))
    assert browser.violations(axe) == []
    browser.open(f"{letters.url}/dead-letters")
    browser.open(browser.one("#letters th a").get_attribute("href") or "")
    assert browser.violations(axe) == []
