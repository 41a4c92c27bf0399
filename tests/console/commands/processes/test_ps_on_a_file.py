"""``seekpoint ps`` on an embedded log: what a list has of a run, and the view of a file."""

from __future__ import annotations

import asyncio
import contextlib
from contextlib import closing
from pathlib import Path

from consoles import file_settings, work_on
from seekpoint.console.services.arguments.target import CommandTarget
from seekpoint.console.services.histories.view_pages import ViewGone, offsets_behind
from seekpoint.producers import Node
from seekpoint.schemas.config.settings import Settings
from shells import Shell
from written_journals import a_case, write_entries


def test_without_a_view_the_list_says_what_keeps_one(tmp_path: Path, shell: Shell) -> None:
    """The whole log is read. Once a projector ran on the file, it is not, and both have the same answer."""
    settings = file_settings(tmp_path)
    address = f"sqlite:///{settings.sqlite_path}"
    write_entries(settings, a_case())
    told = "reading from the log: the file has no view yet (a worker or seekpoint serve projector writes it)"
    ran = shell("ps", "--json", "--journal-url", address)
    assert (ran.code, ran.err.splitlines()) == (0, [told])
    [found] = ran.json["processes"]
    assert (found["last_call_kind"], found["last_call"]) == ("step", "charge:1")

    asyncio.run(project(settings, address))
    again = shell("ps", "--json", "--journal-url", address)
    assert (again.code, again.err) == (0, "")
    assert again.json == ran.json


async def project(settings: Settings, address: str) -> None:
    """Run a projector until the view has the whole log."""
    with closing(CommandTarget(None, None, None, address)) as target:
        async with Node.connect(settings, projector=True), asyncio.timeout(20):
            while not is_projected(target):  # noqa: ASYNC110
                await asyncio.sleep(0.05)


def is_projected(target: CommandTarget) -> bool:
    """Return whether the view has all entries."""
    with contextlib.suppress(ViewGone):
        return not any(offsets_behind(target).values())
    return False


def test_a_run_that_waits_does_so_since_its_gate_was_opened(tmp_path: Path, shell: Shell) -> None:
    """Mail does not move that time, nor does it make another call the newest."""
    settings = file_settings(tmp_path)

    async def begin(node: Node) -> None:
        async with node.open("case-1") as process:
            await process.step("look", str, 1)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(process.gate("ok"), 0.2)

    work_on(settings, begin)
    command = ("ps", "--json", "--journal-url", f"sqlite:///{settings.sqlite_path}")
    [before] = shell(*command).json["processes"]
    assert (before["last_call_kind"], before["last_call"], before["waits_for"]) == ("gate", "ok:1", ["gate"])
    assert before["started"] <= before["since"] <= before["updated"]
    assert shell("signal", "case-1", "other", "--in-advance", *command[2:]).code == 0
    [after] = shell(*command).json["processes"]
    assert (after["mailbox"], after["last_kind"]) == (1, "signal")
    assert [after[name] for name in ("since", "last_call")] == [before[name] for name in ("since", "last_call")]
