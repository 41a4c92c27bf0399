"""The commands about agents' runs: what they print, as JSON too, and what they exit with. On a log in memory."""

from __future__ import annotations

import asyncio
import http.server
import json
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from seekpoint.console.agents import patience_s
from seekpoint.consumers.deadletters import DeadLetters
from seekpoint.consumers.recoverer import Recoverer
from seekpoint.producers import Agent, Node, Process, Retry, agent
from seekpoint.producers.durable.prices import Prices
from seekpoint.schemas import MemoryLog
from seekpoint.schemas.partition import partition_of
from seekpoint.schemas.settings import Settings
from shells import Ran, Shell

AGENT = """
from pathlib import Path
from seekpoint.producers import agent


def touch(name):
    Path(name).touch()
    return name


@agent("toucher", 3)
async def touching(process, input):
    return await process.step("touch", touch, input["name"])


@agent("toucher", 4)
async def changed(process, input):
    return await process.step("touch", touch, input["name"] + "-2")


@agent("breaker")
async def breaking(process, input):
    raise ValueError("no such order")


async def plain(process, input):
    return None
"""


class OnMemory:
    """A target whose journal is in memory."""

    config = None

    def __init__(self, log: MemoryLog) -> None:
        self.log = log
        self.settings = Settings(redis_url=None)
        self.recoverer = Recoverer(log, DeadLetters(log, self.settings))

    def require_kafka(self) -> Settings:
        return self.settings

    def scrub(self, text: str) -> str:
        return text

    def close(self) -> None:
        """Nothing to give up."""


@pytest.fixture
def log() -> MemoryLog:
    return MemoryLog(partitions=2)


@pytest.fixture
def move_to(monkeypatch: pytest.MonkeyPatch) -> Callable[[MemoryLog], None]:
    """``move_to(log)``: from here on the commands work on it."""

    def move(log: MemoryLog) -> None:
        monkeypatch.setattr("seekpoint.console.commands.Target", lambda **_: OnMemory(log))
        monkeypatch.setattr(Node, "connect", lambda settings: Node.in_memory(log))

    return move


@pytest.fixture
def seekpoint(
    shell: Shell, log: MemoryLog, move_to: Callable[[MemoryLog], None], monkeypatch: pytest.MonkeyPatch
) -> Shell:
    """``seekpoint("steps", "p")`` on the log, with an agent's module in the folder."""
    move_to(log)
    Path("touching.py").write_text(AGENT)
    monkeypatch.delitem(sys.modules, "touching", raising=False)
    return shell


def on(log: MemoryLog, work: Callable[[Node], Any]) -> Any:
    """Do ``work`` with a node on the log."""

    async def run() -> Any:
        async with Node.in_memory(log) as node:
            node.prices = Prices({"m": {"input": "1000000", "output": "0"}})
            return await work(node)

    return asyncio.run(run())


def ask(request: Any) -> Any:
    return {"model": "m", "content": "yes", "usage": {"input_tokens": 3, "output_tokens": 1}}


class Flaky:
    """Fails at first."""

    def __init__(self) -> None:
        self.runs = 0

    def __call__(self, order: str) -> str:
        self.runs += 1
        if self.runs == 1:
            raise ValueError("at first")
        return f"{order} paid"


def chatter() -> Agent:
    """An agent with nested calls, decisions that share messages, two turns and a step that is tried twice."""

    @agent("chatter", "7")
    async def run(process: Process, input: Any) -> Any:
        await process.set_budget({"usd": "10", "model_calls": 20}, a_day={"tokens": 1000})
        messages: list[Any] = [{"role": "system", "content": "be brief"}]
        async for turn in process.turns():

            async def lookup() -> Any:
                return await process.step("inner", str.upper, "a")

            await process.step("lookup", lookup)
            messages.append({"role": "user", "content": f"question {turn.number}"})
            await process.decide("answer", ask, {"model": "m", "messages": list(messages)})
            if turn.number == 2:
                break
        return await process.step("pay", Flaky(), "o-1", retry=Retry(attempts=2, backoff_s=0.001))

    return run


# --- steps
def test_steps_shows_every_call_of_every_turn(seekpoint: Shell, log: MemoryLog) -> None:
    """From the journal: the state has forgotten those of turns that are over, and a finished process all."""
    on(log, lambda node: node.run(chatter(), "p"))
    calls = seekpoint("steps", "p", "--json").json["calls"]
    keys = [call["key"] for call in calls]
    assert keys == [
        *("budget:1", "1/lookup:1", "1/lookup:1/inner:1", "1/answer:1"),
        *("2/lookup:1", "2/lookup:1/inner:1", "2/answer:1", "2/pay:1"),
    ]
    pay, answer = calls[-1], calls[-2]
    assert (pay["kind"], pay["status"], pay["output"], pay["input"]) == ("step", "succeeded", "o-1 paid", ["o-1"])
    assert [one["outcome"] for one in pay["attempts"]] == ["retry", "succeeded"]
    assert pay["attempts"][0]["error"]["message"] == "at first"
    assert (answer["cost_usd"], answer["model"], answer["policy"], answer["turn"]) == ("3", "m", "7", 2)
    assert [message["content"] for message in answer["input"]["messages"]] == ["be brief", "question 1", "question 2"]
    assert answer["usage"] == {"input_tokens": 3, "output_tokens": 1}
    shown = seekpoint("steps", "p").out.splitlines()
    assert shown[0].split() == ["call", "kind", "status", "attempts", "took", "usd", "input", "output"]
    assert len(shown) == len(calls) + 1


def test_steps_of_nobody_and_of_a_trimmed_history(seekpoint: Shell, log: MemoryLog) -> None:
    """No such process is 1; so is one whose beginning is gone: nobody could tell which entries count."""
    assert seekpoint("steps", "nobody").code == 1
    on(log, lambda node: node.run(chatter(), "p"))
    log.trim(partition_of(b"p", 2), 3)
    for command in (("steps", "p"), ("trace", "p"), ("export", "--dataset", "d.jsonl", "p"), ("export", "p", "p.spk")):
        found = seekpoint(*command)
        assert (found.code, "the beginning of the history is gone" in found.err) == (1, True), command
    assert not Path("d.jsonl").exists()
    assert not list(Path().glob("*.part"))


# --- export, import, data set
def test_an_exported_process_is_imported_as_it_was(
    seekpoint: Shell, log: MemoryLog, move_to: Callable[[MemoryLog], None]
) -> None:
    """Under its id in another journal, under another one in the same: the same content, the same result."""
    on(log, lambda node: node.run(chatter(), "p"))
    first = on(log, lambda node: node.recover("p")).state
    assert seekpoint("export", "p", "p.spk", "--json").json["records"] == first.seq + 1
    refused = seekpoint("import", "p.spk", "--as", "q")
    assert refused.code == 0
    copy = on(log, lambda node: node.recover("q")).state
    assert (copy.result, copy.seq, copy.content_hash) == (first.result, first.seq, first.content_hash)
    other = MemoryLog(partitions=7)
    move_to(other)
    assert seekpoint("import", "p.spk", "--json").json == {"process_id": "p", "entries": first.seq + 1, "known": 0}
    assert on(other, lambda node: node.recover("p")).state.hash == first.hash
    assert seekpoint("steps", "p", "--json").json["calls"][-1]["output"] == "o-1 paid"


def test_an_import_goes_on_and_never_mixes(
    seekpoint: Shell, log: MemoryLog, move_to: Callable[[MemoryLog], None]
) -> None:
    """What an interrupted one had appended counts; an id that somebody used is refused."""
    on(log, lambda node: node.run(chatter(), "p"))
    seekpoint("export", "p", "p.spk")
    other, key = MemoryLog(partitions=1), b"p"
    partition = partition_of(key, 2)
    for batch in log.read(partition, 0, 5, {key}):
        for record in batch.records:
            other.append(0, record.key, record.value)
    move_to(other)
    found = seekpoint("import", "p.spk", "--json").json
    assert found["known"] == 5
    assert seekpoint("import", "p.spk", "--json").json["entries"] == 0
    assert on(other, lambda node: node.recover("p")).state.result == "o-1 paid"

    async def use(node: Node) -> None:
        async with node.open("used"):
            pass

    on(other, use)
    refused = seekpoint("import", "p.spk", "--as", "used")
    assert (refused.code, "the id is used" in refused.err) == (4, True)


def test_an_export_that_is_none_is_refused(seekpoint: Shell, log: MemoryLog) -> None:
    """Nothing is appended for bytes that are no process."""
    Path("junk.spk").write_bytes(b"junk")
    assert seekpoint("import", "junk.spk").code == 4
    assert seekpoint("import", "missing.spk").code == 4
    assert seekpoint("export", "nobody", "n.spk").code == 1
    assert not Path("n.spk").exists()
    assert seekpoint("export", "p").code == 2
    assert log.watermarks(0).high == log.watermarks(1).high == 0


def test_decisions_become_a_data_set(seekpoint: Shell, log: MemoryLog) -> None:
    """A line each: the whole request, though the journal keeps what it shares with the one before only once."""

    async def two(node: Node) -> None:
        await node.run(chatter(), "p")
        await node.run(chatter(), "q")
        async with node.open("without"):
            pass

    on(log, two)
    assert seekpoint("export", "--dataset", "one.jsonl", "p", "--json").json == {"file": "one.jsonl", "decisions": 2}
    rows = [json.loads(line) for line in Path("one.jsonl").read_text().splitlines()]
    assert [(row["process"], row["key"]) for row in rows] == [("p", "1/answer:1"), ("p", "2/answer:1")]
    last = rows[-1]
    assert [message["content"] for message in last["request"]["messages"]] == ["be brief", "question 1", "question 2"]
    assert last["response"]["content"] == "yes"
    assert (last["model"], last["policy"], last["cost_usd"]) == ("m", "7", "3")
    assert last["usage"] == {"input_tokens": 3, "output_tokens": 1}
    assert seekpoint("export", "--dataset", "all.jsonl", "--all").code == 0
    everybodys = [json.loads(line)["process"] for line in Path("all.jsonl").read_text().splitlines()]
    assert sorted(everybodys) == ["p", "p", "q", "q"]
    assert seekpoint("export", "--dataset", "none.jsonl").code == 2


# --- trace
def test_a_trace_is_nested_and_always_the_same(seekpoint: Shell, log: MemoryLog) -> None:
    """Process, turn, call, the calls in its body; ids come from the entries."""
    on(log, lambda node: node.run(chatter(), "p"))
    document = seekpoint("trace", "p", "--json").json
    assert seekpoint("trace", "p", "--json").json == document
    spans = document["resourceSpans"][0]["scopeSpans"][0]["spans"]
    by_id = {span["spanId"]: span for span in spans}
    assert len(by_id) == len(spans) == 1 + 2 + 8
    assert len({span["traceId"] for span in spans}) == 1
    assert {len(span["traceId"]) for span in spans} == {32}
    inner = next(span for span in spans if span["name"] == "step inner")
    path = [inner["name"]]
    while inner["parentSpanId"]:
        inner = by_id[inner["parentSpanId"]]
        path.append(inner["name"])
    assert path == ["step inner", "step lookup", "turn 1", "chatter p"]
    pay = next(span for span in spans if span["name"] == "step pay")
    assert [event["name"] for event in pay["events"]] == ["attempt 1", "attempt 2"]
    assert int(pay["endTimeUnixNano"]) > int(pay["startTimeUnixNano"]) > 10**18
    answer = next(span for span in spans if span["name"] == "decision answer")
    told = {one["key"]: one["value"] for one in answer["attributes"]}
    assert told["gen_ai.usage.input_tokens"] == {"intValue": "3"}
    assert told["seekpoint.cost_usd"] == {"stringValue": "3"}
    lines = seekpoint("trace", "p").out.splitlines()
    assert lines[0].startswith("chatter p")
    assert any(line.startswith("      step inner") for line in lines)


def test_invocations_hold_the_calls_made_in_them(seekpoint: Shell, log: MemoryLog) -> None:
    """Where there are no turns."""

    async def work(node: Node) -> None:
        async with node.open("p") as process:
            await process.step("before", str, 0)
            async with process.invocation("message"):
                await process.step("a", str, 1)

    on(log, work)
    spans = seekpoint("trace", "p", "--json").json["resourceSpans"][0]["scopeSpans"][0]["spans"]
    parents = {span["name"]: span["parentSpanId"] for span in spans}
    ids = {span["name"]: span["spanId"] for span in spans}
    assert parents["step a"] == ids["invocation message"]
    assert parents["step before"] == ids["p"] == parents["invocation message"]


@pytest.fixture
def collector() -> Iterator[tuple[str, list[Any]]]:
    """Where traces are taken: its address, and (path, document) of each."""
    taken: list[Any] = []

    class Take(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            taken.append((self.path, json.loads(self.rfile.read(int(self.headers["Content-Length"])))))
            self.send_response(200 if "v1" in self.path else 404)
            self.end_headers()

        def log_message(self, *what: Any) -> None:
            """Quiet."""

    with http.server.HTTPServer(("127.0.0.1", 0), Take) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", taken
        server.shutdown()
        thread.join()


def test_a_trace_is_sent_to_a_collector(seekpoint: Shell, log: MemoryLog, collector: tuple[str, list[Any]]) -> None:
    """OTLP over HTTP as JSON; one that does not take it is 3."""
    on(log, lambda node: node.run(chatter(), "p"))
    url, taken = collector
    assert seekpoint("trace", "p", "--otlp", url).code == 0
    assert taken == [("/v1/traces", seekpoint("trace", "p", "--json").json)]
    assert seekpoint("trace", "p", "--otlp", f"{url}/elsewhere").code == 3
    assert seekpoint("trace", "p", "--otlp", "file:///etc/passwd").code == 3


# --- budgets
def test_a_budget_is_shown_and_raised(seekpoint: Shell, log: MemoryLog) -> None:
    """The run's and the day's; who raised it stands in the journal."""
    stopper = chatter()

    async def work(node: Node) -> None:
        async with node.open("p") as process:
            await process.set_budget({"usd": "10"}, a_day={"tokens": 1000})
            await process.decide("answer", ask, {"model": "m"})
        async with node.open("free"):
            pass

    assert stopper.name == "chatter"
    on(log, work)
    found = seekpoint("budget", "show", "p", "--json").json
    assert found["run"]["usd"] == {"limit": "10", "spent": "3", "reserved": "0", "left": "7"}
    assert found["of_day"]["tokens"]["left"] == "996"
    assert (found["on_exceed"], found["warn_at"]) == ("fail", "0.8")
    assert "usd" in seekpoint("budget", "show", "p").out
    raised = seekpoint("budget", "raise", "p", "usd", "12.50", "--by", "ann", "--json").json
    assert raised["run"]["usd"]["left"] == "9.50"
    assert seekpoint("budget", "raise", "p", "tokens", "5000", "--day").code == 0
    assert seekpoint("budget", "show", "p", "--json").json["of_day"]["tokens"]["limit"] == "5000"
    noted = on(log, lambda node: _noted(node))
    assert [(body.dimension, body.scope, body.actor) for body in noted] == [
        ("usd", "run", "ann"), ("tokens", "day", None)
    ]  # fmt: skip
    assert seekpoint("budget", "raise", "p", "coins", "1").code == 2
    assert seekpoint("budget", "raise", "free", "usd", "1").code == 4
    assert seekpoint("budget", "show", "free").code == 4
    assert seekpoint("budget", "raise", "nobody", "usd", "1").code == 1


async def _noted(node: Node) -> list[Any]:
    bodies = [one.entry.body async for one in node.entries("p", kinds=["budget_noted"])]
    return [body for body in bodies if getattr(body, "kind", None) == "raised"]


def test_a_budget_is_not_raised_behind_a_living_owner(seekpoint: Shell, log: MemoryLog) -> None:
    """He would be fenced in the middle of his work."""

    async def work(node: Node) -> Ran:
        async with node.open("p") as process:
            await process.set_budget({"usd": "10"})
            return await asyncio.to_thread(seekpoint, "budget", "raise", "p", "usd", "12")

    refused = on(log, work)
    assert (refused.code, "owner" in refused.err) == (4, True)


# --- run and replay-check
def test_an_agent_is_run_and_its_history_checked(seekpoint: Shell, log: MemoryLog) -> None:
    """``run`` does, ``replay-check`` does nothing; changed code is 1."""
    ran = seekpoint("run", "p", "--agent", "touching:touching", "--input", '{"name": "made"}')
    assert (ran.code, ran.json) == (0, "made")
    Path("made").unlink()
    assert seekpoint("run", "p", "--agent", "touching:touching", "--json").json == {"process_id": "p", "result": "made"}
    same = seekpoint("replay-check", "p", "--agent", "touching:touching")
    assert (same.code, same.out) == (0, "p: 1 call replayed, to the result\n")
    other = seekpoint("replay-check", "p", "--agent", "touching:changed")
    assert other.code == 1
    assert "kind        input\nkey         touch:1\n" in other.out
    assert "recorded by toucher 3, checked with 4" in other.err
    found = seekpoint("replay-check", "p", "--agent", "touching:changed", "--json")
    assert (found.code, found.json["ok"], found.json["divergence"]["key"]) == (1, False, "touch:1")
    assert not list(Path().glob("made*"))


def test_an_agent_that_fails_is_told_as_such(seekpoint: Shell, log: MemoryLog) -> None:
    """As its own failure, not as a fault of Seekpoint's; it is recorded, and the check ends there."""
    failed = seekpoint("run", "p", "--agent", "touching:breaking")
    assert (failed.code, "the agent failed: ValueError: no such order" in failed.err) == (1, True)
    assert "report" not in failed.err
    assert on(log, lambda node: node.recover("p")).state.lifecycle == "failed"
    assert "to the recorded failure" in seekpoint("replay-check", "p", "--agent", "touching:breaking").out


def test_an_export_is_checked_without_a_journal(
    seekpoint: Shell, log: MemoryLog, move_to: Callable[[MemoryLog], None]
) -> None:
    """So a build needs no way to production."""
    seekpoint("run", "p", "--agent", "touching:touching", "--input", '{"name": "made"}')
    seekpoint("export", "p", "p.spk")
    move_to(MemoryLog(partitions=1))
    assert seekpoint("replay-check", "--history", "p.spk", "--agent", "touching:touching").code == 0
    assert seekpoint("replay-check", "--history", "p.spk", "--agent", "touching:changed").code == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ("--agent", "touching"),
        ("--agent", "nowhere:run"),
        ("--agent", "touching:nothing"),
        ("--agent", "touching:plain"),
    ],
)
def test_what_is_no_agent_is_told(seekpoint: Shell, arguments: tuple[str, ...]) -> None:
    """As a mistake on the command line."""
    for command in ("run", "replay-check"):
        found = seekpoint(command, "p", *arguments)
        assert (found.code, "--agent" in found.err) == (2, True)


def test_mistakes_on_the_line_are_told(seekpoint: Shell) -> None:
    """Before anything is done."""
    given = ("--agent", "touching:touching")
    assert seekpoint("run", "p", *given, "--input", "{no json").code == 2
    assert seekpoint("replay-check", *given).code == 2
    assert seekpoint("replay-check", "p", "--history", "p.spk", *given).code == 2
    assert seekpoint("replay-check", "p", *given, "--detail", "some").code == 2
    assert seekpoint("replay-check", "nobody", *given).code == 1


def test_a_run_waits_until_a_killed_owner_is_seen_to_be_dead() -> None:
    """The README kills a run and starts it again at once: with a shorter wait, that would be refused."""
    settings = Settings()
    assert patience_s(settings) > settings.owner_timeout_s + settings.heartbeat_interval_s
