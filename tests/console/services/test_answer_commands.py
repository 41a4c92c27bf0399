"""What a process is told from the command line, and what the one who tells it hears. On a log in memory."""

from __future__ import annotations

import asyncio
from decimal import Decimal
from typing import Any

import pytest

from console_on_memory import on
from seekpoint.producers import Node, Process, agent
from seekpoint.producers.node import runtime_of
from seekpoint.producers.node_runtime import NodeRuntime
from seekpoint.producers.process import durable_side
from seekpoint.schemas import MemoryLog
from seekpoint.schemas.errors import Cancelled, JournalUnavailable, ProcessFinished, Refused
from seekpoint.schemas.folding.mailbox import MAILBOX_BYTES_MAX, MAILBOX_ITEMS_MAX
from shells import Shell


@agent("asker")
async def asker(process: Process, input: Any) -> Any:
    """Waits for ever."""
    return (await process.gate("refund")).outcome


async def in_doubt(node: Node) -> None:
    """A process whose owner died in the call of an effect."""
    process = await node.open("p")
    effect = asyncio.create_task(process.effect("pay", asyncio.Event().wait, semantics="at_most_once"))
    while not process.state.calls:  # noqa: ASYNC110  # the state tells nobody
        await asyncio.sleep(0.001)
    effect.cancel()
    await asyncio.wait([effect])
    durable_side(process).abandon()


async def fill(node: Node) -> None:
    """The same, and no room in its mailbox."""
    await in_doubt(node)
    await asyncio.gather(*(node.signal("p", "more") for _ in range(MAILBOX_ITEMS_MAX)))


@pytest.mark.parametrize(
    "command",
    [
        ("signal", "p", "go"),
        ("approve", "p", "refund", "--in-advance"),
        ("deny", "p", "refund", "--in-advance"),
    ],
)
def test_a_command_to_a_process_with_a_full_mailbox_is_refused(
    command: tuple[str, ...], seekpoint: Shell, log: MemoryLog
) -> None:
    """Refused, with what to do, instead of a word that it was sent."""
    on(log, fill)
    ran = seekpoint(*command)
    assert (ran.code, "mailbox is full" in ran.err) == (4, True), ran.err
    assert "seekpoint state p" in ran.err


@pytest.mark.parametrize("command", [("cancel", "p"), ("effects", "resolve", "p", "pay:1", "--failed", "lost")])
def test_control_commands_pass_a_full_mailbox(command: tuple[str, ...], seekpoint: Shell, log: MemoryLog) -> None:
    """Room is kept for it beyond the signals'."""
    on(log, fill)
    assert seekpoint(*command).code == 0


@pytest.mark.parametrize("command", [("signal", "p", "go"), ("cancel", "p")])
def test_an_accepted_command_is_reported_as_sent(command: tuple[str, ...], seekpoint: Shell, log: MemoryLog) -> None:
    """Also by a process that was never opened, if that is meant."""

    async def opened(node: Node) -> None:
        async with node.open("p"):
            pass

    on(log, opened)
    assert seekpoint(*command).code == 0
    assert seekpoint("signal", "new", "go", "--in-advance").code == 0


async def test_a_node_raises_where_a_mailbox_does_not_take_a_signal() -> None:
    """It is full, the signal is too large for it, or the process is finished; a control request has room of its own."""
    async with Node.in_memory() as node:
        sent = await node.signal("p", "go")
        assert await node.is_delivered("p", sent)
        async with node.open("p") as process:
            await process.receive("go")
            assert await node.is_delivered("p", sent)
            await asyncio.gather(*(node.signal("p", "more") for _ in range(MAILBOX_ITEMS_MAX)))
            for told in (node.signal("p", "late"), node.approve("p", "late", in_advance=True)):
                with pytest.raises(Refused, match="mailbox is full"):
                    await told
            await node.cancel("p")
            await process.finish()
        for told in (node.signal("p", "late"), node.cancel("p"), node.verdict("p", "pay:1", "failed")):
            with pytest.raises(ProcessFinished, match="nothing reaches it"):
                await told
        assert not await node.is_delivered("nobody", sent)
        with pytest.raises(Refused, match="mailbox is full"):
            await node.signal("new", "large", "x" * (MAILBOX_BYTES_MAX - 80))


@agent("waits")
async def waits(process: Process, _: None) -> str:
    return (await process.receive("go")).name


async def test_a_signal_that_ended_its_process_was_taken() -> None:
    """Whoever looks only then finds a gravestone; the state of that moment tells."""
    log = MemoryLog()
    async with Node.in_memory(log) as owner, Node.in_memory(log) as node:
        run = asyncio.ensure_future(owner.run(waits, "p"))
        recover, port = runtime_of(node).recover, runtime_of(node)

        async def late(*given: Any, **how: Any) -> Any:
            await run
            return await recover(*given, **how)

        port.recover = late  # type: ignore[method-assign]
        assert await node.signal("p", "go")
        assert await run == "go"


def test_a_sent_signal_is_reported_though_its_delivery_is_unknown(
    seekpoint: Shell, log: MemoryLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though nobody can look any more: who is told of an error sends it again."""

    async def gone(*_: object, **how: object) -> bool:
        raise JournalUnavailable("Kafka is gone")

    monkeypatch.setattr(NodeRuntime, "recover", gone)
    assert seekpoint("signal", "p", "go", "--in-advance").code == 0


@pytest.mark.parametrize("command", [("signal", "p", "go"), ("approve", "p", "refund"), ("cancel", "p")])
def test_a_finished_process_accepts_no_command(command: tuple[str, ...], seekpoint: Shell, log: MemoryLog) -> None:
    """It is said to be finished, and nothing is sent."""

    async def finished(node: Node) -> None:
        async with node.open("p") as process:
            await process.finish()

    on(log, finished)
    ends = [log.watermarks(at).high for at in range(2)]
    ran = seekpoint(*command)
    assert (ran.code, "finished" in ran.err) == (4, True), ran.err
    assert [log.watermarks(at).high for at in range(2)] == ends


def test_resolve_settles_only_the_effect_that_was_shown(seekpoint: Shell, log: MemoryLog) -> None:
    """The verdict names the idempotency key: a rewind makes the next call another effect."""
    on(log, in_doubt)
    assert seekpoint("effects", "resolve", "p", "pay:1", "--succeeded", '"seen"').code == 0
    (verdict,) = seekpoint("effects", "show", "p", "pay:1", "--json").json["entries"][1:]
    assert verdict["idempotency_key"] == "p/pay:1"


def test_a_gate_of_a_cancelled_process_accepts_no_answer(seekpoint: Shell, log: MemoryLog) -> None:
    """It is not listed, though it was never answered."""

    async def left(node: Node) -> None:
        run = asyncio.create_task(node.run(asker, "p"))
        while not (await node.recover("p", missing_ok=True)).state.calls:  # noqa: ASYNC110  # a log gives no event
            await asyncio.sleep(0.001)
        run.cancel()
        await asyncio.wait([run])

    async def cancelled(node: Node) -> None:
        await node.cancel("p")
        with pytest.raises(Cancelled):
            await node.run(asker, "p")

    on(log, left)
    assert [gate["key"] for gate in seekpoint("gates", "ls", "p", "--json").json["gates"]] == ["refund:1"]
    on(log, cancelled)
    assert seekpoint("gates", "ls", "p", "--json").json["gates"] == []


async def left_at_a_gate(node: Node) -> None:
    """A process whose owner left it at a gate, with a question."""

    @agent("asker")
    async def asks(process: Process, input: Any) -> Any:
        return await process.gate("refund", prompt={"amount": 12}, timeout=3_600)

    run = asyncio.create_task(node.run(asks, "p"))
    while not (await node.recover("p", missing_ok=True)).state.calls:  # noqa: ASYNC110  # a log gives no event
        await asyncio.sleep(0.001)
    run.cancel()
    await asyncio.wait([run])


def ends(log: MemoryLog) -> list[int]:
    return [log.watermarks(at).high for at in range(2)]


@pytest.mark.parametrize("command", ["approve", "deny", "signal"])
def test_a_mistyped_id_or_gate_is_refused_without_in_advance(command: str, seekpoint: Shell, log: MemoryLog) -> None:
    """With what is open; ``--in-advance`` sends it, and says to what."""
    on(log, left_at_a_gate)
    before = ends(log)
    for process_id, gate, code, said in (("P", "refund", 1, "no such process"), ("p", "refnd", 4, "open=refund:1")):
        ran = seekpoint(command, process_id, gate)
        assert (ran.code, said in ran.err, "--in-advance" in ran.err) == (code, True, True), ran.err
    assert ends(log) == before
    for process_id, gate in (("P", "refund"), ("p", "refnd")):
        ran = seekpoint(command, process_id, gate, "--in-advance")
        assert (ran.code, "sent in advance: no" in ran.err) == (0, True)
        assert f"the next gate (or receive) called {gate} takes it" in ran.err
    assert sum(ends(log)) == sum(before) + 2


def test_an_answered_gate_accepts_no_answer_in_advance(seekpoint: Shell, log: MemoryLog) -> None:
    """By its key, which no later gate has; by its name it is for the next one, as the JSON says."""
    on(log, left_at_a_gate)
    assert seekpoint("approve", "p", "refund").code == 0
    before = ends(log)
    for command in ("approve", "deny", "signal"):
        ran = seekpoint(command, "p", "refund:1", "--in-advance")
        assert (ran.code, "answered already" in ran.err, "called refund: --in-advance" in ran.err) == (4, True, True)
    assert ends(log) == before
    facts = seekpoint("deny", "p", "refund", "--in-advance", "--json").json
    assert (facts["gate"], facts["name"], facts["outcome"]) == (None, "refund", "denied")


def test_gates_show_a_question_as_json(seekpoint: Shell, log: MemoryLog) -> None:
    """What JSON lacks in the journal's notation, in the table as in ``--json``."""

    async def left(node: Node) -> None:
        @agent("payer")
        async def asks(process: Process, input: Any) -> Any:
            return await process.gate("pay", prompt={"amount": Decimal("12.50")})

        run = asyncio.create_task(node.run(asks, "p"))
        while not (await node.recover("p", missing_ok=True)).state.calls:  # noqa: ASYNC110  # a log gives no event
            await asyncio.sleep(0.001)
        run.cancel()
        await asyncio.wait([run])

    on(log, left)
    assert seekpoint("gates", "ls", "p").out.rstrip().endswith(' {"amount":{"$decimal":"12.50"}}')
    answered = seekpoint("approve", "p", "pay", "--json")
    assert answered.json["prompt"] == {"amount": {"$decimal": "12.50"}}
    assert ' asks: {"amount":{"$decimal":"12.50"}};' in answered.err


@pytest.mark.parametrize("command", ["approve", "deny", "signal"])
def test_approve_shows_the_question_and_refuses_a_second_answer(command: str, seekpoint: Shell, log: MemoryLog) -> None:
    """Since when and until when it waits too; the answer goes to the gate's key."""
    on(log, left_at_a_gate)
    first = seekpoint(command, "p", "refund", "--actor", "ann", "--json")
    assert first.code == 0
    assert 'p refund:1 asks: {"amount":12}; it waits from 20' in first.err
    facts = first.json
    assert (facts["gate"], facts["name"], facts["prompt"], facts["actor"]) == (
        "refund:1", "refund", {"amount": 12}, "ann"
    )  # fmt: skip
    assert facts["since"] < facts["deadline"]
    before = ends(log)
    for again in ("approve", "deny", "signal"):
        second = seekpoint(again, "p", "refund")
        assert (second.code, "answered already" in second.err, "actor=ann" in second.err) == (4, True, True)
        assert f"outcome={facts['outcome']}, " in second.err
        assert ", at=20" in second.err
    assert ends(log) == before


def test_a_signal_without_a_waiting_gate_goes_to_the_mailbox(seekpoint: Shell, log: MemoryLog) -> None:
    """Nobody can tell what its code receives."""

    async def opened(node: Node) -> None:
        async with node.open("p"):
            pass

    on(log, opened)
    ran = seekpoint("signal", "p", "go", "--json")
    assert (ran.code, ran.json["gate"], "waits until the code receives it" in ran.err) == (0, None, True)
    assert seekpoint("approve", "p", "go").code == 4


def test_a_finished_process_accepts_no_answer_in_advance(seekpoint: Shell, log: MemoryLog) -> None:
    """Though the gate that was meant is one that it once had."""

    async def finished(node: Node) -> None:
        await node.signal("p", "refund", True)
        await node.run(asker, "p")

    on(log, finished)
    before = ends(log)
    for command in ("approve", "deny", "signal"):
        ran = seekpoint(command, "p", "refund", "--in-advance")
        assert (ran.code, "the process is finished" in ran.err) == (4, True)
    assert ends(log) == before
