"""With tracing on, runs, calls and messages are spans by the conventions; what the record answers is none."""

from __future__ import annotations

import ast
import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from seekpoint.producers import Client, Node, Process, Retry, Worker, agent
from seekpoint.producers.tracing import otel_tracer
from seekpoint.schemas import MemoryLog, Settings
from seekpoint.schemas.config.limits import Limits
from seekpoint.schemas.errors import InvalidSetting, LimitExceeded
from seekpoint.schemas.log.memory_inbox import MemoryGroup
from seekpoint.schemas.state.lifecycle import Lifecycle

ROOT = Path(__file__).parents[3]
SECRET = "words of a customer"
ANSWER = {
    "model": "gpt-5-2026",
    "choices": [{"message": {"role": "assistant", "content": SECRET}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 7, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 4}},
}


@pytest.fixture
def exporter(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    """What the program's provider has exported."""
    found, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(found))
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", provider)
    yield found
    provider.shutdown()


def spans(exporter: InMemorySpanExporter) -> dict[str, ReadableSpan]:
    """The finished spans, by name; names are used once."""
    found = exporter.get_finished_spans()
    names = [span.name for span in found]
    assert len(names) == len(set(names)), names
    return dict(zip(names, found, strict=True))


def facts(span: ReadableSpan) -> dict[str, Any]:
    """The attributes of a span."""
    return dict(span.attributes or {})


def context(span: ReadableSpan) -> tuple[int, int]:
    """The trace and the id of a span."""
    assert span.context is not None
    return span.context.trace_id, span.context.span_id


def parent(span: ReadableSpan) -> tuple[int, int] | None:
    """The trace and the id of the parent."""
    return None if span.parent is None else (span.parent.trace_id, span.parent.span_id)


async def model(request: Any) -> Any:
    return ANSWER


async def pay(amount: str, *, idempotency_key: str) -> str:
    return f"paid {amount}"


@agent("refund")
async def refund(process: Process, words: str) -> str:
    async def look_up(what: str) -> str:
        return await process.step("inner", lambda: what)

    await process.step("look up", look_up, words)
    await process.decide("plan", model, {"model": "gpt-5", "messages": [{"role": "user", "content": words}]})
    await process.tool("search", lambda text: text, words)
    return str(await process.effect("pay", pay, words))


async def test_a_run_and_its_calls_are_spans(exporter: InMemorySpanExporter) -> None:
    """With the names, kinds and attributes of the conventions, nested as the code is, and without content."""
    async with Node.in_memory(tracing="on") as node:
        await node.run(refund, "case-1", SECRET)
    found = spans(exporter)
    run, plan, paid = found["invoke_agent refund"], found["chat gpt-5"], found["execute_tool pay"]
    assert parent(run) is None
    for name in ("step look up", "chat gpt-5", "execute_tool search", "execute_tool pay"):
        assert parent(found[name]) == context(run)
    assert parent(found["step inner"]) == context(found["step look up"])
    assert [one.kind for one in (run, plan, paid)] == [SpanKind.INTERNAL, SpanKind.CLIENT, SpanKind.INTERNAL]
    assert facts(run) == {
        "gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "refund",
        "gen_ai.agent.version": refund.version, "gen_ai.conversation.id": "case-1",
        "seekpoint.journal": "seekpoint", "seekpoint.resumed": False,
    }  # fmt: skip
    assert facts(plan) == {
        "gen_ai.operation.name": "chat", "gen_ai.conversation.id": "case-1", "gen_ai.request.model": "gpt-5",
        "gen_ai.provider.name": "openai", "gen_ai.response.model": "gpt-5-2026", "gen_ai.usage.input_tokens": 7,
        "gen_ai.usage.output_tokens": 2, "gen_ai.usage.cache_read.input_tokens": 4, "seekpoint.key": "plan:1",
        "seekpoint.kind": "decision", "seekpoint.name": "plan", "seekpoint.attempt": 1,
        "seekpoint.outcome": "succeeded",
    }  # fmt: skip
    assert facts(paid)["gen_ai.tool.name"] == "pay"
    assert facts(paid)["seekpoint.outcome"] == "succeeded"
    assert SECRET not in "".join(span.to_json() for span in found.values())


async def test_content_is_there_if_it_is_asked_for(exporter: InMemorySpanExporter) -> None:
    """As the conventions write messages and arguments."""
    async with Node.in_memory(tracing="content") as node:
        await node.run(refund, "case-1", SECRET)
    found = spans(exporter)
    plan, paid = facts(found["chat gpt-5"]), facts(found["execute_tool pay"])
    part = [{"type": "text", "content": SECRET}]
    assert json.loads(plan["gen_ai.input.messages"]) == [{"role": "user", "parts": part}]
    assert json.loads(plan["gen_ai.output.messages"]) == [{"role": "assistant", "parts": part, "finish_reason": "stop"}]
    assert SECRET in paid["gen_ai.tool.call.arguments"]
    assert json.loads(paid["gen_ai.tool.call.result"]) == f"paid {SECRET}"
    assert json.loads(facts(found["step look up"])["seekpoint.result"]) == SECRET


async def test_secrets_of_the_settings_are_masked_in_content(exporter: InMemorySpanExporter) -> None:
    """A prompt that quotes a password does not take it to the collector."""
    settings: dict[str, Any] = {"tracing": "content", "kafka": {"sasl.password": "hunter2hunter2"}}
    async with Node.in_memory(**settings) as node:
        await node.run(refund, "case-1", "hunter2hunter2")
    assert "hunter2" not in "".join(span.to_json() for span in exporter.get_finished_spans())


@agent("breaks")
async def breaks(process: Process, how: dict[str, bool]) -> None:
    await process.step("once", lambda: 1)
    await process.effect("pay", pay, "5")
    if how["raises"]:
        raise ValueError(SECRET)


async def test_what_the_record_answers_is_no_second_span(exporter: InMemorySpanExporter) -> None:
    """A resumed run is a span again, linked to the first one; its recorded calls are none."""
    fails = True

    @agent("fragile")
    async def fragile(process: Process, input: Any) -> str:
        await process.step("once", lambda: 1)
        await process.effect("pay", pay, "5")
        if fails:
            raise ValueError(SECRET)
        return await process.step("last", lambda: "done")

    log = MemoryLog()
    async with Node.in_memory(log, tracing="on") as node:
        with pytest.raises(ValueError, match="words"):
            await node.run(fragile, "case-1", None)
    first = spans(exporter)["invoke_agent fragile"]
    assert facts(first)["error.type"] == "ValueError"
    assert first.status.status_code is StatusCode.ERROR
    assert SECRET not in first.to_json()
    exporter.clear()
    fails = False
    async with Node.in_memory(log, tracing="on") as node:
        assert await node.run(fragile, "case-1") == "done"
    found = spans(exporter)
    assert {*found} == {"invoke_agent fragile", "step last"}
    again = found["invoke_agent fragile"]
    assert facts(again)["seekpoint.resumed"] is True
    assert [(link.context.trace_id, link.context.span_id) for link in again.links] == [context(first)]
    assert parent(again) == context(first)


async def test_a_resumed_run_belongs_to_its_callers_trace(exporter: InMemorySpanExporter) -> None:
    """If there is one; then only the link leads to the first run."""
    tracer = trace.get_tracer("a program")
    log = MemoryLog()
    async with Node.in_memory(log, tracing="on") as node:
        with pytest.raises(ValueError, match="words"):
            await node.run(breaks, "case-1", {"raises": True})
        first = spans(exporter)["invoke_agent breaks"]
        exporter.clear()
        with tracer.start_as_current_span("request"), pytest.raises(ValueError, match="words"):
            await node.run(breaks, "case-1")
    found = spans(exporter)
    assert parent(found["invoke_agent breaks"]) == context(found["request"])
    assert [link.context.span_id for link in found["invoke_agent breaks"].links] == [context(first)[1]]


async def test_attempts_and_errors_of_a_call_are_told_without_messages(exporter: InMemorySpanExporter) -> None:
    """A call that is retried is one span."""
    tries = iter([ConnectionError(SECRET), None])

    def flaky() -> int:
        if (error := next(tries)) is not None:
            raise error
        return 1

    def broken() -> None:
        raise KeyError(SECRET)

    @agent("tries")
    async def retried(process: Process, input: Any) -> None:
        await process.step("flaky", flaky, retry=Retry(attempts=2, backoff_s=0.01))
        await process.step("broken", broken)

    async with Node.in_memory(tracing="on") as node:
        with pytest.raises(KeyError):
            await node.run(retried, "case-1", None)
    found = spans(exporter)
    assert facts(found["step flaky"])["seekpoint.attempt"] == 2
    assert facts(found["step flaky"])["seekpoint.outcome"] == "succeeded"
    assert found["step flaky"].status.status_code is StatusCode.UNSET
    assert facts(found["step broken"])["error.type"] == "KeyError"
    assert found["step broken"].status.description is None
    assert not found["step broken"].events


@agent("greets")
async def greets(process: Process, name: str) -> str:
    return await process.step("greet", lambda: f"hello {name}")


async def test_a_trace_goes_from_the_submission_to_the_run(exporter: InMemorySpanExporter) -> None:
    """The client's span is the root; the worker's are below the one that sent the submission."""
    log = MemoryLog(partitions=1)
    node = Node.in_memory(log, tracing="on")
    worker = Worker(
        [greets], node=node, member=MemoryGroup.of(log, "w").join(), inbox_writer=log.topic("inbox"), group="w"
    )
    async with worker, Client.in_memory(log, tracing="on") as client:
        with trace.get_tracer("a program").start_as_current_span("request"):
            run = await client.submit("greets", "case-1", "Ann")
        assert await run.result(30) == "hello Ann"
        async with asyncio.timeout(30):
            while "invoke_agent greets" not in spans(exporter):  # noqa: ASYNC110  # it ends after the result
                await asyncio.sleep(0.01)
    found = spans(exporter)
    sent, taken, ran = (found[f"{name}"] for name in (
        "send seekpoint.inbox", "process seekpoint.inbox", "invoke_agent greets"
    ))  # fmt: skip
    assert parent(sent) == context(found["request"])
    assert parent(taken) == parent(ran) == context(sent)
    assert [one.kind for one in (sent, taken)] == [SpanKind.PRODUCER, SpanKind.CONSUMER]
    both = {
        "messaging.system.name": "kafka", "messaging.destination.name": "seekpoint.inbox",
        "messaging.destination.partition.id": "0", "kafka.offset": 0, "kafka.message.key": "case-1",
        "messaging.message.id": facts(sent)["messaging.message.id"],
    }  # fmt: skip
    assert facts(sent) == {**both, "messaging.operation.name": "send", "messaging.operation.type": "send"}
    assert facts(taken) == {
        **both, "messaging.operation.name": "process", "messaging.operation.type": "process",
        "messaging.consumer.group.name": "w",
    }  # fmt: skip


async def test_a_submission_without_room_for_the_trace_is_sent_without(exporter: InMemorySpanExporter) -> None:
    """What fits without tracing also fits with it."""

    async def submitted(characters: int) -> bytes:
        log = MemoryLog(partitions=1, limits=Limits(record_bytes=4_096))
        async with Client.in_memory(log, tracing="on") as client:
            await client.submit("greets", "case-1", "x" * characters)
        (record,) = next(iter(log.topic("inbox").read(0, 0, 1))).records
        return record.value or b""

    assert b"00-" in await submitted(2_000)
    characters = 4_096
    while True:
        characters -= 1
        with suppress(LimitExceeded):
            largest = await submitted(characters)
            break
    assert b"00-" not in largest


@agent("listens")
async def listens(process: Process, input: Any) -> str:
    return str((await process.receive("news")).payload)


async def test_signals_are_messages(exporter: InMemorySpanExporter) -> None:
    """Sent by a producer, and received by the call that takes them out of the mailbox."""
    async with Node.in_memory(MemoryLog(partitions=1), tracing="on") as node:
        running = asyncio.create_task(node.run(listens, "case-1", None))
        signal_id = await node.signal("case-1", "news", SECRET)
        await running
    found = spans(exporter)
    sent, received = found["send seekpoint.journal"], found["receive seekpoint.journal"]
    assert [sent.kind, received.kind] == [SpanKind.PRODUCER, SpanKind.CLIENT]
    ids = {facts(one)["messaging.message.id"].replace("-", "") for one in (sent, received)}
    assert ids == {signal_id.hex()}
    assert facts(received)["messaging.operation.type"] == "receive"
    assert parent(received) == context(found["invoke_agent listens"])
    assert SECRET not in sent.to_json() + received.to_json()


async def test_a_run_that_is_released_is_no_error(exporter: InMemorySpanExporter) -> None:
    """It goes on later."""
    async with Node.in_memory(tracing="on") as node:
        running = asyncio.create_task(node.run(listens, "case-1", None))
        async with asyncio.timeout(30):
            while (await node.recover("case-1", missing_ok=True)).state.lifecycle is not Lifecycle.AWAITING:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
    run = spans(exporter)["invoke_agent listens"]
    assert facts(run)["seekpoint.outcome"] == "released"
    assert run.status.status_code is StatusCode.UNSET


def test_without_tracing_opentelemetry_is_not_imported() -> None:
    """A whole run, a client and a worker load nothing of it."""
    program = """
import asyncio, sys
from seekpoint.producers import Client, Node, Worker, agent
from seekpoint.schemas import MemoryLog

@agent("greets")
async def greets(process, name):
    return await process.step("greet", lambda: name)

async def main():
    log = MemoryLog()
    async with Node.in_memory() as node:
        await node.run(greets, "case-1", "Ann")
    async with Worker.in_memory([greets], log), Client.in_memory(log) as client:
        await (await client.submit(greets, "case-2", "Ann")).result(30)

asyncio.run(main())
print([name for name in sys.modules if name.startswith("opentelemetry")])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"


def test_no_module_imports_opentelemetry_when_it_is_loaded() -> None:
    """Only the tracer does, when it is made."""
    found = [
        str(file.relative_to(ROOT))
        for root in ("api", "schemas", "consumers", "producers", "console", "compose")
        for file in (ROOT / root).rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Import | ast.ImportFrom)
        and any(name.startswith("opentelemetry") for name in [getattr(node, "module", "") or "", *_names(node)])
    ]
    assert found == []


def _names(node: ast.Import | ast.ImportFrom) -> list[str]:
    return [one.name for one in node.names]


def test_tracing_without_the_package_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """When the node is made, not at the first call."""

    def missing(name: str) -> Any:
        if name.startswith("opentelemetry"):
            raise ModuleNotFoundError(name)
        return import_module(name)

    monkeypatch.setattr(otel_tracer, "import_module", missing)
    with pytest.raises(InvalidSetting, match=r"seekpoint\[otel\]"):
        Node.in_memory(tracing="on")


def test_the_setting_is_one_of_three() -> None:
    """A switch with a third position for content."""
    assert Settings().tracing == "off"
    assert Settings.load(environ={"SEEKPOINT_TRACING": "content"}).tracing == "content"
    with pytest.raises(InvalidSetting, match="off, on or content"):
        Settings(tracing="yes")


@pytest.mark.cluster
async def test_a_trace_crosses_kafka(journal: Settings, exporter: InMemorySpanExporter) -> None:
    """The worker reads the span of the submission from the inbox, and the run's from the journal."""
    settings = replace(journal, tracing="on")
    async with Worker([greets], settings), Client.connect(settings) as client:
        run = await client.submit("greets", "case-1", "Ann")
        assert await run.result(30) == "hello Ann"
        recovered = await client.recover("case-1")
    found = spans(exporter)
    sent, ran = found[f"send {journal.journal}.inbox"], found["invoke_agent greets"]
    assert parent(ran) == context(sent)
    assert recovered.state.agent is not None
    trace_id, span_id = context(ran)
    assert (recovered.state.agent.trace_parent or "").startswith(f"00-{trace_id:032x}-{span_id:016x}-")
