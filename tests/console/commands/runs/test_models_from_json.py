"""``--input`` and ``--payload`` as JSON, checked against the models of an agent. On a log in memory."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from console_on_memory import on
from seekpoint.producers import Client
from seekpoint.schemas import MemoryLog
from shells import Shell

MODULE = """
from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from seekpoint import Process, agent


@dataclass
class Order:
    number: int
    amount: Decimal = Decimal("1.10")


@agent("refund")
async def refund(process: Process, order: Order) -> Order:
    assert type(order) is Order
    return Order(order.number + 1, order.amount)


@agent("receives")
async def receives(process: Process, _given: None) -> int:
    return (await process.receive("order", type=Order)).payload.number
"""


@pytest.fixture(autouse=True)
def _module(log: MemoryLog, write_module: Callable[[str, str], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """The agents lie in the folder, and clients work on the log of the test."""
    write_module("refunds", MODULE)
    monkeypatch.setattr(Client, "connect", lambda settings: Client.in_memory(log))


def test_run_takes_and_prints_a_model(seekpoint: Shell) -> None:
    """The result is printed as the journal has it; a text becomes the Decimal that the model names."""
    ran = seekpoint("run", "p", "--agent", "refunds:refund", "--input", '{"number": 5, "amount": "2.50"}')
    assert (ran.code, ran.json) == (0, {"number": 6, "amount": {"$decimal": "2.50"}})
    again = seekpoint("run", "p", "--agent", "refunds:refund", "--json")
    assert again.json == {"process_id": "p", "result": ran.json}


@pytest.mark.parametrize(
    ("text", "path", "reason"),
    [
        ('{"number": "5"}', "$.number", "Expected `int`, got `str`"),
        ('{"number": 5, "amuont": "1"}', "$.amuont", "did you mean 'amount'?"),
        ("null", "$", "Expected `object`, got `null`"),
    ],
)
def test_an_input_that_does_not_fit_is_refused(
    seekpoint: Shell, log: MemoryLog, text: str, path: str, reason: str
) -> None:
    """With the path and the reason, and exit code 2; nothing is written. ``submit`` checks with ``-m``."""
    for how in (["run", "p", "--agent", "refunds:refund"], ["submit", "p", "--agent", "refund", "-m", "refunds"]):
        ran = seekpoint(*how, "--input", text)
        assert (ran.code, ran.out) == (2, "")
        assert "the input of refund does not fit Order" in " ".join(ran.err.split())
        assert path in ran.err
        assert reason in " ".join(ran.err.split())
    failed = seekpoint("run", "p", "--agent", "refunds:refund", "--input", text, "--json")
    assert failed.code == 2
    assert '"path":"$' in failed.err + failed.out
    assert not on(log, lambda node: node.recover("p", missing_ok=True)).known


def test_a_checked_submission_is_sent(seekpoint: Shell) -> None:
    """As it was given. A module without the agent is an error of the command line."""
    ran = seekpoint("submit", "p", "--agent", "refund", "-m", "refunds", "--input", '{"number": 5}')
    assert (ran.code, ran.out) == (0, "p\n")
    other = seekpoint("submit", "p", "--agent", "other", "-m", "refunds")
    assert (other.code, "refunds has no agent 'other'" in other.err) == (2, True)


def test_a_rerun_checks_its_input_and_prints_models(seekpoint: Shell) -> None:
    """``rerun --input`` too."""
    assert seekpoint("run", "p", "--agent", "refunds:refund", "--input", '{"number": 5}').code == 0
    ran = seekpoint("rerun", "p", "--agent", "refunds:refund", "--input", '{"number": 7}')
    assert (ran.code, '{"amount":{"$decimal":"1.10"},"number":8}' in ran.out) == (0, True), ran.out + ran.err
    wrong = seekpoint("rerun", "p", "--agent", "refunds:refund", "--input", "[]")
    assert (wrong.code, "does not fit Order" in wrong.err) == (2, True)


def test_a_payload_from_the_command_line_is_a_model(seekpoint: Shell) -> None:
    """The code that receives it checks it."""
    sent = seekpoint("signal", "p", "order", "--payload", '{"number": 7}', "--in-advance")
    assert sent.code == 0, sent.err
    ran = seekpoint("run", "p", "--agent", "refunds:receives", "--new")
    assert (ran.code, ran.json) == (0, 7)
