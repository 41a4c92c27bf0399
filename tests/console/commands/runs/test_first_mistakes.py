"""What a new user gets wrong, on a journal in a file: names, inputs, moments, and answers of another shape."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from seekpoint.console.services.arguments.import_path import load_agent
from seekpoint.producers import Node
from seekpoint.schemas.config.settings import Settings
from shells import Shell

AGENTS = """
from dataclasses import dataclass
from seekpoint.producers import Effect, agent

@dataclass
class Order:
    number: int

@agent("refund")
async def refund(process, order: Order):
    return order.number

@agent("clerk")
async def clerk(process, order=None):
    found = await process.step("look", lambda: {"amount": 12, "name": "ann"})
    if isinstance(found["amount"], int):
        await process.effect("pay", lambda: 1, semantics=Effect.IDEMPOTENT)
        await process.step("tell", lambda: "told")
    await process.gate("approve")
    return found["amount"]
"""


@pytest.fixture
def seekpoint(shell: Shell, write_module: Callable[[str, str], None], monkeypatch: pytest.MonkeyPatch) -> Shell:
    """The command line in a folder with the agents, for a journal whose file is not there yet."""
    write_module("shop", AGENTS)
    monkeypatch.setenv("SEEKPOINT_JOURNAL_URL", "sqlite:///orders.db")
    return shell


@pytest.fixture
def clerk(seekpoint: Shell) -> None:
    """A run of the clerk that waits at its gate."""

    async def run() -> None:
        agent = load_agent("shop:clerk")

        async with Node.connect(Settings(journal_url="sqlite:///orders.db")) as node:
            running = asyncio.create_task(node.run(agent, "order-1"))
            while not running.done() and not any(call.kind == "gate" for call in await _calls(node)):
                await asyncio.wait([running], timeout=0.01)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    asyncio.run(run())


async def _calls(node: Node) -> list[Any]:
    return list((await node.recover("order-1", missing_ok=True)).state.calls.values())


@pytest.fixture
def worker(seekpoint: Shell) -> Iterator[None]:
    """A worker that runs what is submitted."""
    command = [sys.executable, "-m", "seekpoint", "worker", "shop"]
    with subprocess.Popen(command, env=dict(os.environ), stderr=subprocess.DEVNULL) as program:
        yield
        program.terminate()


def test_a_run_without_input_says_how_it_begins(seekpoint: Shell) -> None:
    """Also where the journal's file is not there yet, and none is made."""
    for words in ((), ("--resume",)):
        ran = seekpoint("run", "order-1", "--agent", "shop:clerk", *words)
        assert (ran.code, "start it with --input JSON, or with --new" in ran.err) == (1, True), ran.err
        assert not Path("orders.db").exists()


def test_a_submitted_input_that_does_not_fit_names_the_field(seekpoint: Shell, worker: None) -> None:
    """And the way out, which is another id: nothing redrives a wrong input into a right one."""
    submitted = ("submit", "order-1", "--agent", "refund", "--input", '{"number": "x"}')
    for _ in range(200):  # the worker makes the file
        if seekpoint(*submitted).code == 0:
            break
    result = seekpoint("result", "order-1", "--timeout", "60")
    assert "InputMisfit: the input of refund does not fit Order: Expected `int`, got `str` (path=$.number" in result.err
    assert result.err.rstrip().endswith("submit another id with an input that fits")
    assert "redrive" not in result.err
    for shown in (result.err, seekpoint("state", "order-1").out):
        assert "value_types.py" not in shown


NAMES = {
    "gate": (("approve", "order-1", "aprove"), "approve"),
    "call": (("steps", "order-1", "lok:1"), "look:1"),
    "moment": (("rewind", "order-1", "--before", "tel:1"), "tell:1"),
    "answer": (("rewind", "order-1", "--answer", "lok:1=1", "--to-seq", "6"), "look:1"),
    "effect": (("effects", "show", "order-1", "pey:1"), "pay:1"),
    "revoked effect": (("effects", "revoke", "order-1", "pey:1", "--reason", "r"), "pay:1"),
    "redriven effect": (("redrive", "order-1", "--effect", "pey:1", "--reason", "r"), "pay:1"),
    "agent": (("run", "order-2", "--agent", "shop:clrk", "--new"), "clerk"),
    "agent of modules": (("replay-check", "order-1", "-m", "shop", "--agent", "clrk"), "clerk"),
    "agent of a limit": (("worker", "shop", "--concurrency", "clrk=1"), "clerk"),
    "journal": (("ps", "--journal-url", "sqlite:///ordrs.db"), "orders.db"),
}


@pytest.mark.parametrize(("command", "meant"), NAMES.values(), ids=NAMES.keys())
def test_a_mistyped_name_is_answered_with_the_nearest(
    seekpoint: Shell, clerk: None, command: tuple[str, ...], meant: str
) -> None:
    """Wherever a name is asked for."""
    ran = seekpoint(*command)
    assert ran.code != 0
    assert f"did you mean {meant}?" in ran.err, ran.err


def test_what_was_rewound_is_marked(seekpoint: Shell, clerk: None) -> None:
    """In the list of calls and in the trace; an effect happened, and is not."""
    seekpoint("rewind", "order-1", "--after", "look:1", "--reason", "r")
    rows = {call["key"]: call for call in seekpoint("steps", "order-1", "--json").json["calls"]}
    assert [key for key, call in rows.items() if "rewound_at_seq" in call] == ["tell:1", "approve:1"]
    shown = seekpoint("steps", "order-1").out
    assert "succeeded, rewound" in shown
    lines = seekpoint("trace", "order-1").out.splitlines()
    assert [line.split()[:2] for line in lines if line.endswith("rewound")] == [["step", "tell"], ["gate", "approve"]]


@pytest.mark.parametrize(
    ("answer", "warning"),
    [
        ('{"amount": "12", "name": "ann"}', "look:1: $.amount was a number, and is a text"),
        ('{"amount": 12}', "look:1: $ lacks name"),
        ('{"amount": 12, "name": "ann", "nmae": 1}', "look:1: $ has also nmae"),
        ("[12]", "look:1: $ was an object, and is a list"),
        ('{"amount": 13, "name": null}', None),
        ('{"amount": 1.5, "name": "bob"}', None),
    ],
)
def test_an_answer_of_another_shape_is_warned_of(
    seekpoint: Shell, clerk: None, answer: str, warning: str | None
) -> None:
    """The code that takes it may fail; it is done nevertheless."""
    ran = seekpoint("rewind", "order-1", "--answer", f"look:1={answer}", "--effects", "keep", "--reason", "r")
    assert ran.code == 0, ran.err
    assert ("warns" in ran.out) == (warning is not None)
    assert warning is None or f"warns   of another shape: {warning}" in ran.out
