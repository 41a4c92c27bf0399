"""The lineage of a process, in a real browser and through the API."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from browsers import Browser
from consoles import Served, file_settings, serving, work_on
from seekpoint.console.cli import main
from seekpoint.console.services.arguments.target import CommandTarget
from seekpoint.producers import Node, Process, agent


@agent("clerk")
async def clerk(process: Process, order: str) -> Any:
    """Look, ask nobody, and fail where the order says so."""
    await process.update("order", order)
    found = await process.step("look", str.upper, order)
    await process.update("found", found)
    if await process.step("check", str.isupper, order):
        return found
    raise ValueError("no such order")


async def _work(node: Node) -> None:
    with pytest.raises(ValueError, match="no such order"):
        await node.run(clerk, "first", "good")
    async with node.fork("first", "second", at_seq=4, reason="try again") as fork:
        await fork.update("order", "better")
    async with node.fork("second", "third"):
        pass
    async with node.fork("first", "<b>fourth</b>"):
        pass
    async with node.fork("first", "fifth") as fork:
        await fork.update("more", 1)
    await node.promote("second", prefer="fork", reason="it is right", actor="ann")
    await node.promote("fifth", prefer="fork", reason="this too", actor="ann")


@pytest.fixture(scope="module")
def journal(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The address of a journal with a process, three forks of it and a promotion. Only looked at."""
    settings = file_settings(tmp_path_factory.mktemp("lineage"))
    work_on(settings, _work)
    return f"sqlite:///{settings.sqlite_path}"


@pytest.fixture
def served(journal: str) -> Iterator[Served]:
    """A console on the journal."""
    with closing(CommandTarget(None, None, None, journal)) as target, serving(target) as found:
        yield found


def test_the_lineage_is_that_of_the_command(served: Served, journal: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Parents, forks and their forks; besides, what was promoted, told for both sides."""
    with served.client() as client:
        for process_id in ("first", "second", "third"):
            found = client.get(f"/api/lineage?id={process_id}").json()
            assert main(["lineage", process_id, "--journal-url", journal, "--json"]) == 0
            told = json.loads(capsys.readouterr().out)
            assert {name: found[name] for name in told} == told
        assert client.get("/api/lineage?id=nobody").status_code == 404
        promoted = [client.get(f"/api/lineage?id={name}").json()["promotions"] for name in ("first", "second", "third")]
    [one, other] = promoted[0]
    assert (one["process_id"], one["fork_id"], other["fork_id"]) == ("first", "second", "fifth")
    assert promoted[1:] == [[one], []]


def test_the_tree_links_every_process(browser: Browser, served: Served, axe: str) -> None:
    """The present one is marked. A fork leads to its differences to its parent, at the fork and as of now."""
    browser.open(f"{served.url}/lineage?id=second")
    rows = {one.get_attribute("data-row"): one.text for one in browser.all("#lineage tbody tr")}
    assert [*rows] == ["first", "second", "third"]
    assert "fork at seq 4" in rows["second"]
    assert browser.one("tr.current").get_attribute("data-row") == "second"
    assert "first at seq" in browser.text(".promotions")
    assert browser.violations(axe) == []
    browser.resize(1280, 800, dark=True)
    assert browser.violations(axe) == []
    browser.one("tr.current td a").click()
    browser.arrive("/differences?id=first&seq=4&other_id=second")
    assert "context.order" in browser.text("table.differences")
    browser.open(f"{served.url}/lineage?id=first")
    assert "<b>fourth</b>" in browser.text("#lineage")
    browser.one("[data-row='<b>fourth</b>'] th a").click()
    browser.arrive("fourth")
    assert browser.one("tr.current").get_attribute("data-row") == "<b>fourth</b>"
    browser.open(f"{served.url}/time-machine?id=second")
    browser.until(lambda: browser.all("#moment[data-seq]"))
    assert "with its parent first, where it was forked" in browser.text("#moment")
