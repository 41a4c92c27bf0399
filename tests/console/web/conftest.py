"""A journal in a file with some processes, and a console that shows it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from browsers import Browser, axe_source, missing_browser
from consoles import Served, file_settings, serving, work_on
from identity_providers import IdentityProvider, identity_provider, settings_file
from seekpoint.console.services.arguments.target import CommandTarget
from seekpoint.console.web.console_options import ConsoleOptions
from seekpoint.producers import Node, Process, agent
from seekpoint.schemas.config.settings import Settings
from waiting_processes import Caller
from written_journals import many_steps, write_entries


@pytest.fixture(scope="session")
def some_processes(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """A journal with a finished, a failed and a waiting process, and a shared value. Tests only look at it."""
    settings = file_settings(tmp_path_factory.mktemp("some"))
    work_on(settings, _work)
    return settings


@pytest.fixture(scope="session")
def long_journal(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The address of a journal with one process of 100,000 entries. Tests only look at it."""
    settings = file_settings(tmp_path_factory.mktemp("long"))
    write_entries(settings, many_steps("long", 100_000))
    return f"sqlite:///{settings.sqlite_path}"


@agent("clerk", "2")
async def clerk(process: Process, order: str) -> Any:
    """Finish, fail or leave a question open, as the order says."""
    await process.step("look up", str.upper, order)
    await process.say("user", f"Where is {order}?")
    if order == "bad":
        raise ValueError("no such order")
    return order


async def _work(node: Node) -> None:
    await node.run(clerk, "order-1", "good")
    with suppress(ValueError):
        await node.run(clerk, "order-2", "bad")
    async with node.open("order-3") as process:
        await process.transition("starting")
        await process.shared("rate").set(1)


@pytest.fixture
def target(some_processes: Settings) -> Iterator[CommandTarget]:
    """The journal as a command has it."""
    assert some_processes.sqlite_path is not None
    with closing(CommandTarget(None, None, None, f"sqlite:///{some_processes.sqlite_path}")) as found:
        yield found


@pytest.fixture
def console(target: CommandTarget) -> Iterator[Served]:
    """A read-only console on this machine."""
    with serving(target) as served:
        yield served


@pytest.fixture
def acting(journal: Settings) -> Iterator[Served]:
    """A console that may change the journal of the test."""
    with (
        closing(CommandTarget(None, None, None, journal.journal_url)) as found,
        serving(found, ConsoleOptions(port=0, allow_changes=True)) as served,
    ):
        yield served


@pytest.fixture
def caller(acting: Served) -> Iterator[Caller]:
    """A program that uses the API of this console."""
    with Caller(acting) as found:
        yield found


@pytest.fixture
def provider() -> Iterator[IdentityProvider]:
    """An identity provider."""
    with identity_provider() as found:
        yield found


@pytest.fixture
def oidc_console(target: CommandTarget, provider: IdentityProvider, tmp_path: Path) -> Iterator[Served]:
    """A console whose visitors sign in at the provider."""
    with serving(target, ConsoleOptions(port=0, oidc=settings_file(tmp_path, provider))) as served:
        yield served


@pytest.fixture(scope="session")
def one_browser() -> Iterator[Browser]:
    """The session's one browser. A machine without Chromium skips the tests of pages."""
    missing = missing_browser()
    if missing is not None:
        pytest.skip(missing)
    browser = Browser()
    yield browser
    browser.close()


@pytest.fixture
def browser(one_browser: Browser) -> Iterator[Browser]:
    """A browser that complained about nothing at the end of the test."""
    one_browser.driver.get("about:blank")
    one_browser.resize(1280, 800)
    one_browser.problems()
    yield one_browser
    assert one_browser.problems() == []
    one_browser.driver.get("about:blank")


@pytest.fixture(scope="session")
def axe() -> str:
    """The script of axe-core."""
    source = axe_source()
    if source is None:
        pytest.skip("axe-core cannot be installed: npm is missing, or the package registry does not answer")
    return source
