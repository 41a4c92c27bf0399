"""A journal on Kafka is replayed into a staging topic by the console: with rate, time left, and stop."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from selenium.webdriver.common.keys import Keys

from browsers import Browser
from consoles import Served, serving, work_on
from seekpoint.compose import LocalCluster, create_topics_sync
from seekpoint.console.services.arguments.target import CommandTarget
from seekpoint.console.web.console_options import ConsoleOptions
from seekpoint.consumers.staging import MaskRules
from seekpoint.producers import Node
from seekpoint.schemas.config.settings import Settings
from staging_world import StagingWorld
from waiting_processes import Caller

pytestmark = pytest.mark.cluster

MASKS = {"mask": [{"kinds": ["message_said"], "regex": "canary", "do": "redact"}], "unknown": "drop"}


@pytest.fixture
def world(cluster: LocalCluster, tmp_path: Path) -> StagingWorld:
    return StagingWorld(cluster.bootstrap_servers, tmp_path)


@pytest.fixture
def journal(cluster: LocalCluster) -> Settings:
    settings = cluster.settings(journal=f"stage-{uuid4().hex[:8]}", partitions=2)
    create_topics_sync(settings)
    work_on(settings, _work)
    return settings


async def _work(node: Node) -> None:
    async with node.open("talk-1") as process:
        for number in range(30):
            await process.say("user", f"canary {number}")


@pytest.fixture
def acting(world: StagingWorld, journal: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    monkeypatch.setenv("SEEKPOINT_REDIS_URL", "none")
    monkeypatch.setenv("SEEKPOINT_PARTITIONS", "2")
    monkeypatch.setenv("SEEKPOINT_HOME", str(world.directory / "home"))
    options = ConsoleOptions(port=0, allow_changes=True, masks=MaskRules.from_dict(MASKS))
    with (
        closing(CommandTarget(journal.journal, journal.bootstrap_servers, world.config)) as target,
        serving(target, options) as served,
    ):
        yield served


def test_a_replay_shows_how_far_it_is_is_stopped_and_goes_on(
    browser: Browser, acting: Served, world: StagingWorld, axe: str
) -> None:
    """The dry run counts and masks; the same replay goes on from where it was stopped."""
    topic = world.topic(2)
    browser.open(f"{acting.url}/jobs")
    assert browser.violations(axe) == []
    for name, value in {"into": f"staging/{topic}", "rate": "8", "reason": "a drill"}.items():
        browser.one(f'[data-act="/api/replay"] [name={name}]').send_keys(value)
    browser.press(Keys.ENTER)
    button = browser.until(lambda: browser.all(".plan button.primary"), 30)[0]
    assert "records, " in browser.text(".plan")
    assert "values are masked with the rules of the console" in browser.text(".plan")
    assert world.read(topic) == []
    button.click()
    browser.until(lambda: browser.all('.plan a[href^="/job?id="]'))[0].click()
    browser.until(lambda: "a second" in browser.text("#job") and " left" in browser.text("#job"), 30)
    assert browser.violations(axe) == []
    browser.one("[name=reason]").send_keys("enough" + Keys.ENTER)
    browser.until(lambda: browser.all(".plan button.primary"))[0].click()
    browser.until(lambda: browser.text("#job-state") == "stopped", 30)
    assert "the same replay goes on from there" in browser.text("#outcome")
    part = len(world.read(topic))
    assert 0 < part < 30
    with Caller(acting) as caller:
        job = caller.act("replay", into=f"staging/{topic}", reason="go on")["facts"]["job"]
        found = browser.until(lambda: ended(caller, job), 60) or {}
    assert (found["state"], found["result"]["complete"], found["result"]["checked"]) == ("finished", True, True)
    values = b"".join(row[3] or b"" for row in world.read(topic))
    assert len(world.read(topic)) > part
    assert b"canary" not in values


def ended(caller: Caller, job: str) -> dict[str, Any] | None:
    """Return the facts of a job that has ended."""
    found: dict[str, Any] = caller.client.get(f"/api/job?id={job}").json()
    return found if found["state"] in ("finished", "failed", "stopped") else None


def test_what_cannot_be_replayed_is_explained(caller: Caller, world: StagingWorld) -> None:
    """Before anything is written: a file, a cluster that is not staging, an unknown one, two paces."""
    topic = world.topic(2)
    assert caller.refused("replay", into="run.spk", reason="x") == (400, "BadBody")
    assert caller.refused("replay", into=f"prod/{topic}", reason="x") == (409, "ReplayRefused")
    assert caller.refused("replay", into=f"live/{topic}", reason="x")[1] == "InvalidSetting"
    assert caller.refused("replay", into=f"staging/{topic}", since="soon", reason="x") == (400, "BadBody")
    assert caller.refused("replay", into=f"staging/{topic}", rate=1, speed=1, reason="x")[1] == "InvalidSetting"
    assert json.dumps(world.read(topic)) == "[]"
