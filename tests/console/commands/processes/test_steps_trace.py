"""``seekpoint steps | trace``: what an agent's code asked, as rows, JSON and spans. On a log in memory."""

from __future__ import annotations

import http.server
import json
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from console_on_memory import chatter, on
from seekpoint.producers import Node
from seekpoint.schemas import MemoryLog
from seekpoint.schemas.log.partition import partition_of
from shells import Shell


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
    assert pay["started_at_us"] < pay["ended_at_us"]
    assert all(call["duration_us"] >= 0 for call in calls if call["kind"] in ("step", "decision"))
    assert (answer["cost_usd"], answer["model"], answer["policy"], answer["turn"]) == ("3", "m", "7", 2)
    assert [message["content"] for message in answer["input"]["messages"]] == ["be brief", "question 1", "question 2"]
    assert answer["usage"] == {"input_tokens": 3, "output_tokens": 1}
    shown = seekpoint("steps", "p").out.splitlines()
    assert shown[0].split() == ["call", "kind", "status", "attempts", "took", "usd", "input", "output"]
    assert len(shown) == len(calls) + 1


def test_steps_shows_one_call_with_its_whole_request_and_answer(seekpoint: Shell, log: MemoryLog) -> None:
    """However long they are; JSON has this call only, and a call that was never made is refused."""
    on(log, lambda node: node.run(chatter(), "p"))
    shown = seekpoint("steps", "p", "2/answer:1").out
    head, request, answer = re.split("^(?:in|out)put$", shown, flags=re.MULTILINE)
    assert ["kind", "decision"] in [line.split() for line in head.splitlines()]
    assert ["model", "m"] in [line.split() for line in head.splitlines()]
    assert [one["content"] for one in json.loads(request)["messages"]] == ["be brief", "question 1", "question 2"]
    assert json.loads(answer)["content"] == "yes"
    assert [one["key"] for one in seekpoint("steps", "p", "2/answer:1", "--json").json["calls"]] == ["2/answer:1"]
    unknown = seekpoint("steps", "p", "3/answer:1")
    assert (unknown.code, "no such call" in unknown.err) == (4, True)


def test_steps_shows_a_failure_by_its_type_and_message(seekpoint: Shell, log: MemoryLog) -> None:
    """As a run tells it; the whole error is in JSON."""

    def refuse() -> None:
        raise ValueError("no such order: 4711")

    async def work(node: Node) -> None:
        async with node.open("p") as process:
            with pytest.raises(ValueError, match="no such order"):
                await process.step("look", refuse)

    on(log, work)
    assert seekpoint("steps", "p").out.splitlines()[1].endswith("  ValueError: no such order: 4711")
    assert seekpoint("steps", "p", "--json").json["calls"][0]["error"]["message"] == "no such order: 4711"


def test_steps_shows_automatic_attempts(seekpoint: Shell, log: MemoryLog) -> None:
    """A transient error is tried again by default, and nothing of it is hidden."""
    runs: list[int] = []

    async def flaky(*asked: Any) -> str:
        runs.append(1)
        if len(runs) % 2:
            raise ConnectionError("reset by the other side")
        return "found"

    async def work(node: Node) -> None:
        async with node.open("p") as process:
            await process.step("look", flaky)
            await process.decide("plan", flaky, {})

    on(log, work)
    calls = seekpoint("steps", "p", "--json").json["calls"]
    assert [[one["outcome"] for one in call["attempts"]] for call in calls] == [["retry", "succeeded"]] * 2
    assert {call["attempts"][0]["error"]["message"] for call in calls} == {"reset by the other side"}
    rows = [line.split()[:4] for line in seekpoint("steps", "p").out.splitlines()[1:]]
    assert rows == [["look:1", "step", "succeeded", "2"], ["plan:1", "decision", "succeeded", "2"]]


def test_a_key_with_a_unicode_digit_is_not_a_turn(seekpoint: Shell, log: MemoryLog) -> None:
    """What Unicode calls a digit is not always a number."""

    async def work(node: Node) -> None:
        async with node.open("p") as process:

            async def outer() -> str:
                return str(await process.step("inner", str, 1))

            await process.step("outer", outer, key="²")

    on(log, work)
    calls = seekpoint("steps", "p", "--json").json["calls"]
    assert [(call["key"], call["turn"]) for call in calls] == [("²", None), ("²/inner:1", None)]
    assert seekpoint("trace", "p").code == 0


def test_steps_of_an_unknown_process_or_a_trimmed_history_exits_with_1(seekpoint: Shell, log: MemoryLog) -> None:
    """No such process is 1; so is one whose beginning is gone: nobody could tell which entries count."""
    assert seekpoint("steps", "nobody").code == 1
    on(log, lambda node: node.run(chatter(), "p"))
    log.trim(partition_of(b"p", 2), 3)
    for command in (("steps", "p"), ("trace", "p"), ("export", "--dataset", "d.jsonl", "p"), ("export", "p", "p.spk")):
        found = seekpoint(*command)
        assert (found.code, "the beginning of the history is gone" in found.err) == (1, True), command
    assert not Path("d.jsonl").exists()
    assert not list(Path().glob("*.part"))


def test_a_trace_is_nested_and_deterministic(seekpoint: Shell, log: MemoryLog) -> None:
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
