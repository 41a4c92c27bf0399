"""What stays readable of a process that is finished, or failed. In memory."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

from cuts import bodies
from open_processes import durable_side
from outside_ledger import Ledger
from refund_agent import World, refunder
from seekpoint.producers import Node, Process, agent
from seekpoint.producers.dispatch.dispatcher import Dispatcher
from seekpoint.producers.durable.effects.connectors import Connector, Connectors
from seekpoint.producers.durable.failures.origins import frames_from_own_code
from seekpoint.schemas import MemoryLog, Settings
from seekpoint.schemas.config.error_texts import traceback_of
from seekpoint.schemas.errors import StepFailed, UnserializableValue


async def test_a_finished_run_keeps_what_it_did_readable(node: Node) -> None:
    """Context, conversation and calls are those of its last moment; nothing is open any more."""
    await node.run(refunder(World()), "p", {"order": "o-1"})
    state = (await node.recover("p")).state
    assert (state.finished, state.lifecycle, state.result) == (True, "stopped", {"paid": "pay done"})
    assert state.context == {"order": "paid"}
    assert [message.text for message in state.conversation] == ["find done"]
    assert {key: call.status for key, call in state.calls.items() if call.kind == "step"} == {
        "find:1": "succeeded", "pay:1": "succeeded",
    }  # fmt: skip
    assert not state.open_calls


async def test_a_fork_of_a_finished_run_gives_its_result_again(node: Node) -> None:
    """It has the content, the agent and the input; every call is answered from the record."""
    world = World()
    first = await node.run(refunder(world), "p", {"order": "o-1"})
    async with node.fork("p", "child") as child:
        assert child.state.content_hash == (await node.recover("p")).state.content_hash
    assert await node.run(refunder(world), "child") == first
    assert world.done == ["find", "pay"]


async def test_no_dispatcher_calls_what_a_finished_process_left_pending(node: Node, ledger: Ledger) -> None:
    """Nobody waits for it. The effect behind it in the log is called: so the dispatcher was there."""
    known = Connectors()
    known.register(Connector("bank", ledger.pay, outbox=True))

    async def asked(process: Process, amount: int) -> asyncio.Task[Any]:
        durable_side(process).effects.connectors = known
        effect = asyncio.create_task(process.effect("pay", None, amount, connector="bank"))
        async with asyncio.timeout(60):
            while not (await node.recover(process.process_id)).state.calls:  # noqa: ASYNC110  # the log gives no event
                await asyncio.sleep(0.001)
        return effect

    given_up = await node.open("given-up")
    effect = await asked(given_up, 5)
    effect.cancel()
    await asyncio.gather(effect, return_exceptions=True)
    await given_up.finish()
    async with node.open("waits") as process:
        effect = await asked(process, 6)
        async with Dispatcher(node, known=known, poll_s=0.01):
            assert await asyncio.wait_for(effect, 60) == "paid 6"
    assert ledger.calls == {"waits/pay:1": 1}


async def test_the_state_of_a_failed_run_names_the_line_that_raised(node: Node) -> None:
    """File, line, function and source line of the user's own code; not of a library, nor of Seekpoint."""

    @agent("careless")
    async def careless(process: Process, input: Any) -> Any:
        await process.step("parse", int, "12a")

    @agent("picky")
    async def picky(process: Process, input: Any) -> Any:
        raise KeyError("no such order")

    for number, (code, kind, line) in enumerate(
        [(careless, "ValueError", 'await process.step("parse", int, "12a")'), (picky, "KeyError", "raise KeyError(")]
    ):
        with pytest.raises((ValueError, KeyError)):
            await node.run(code, f"p-{number}")
        state = (await node.recover(f"p-{number}")).state
        failure = state.failure
        assert failure is not None
        assert (failure.type, failure.where is not None) == (kind, True)
        assert "test_finished_processes.py:" in (failure.where or "")
        assert f"{code.name}: {line}" in (failure.where or "")
        assert type(state).from_bytes(state.to_bytes()).failure == failure


async def test_a_recorded_traceback_begins_with_the_users_own_code(log: MemoryLog, node: Node) -> None:
    """What of Seekpoint called it is the same in every run."""

    @agent("picky")
    async def picky(process: Process, input: Any) -> Any:
        await process.update("a", object())

    with pytest.raises(UnserializableValue):
        await node.run(picky, "p")
    text = bodies(log)[-2].traceback
    files = re.findall(r'File ".*?(\w+\.py)"', text)
    assert (files[0], files[-1]) == (Path(__file__).name, "tagged_json.py")
    assert text.startswith("Traceback (most recent call last):\n")
    whole = ZeroDivisionError("nobody raised it")
    assert frames_from_own_code(whole) is None
    assert traceback_of(whole, Settings(), frames=None) == "ZeroDivisionError: nobody raised it\n"


class Unpaid(Exception):
    """A class of the program's own, which is not registered."""


@pytest.mark.parametrize("kind", [ValueError, Unpaid])
async def test_a_failure_that_is_remembered_names_the_line_that_raised_it(node: Node, kind: type[Exception]) -> None:
    """Not the line that asked for the call again; made again, it names where it is raised now."""
    is_changed = False

    def pay() -> None:
        if is_changed:
            raise kind("no money")  # as the code is now
        raise kind("no money")

    @agent("payer")
    async def payer(process: Process, input: Any) -> None:
        await process.step("pay", pay)

    async def where(**how: Any) -> str:
        with pytest.raises((ValueError, StepFailed), match="no money"):
            await node.run(payer, "p", **how)
        failure = (await node.recover("p")).state.failure
        assert failure is not None
        return failure.where or ""

    first = await where()
    assert first.endswith('pay: raise kind("no money")')
    assert await where() == first
    assert await where() == first
    is_changed = True
    assert await where() == first  # it is not made again
    assert (await where(retry_failed=True)).endswith("# as the code is now")


@pytest.mark.parametrize(("first", "then"), [("no", "no money"), ("no money", "no")])
async def test_a_remembered_failure_is_not_taken_for_another_one(node: Node, first: str, then: str) -> None:
    """Of the same class, with a message that begins alike: it did not come from the line of the newest error."""
    is_second = False

    async def fail(message: str) -> None:
        raise ValueError(message)

    @agent("payer")
    async def payer(process: Process, input: Any) -> None:
        try:
            await process.step("pay", fail, then)
        except ValueError:
            if is_second:
                raise
        raise ValueError(first)

    wheres = []
    for is_second in (False, True):  # the agent reads it
        with pytest.raises(ValueError, match=then if is_second else first):
            await node.run(payer, "p")
        failure = (await node.recover("p")).state.failure
        wheres.append("" if failure is None else failure.where)
    assert "raise ValueError(first)" in (wheres[0] or "")
    assert 'await process.step("pay"' in (wheres[1] or "")
