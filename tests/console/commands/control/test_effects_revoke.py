"""``seekpoint effects revoke`` on a real Kafka, with an outside ledger: what was reversed outside is not paid back."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from seekpoint.schemas.config.settings import Settings
from shells import Shell

SHOP = """
from seekpoint.producers import Effect, agent

def tell(what):
    with open("ledger.txt", "a") as file:
        file.write(what + "\\n")
    return what

def pay_back(what, **facts):
    tell("back-" + what)

@agent("shop")
async def shop(process, order):
    for what in ("rent", "food"):
        await process.effect("pay", tell, what, semantics=Effect.AT_MOST_ONCE, compensate=pay_back)
    word = await process.receive("word")
    if word.payload == "fail":
        raise ValueError("no")
    return "done"
"""

KILLED = """
import os, signal, sys
from seekpoint.console.cli import main
from seekpoint.producers.client import Client

revoke, when = Client.revoke, sys.argv.pop(1)

async def dies(self, *arguments, **options):
    if when == "before":
        os.kill(os.getpid(), signal.SIGKILL)
    await revoke(self, *arguments, **options)
    os.kill(os.getpid(), signal.SIGKILL)

Client.revoke = dies
sys.exit(main())
"""


@pytest.mark.cluster
def test_what_was_reversed_outside_is_not_paid_back(
    shell: Shell, journal: Settings, point_at: Callable[[Settings], None], write_module: Callable[[str, str], None]
) -> None:
    """Of two payments one is revoked, after a kill before its entry; the run fails, and pays the other one back."""
    point_at(journal)
    write_module("shop", SHOP)
    code = ("--agent", "shop:shop")
    program = "import sys; from seekpoint.console.cli import main; sys.exit(main())"
    with subprocess.Popen([sys.executable, "-c", program, "run", "p", *code, "--input", "1"]) as running:
        _until(lambda: Path("ledger.txt").exists() and len(_ledger()) == 2)
        assert shell("effects", "revoke", "p", "pay:9").code == 4
        running.kill()
    dry = shell("effects", "revoke", "p", "pay:1", "--dry-run", "--json")
    assert (dry.code, dry.json["revoked"]) == (0, False), dry.err
    for when, statuses in (("before", ["succeeded", "succeeded"]), ("after", ["revoked", "succeeded"])):
        command = [sys.executable, "-c", KILLED, when, "effects", "revoke", "p", "pay:1", "--reason", "by the bank"]
        assert subprocess.run(command, env=dict(os.environ), timeout=60, check=False).returncode == -9
        listed = shell("effects", "ls", "p", "--all", "--json").json["effects"]
        assert [one["status"] for one in listed] == statuses
    assert [one["owed"] for one in listed] == [None, "open"]
    assert shell("effects", "revoke", "p", "pay:1").code == 4
    assert "by the bank" in shell("effects", "show", "p", "pay:1").out
    steps = {one["key"]: one for one in shell("steps", "p", "--json").json["calls"]}
    assert (steps["pay:1"]["status"], steps["pay:1"]["revoke_reason"]) == ("revoked", "by the bank")

    assert shell("signal", "p", "word", "--payload", '"fail"').code == 0
    assert shell("run", "p", *code, "--resume").code == 1
    assert _ledger() == ["rent", "food", "back-food"]
    assert shell("effects", "ls", "p").out.count("pay:") == 0


def _ledger() -> list[str]:
    return Path("ledger.txt").read_text().split()


def _until(is_so: Callable[[], bool]) -> None:
    import time

    until = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < until
        time.sleep(0.05)
