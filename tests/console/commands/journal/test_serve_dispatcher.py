"""``seekpoint serve dispatcher``: the connectors it is given, and on a real Kafka what it calls, how often, and when it
is killed or told to stop."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from agent_programs import environment, until
from seekpoint.compose import create_topics_sync
from seekpoint.console.services.daemons.dispatcher_service import DispatcherHealth, dispatcher_families, load_connectors
from seekpoint.consumers.heartbeats.health_port import HealthPort
from seekpoint.producers import Dispatcher, Node, connectors
from seekpoint.schemas.config.settings import Settings
from shells import Shell

SHOP = """
import os, time
from pathlib import Path
from seekpoint.producers import Answer, Connector, Effect, agent, connectors

CALLS = Path("calls.txt")


def pay(amount, *, idempotency_key):
    with CALLS.open("a") as calls:
        calls.write(f"{idempotency_key} by {os.environ.get('SHOP', 'an owner')}\\n")
    time.sleep(float(os.environ.get("SHOP_TAKES_S", "0")))
    return f"paid {amount}"


def find(amount, *, idempotency_key):
    return Answer.SUCCEEDED if idempotency_key in CALLS.read_text() else Answer.ABSENT


bank = connectors.register(Connector("bank", pay, reconcile=find, outbox=True))
inline = Connector("inline", pay)


@agent("buyer")
async def buy(process, semantics):
    await process.effect("pay", None, 5, connector="bank", semantics=semantics)
    return process.state.calls["pay:1"].status
"""


DEAF = """
import asyncio
from contextlib import suppress
from seekpoint.producers import Connector, agent, connectors
from shop import pay


async def deaf(amount, *, idempotency_key):
    pay(amount, idempotency_key=idempotency_key)
    while True:
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(600)


bank = connectors.register(Connector("deaf", deaf, outbox=True))


@agent("buyer")
async def buy(process, semantics):
    await process.effect("pay", None, 5, connector="deaf", semantics=semantics)
"""


@pytest.fixture(autouse=True)
def _forgotten(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What the modules of a test register and load is gone with it."""
    monkeypatch.setattr(connectors, "_connectors", {})
    yield
    for module in ("shop", "till", "broken", "bad"):
        sys.modules.pop(module, None)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("shop", "is not MODULE:NAME"),
        ("nowhere:x", "there is no module nowhere in"),
        ("shop:nothing", "no attribute 'nothing'"),
        ("shop:pay", "is a function, not Connectors or a Connector"),
        ("shop:inline", "no connector with outbox=True there: found inline"),
        ("broken:x", "cannot be imported: ZeroDivisionError"),
        ("bad:x", "a connector calls at least once"),
    ],
)
def test_an_object_that_is_not_a_connector_is_refused(
    name: str, said: str, shell: Shell, write_module: Callable[[str, str], None]
) -> None:
    """Before anything is connected: one line, and exit code 2; also where their module itself fails."""
    write_module("shop", SHOP)
    write_module("broken", "1 / 0")
    write_module("bad", "from seekpoint.producers import Connector\nx = Connector('x', max_attempts=0)")
    ran = shell("serve", "dispatcher", "--connectors", name)
    assert (ran.code, said in ran.err) == (2, True), ran.err
    assert ran.err.count("\n") == 1
    assert "Traceback" not in ran.err


def test_a_dispatcher_without_connectors_is_refused(shell: Shell) -> None:
    """It would call nothing, and say nothing."""
    ran = shell("serve", "dispatcher")
    assert (ran.code, "--connectors" in ran.err) == (2, True)


def test_connectors_of_several_modules_are_one_table(
    write_module: Callable[[str, str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same one twice is fine, two of one name are not."""
    monkeypatch.syspath_prepend(str(Path.cwd()))
    write_module("till", SHOP.replace('"bank"', '"till"').replace('"inline"', '"bank"'))
    write_module("shop", SHOP)
    known = load_connectors(["shop:bank", "shop:connectors", "till:bank"])
    assert {one.name for one in known} == {"bank", "till"}
    with pytest.raises(Exception, match="two connectors are called 'bank'"):
        load_connectors(["shop:bank", "till:inline"])


async def test_a_dispatcher_is_healthy_while_it_reads_to_the_end() -> None:
    """A dispatcher that reads to the end is well while its calls take long; one that cannot read is not."""
    async with Node.in_memory() as node:
        dispatcher = Dispatcher(node, poll_s=0.01)
        now = [0.0]
        health = DispatcherHealth(dispatcher)
        health._clock = lambda: now[0]
        health.progress()
        await dispatcher.catch_up()
        dispatcher._due[0, 0] = None  # type: ignore[assignment]  # an intent under way, however long
        now[0] = 100.0
        health.look()
        assert (health.is_well, health.lag) == (True, 1)
        now[0] = 131.0
        health.look()
        assert not health.is_well, "nothing was looked at since"
        with HealthPort("127.0.0.1", 0, health, lambda: dispatcher_families(health)) as served:
            text = await asyncio.to_thread(page, served.port, "/metrics")
    assert "seekpoint_dispatcher_waiting_intents 1.0" in text
    assert "seekpoint_dispatcher_stalled_seconds 31.0" in text


def page(port: int, path: str) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=60) as answer:
        return str(answer.read().decode())


# --- on Kafka ---------------------------------------------------------------------------------------------------------
class Program:
    """The command as a process of its own; what it said, and what it printed."""

    def __init__(self, settings: Settings, folder: Path, *arguments: str, **environ: str) -> None:
        self._said = folder / f"{len([*folder.iterdir()])}.err"
        with self._said.open("wb") as err:
            self.popen = subprocess.Popen(
                [sys.executable, "-m", "seekpoint.console", *arguments],
                cwd=folder, env=environment(settings) | environ, stdout=subprocess.PIPE, stderr=err, text=True,
            )  # fmt: skip

    @property
    def said(self) -> str:
        """All of its stderr so far."""
        return self._said.read_text()

    def result(self) -> object:
        """What it printed, once it ended well."""
        out, _ = self.popen.communicate(timeout=240)
        assert self.popen.returncode == 0, self.said
        return json.loads(out)


@contextmanager
def programs() -> Iterator[list[Program]]:
    """Those put into this list are killed at the end, whatever happens."""
    running: list[Program] = []
    try:
        yield running
    finally:
        for program in running:
            program.popen.kill()
            program.popen.communicate()


@pytest.fixture
def shop(journal: Settings, tmp_path: Path) -> tuple[Callable[..., Program], Callable[[], list[str]]]:
    """Start a command in the shop's folder; and the calls that were made, in order."""
    (tmp_path / "shop.py").write_text(SHOP)
    (tmp_path / "calls.txt").touch()
    settings = replace(journal, owner_timeout_s=2.0, heartbeat_interval_s=0.3)
    create_topics_sync(settings)

    def start(*arguments: str, **environ: str) -> Program:
        return Program(settings, tmp_path, *arguments, **environ)

    return start, lambda: (tmp_path / "calls.txt").read_text().splitlines()


DISPATCHER = ("serve", "dispatcher", "--connectors", "shop:connectors")


@pytest.mark.cluster
def test_serve_dispatcher_calls_an_effect_of_an_agent_once(
    shop: tuple[Callable[..., Program], Callable[[], list[str]]],
) -> None:
    """The agent's own process only knows the connector. SIGTERM lets a call end that is under way, and tells it."""
    start, calls = shop
    with programs() as running:
        first = start("run", "order-1", "--agent", "shop:buy", "--input", '"at_most_once"')
        served = start(*DISPATCHER, "--health-port", "0", SHOP="one")
        running += [first, served]
        assert first.result() == "succeeded"
        port = int(str(until(lambda: served.said.partition("/healthz")[0], 120)).rpartition(":")[2])
        assert json.loads(page(port, "/healthz"))["ok"] is True
        assert "seekpoint_dispatcher_outcomes_total 1.0" in page(port, "/metrics")
        served.popen.send_signal(signal.SIGTERM)
        assert served.popen.wait(120) == 0
        assert "stopped; 1 outcome recorded" in served.said
        second = start("run", "order-2", "--agent", "shop:buy", "--input", '"at_most_once"')
        slow = start(*DISPATCHER, SHOP="two", SHOP_TAKES_S="3")
        running += [second, slow]
        until(lambda: len(calls()) == 2, 120, lambda: slow.said)
        slow.popen.send_signal(signal.SIGINT)
        assert slow.popen.wait(120) == 0
        assert "stopped; 1 outcome recorded" in slow.said
        assert second.result() == "succeeded"
        assert calls() == ["order-1/pay:1 by one", "order-2/pay:1 by two"]


@pytest.mark.cluster
def test_a_call_longer_than_the_grace_period_is_interrupted(
    shop: tuple[Callable[..., Program], Callable[[], list[str]]],
) -> None:
    """A plain function in a thread cannot be stopped: the program ends all the same; the next one finds it in doubt."""
    start, calls = shop
    with programs() as running:
        owner = start("run", "order-1", "--agent", "shop:buy", "--input", '"at_most_once"')
        served = start(*DISPATCHER, "--grace", "0.3", SHOP="one", SHOP_TAKES_S="600")
        running += [owner, served]
        until(lambda: len(calls()) == 1, 120, lambda: served.said)
        served.popen.send_signal(signal.SIGTERM)
        assert served.popen.wait(120) == 0
        assert "1 call interrupted" in served.said
        running.append(start(*DISPATCHER, SHOP="two"))
        assert owner.result() == "succeeded", "the reconciler found it"
        assert calls() == ["order-1/pay:1 by one"]


@pytest.mark.cluster
def test_a_second_signal_ends_the_dispatcher_during_a_call(
    shop: tuple[Callable[..., Program], Callable[[], list[str]]], tmp_path: Path
) -> None:
    """The first one waits for the grace; a call that does not heed that it is cancelled does not keep the program."""
    start, calls = shop
    (tmp_path / "deaf.py").write_text(DEAF)
    with programs() as running:
        running.append(start("run", "order-1", "--agent", "deaf:buy", "--input", '"at_most_once"'))
        served = start("serve", "dispatcher", "--connectors", "deaf:bank", "--grace", "600")
        running.append(served)
        until(lambda: len(calls()) == 1, 120, lambda: served.said)
        served.popen.send_signal(signal.SIGTERM)
        with pytest.raises(subprocess.TimeoutExpired):
            served.popen.wait(1)
        served.popen.send_signal(signal.SIGTERM)
        assert served.popen.wait(120) == 0
        assert "1 call interrupted" in served.said


@pytest.mark.cluster
@pytest.mark.parametrize(
    ("semantics", "called"),
    [
        ("at_most_once", ["order-1/pay:1 by one"]),
        ("idempotent", ["order-1/pay:1 by one", "order-1/pay:1 by two"]),
    ],
)
def test_another_dispatcher_takes_over_after_kill_9_between_claim_and_outcome(
    semantics: str, called: list[str], shop: tuple[Callable[..., Program], Callable[[], list[str]]]
) -> None:
    """At most once: found by the reconciler, not called again. Idempotent: called again, with the same key."""
    start, calls = shop
    with programs() as running:
        owner = start("run", "order-1", "--agent", "shop:buy", "--input", json.dumps(semantics))
        doomed = start(*DISPATCHER, SHOP="one", SHOP_TAKES_S="600")
        running += [owner, doomed]
        until(lambda: len(calls()) == 1, 120, lambda: doomed.said)
        doomed.popen.kill()
        running.append(start(*DISPATCHER, SHOP="two"))
        assert owner.result() == "succeeded"
        assert calls() == called


@pytest.mark.cluster
def test_serve_dispatcher_needs_a_journal(
    settings: Settings,
    shell: Shell,
    point_at: Callable[[Settings], None],
    write_module: Callable[[str, str], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No topics: one line and the next command. No Kafka: not reachable."""
    point_at(settings)
    write_module("shop", SHOP)
    ran = shell(*DISPATCHER)
    assert ran.code == 1
    assert "seekpoint topics create" in ran.err
    monkeypatch.setenv("SEEKPOINT_BOOTSTRAP_SERVERS", "127.0.0.1:1")
    assert shell(*DISPATCHER).code == 3
