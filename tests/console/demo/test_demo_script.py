"""What the demo is played with: made-up cases, real runs, the scripted model, and what outsiders write down."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from seekpoint.console.demo.cases import support_cases
from seekpoint.console.demo.outside_ledger import (
    AppendOnlyFile,
    BilledCall,
    Ended,
    FileTail,
    Note,
    Receipt,
    read_calls,
    read_notes,
)
from seekpoint.console.demo.scripted_agent import ScriptedModel, support_agent
from seekpoint.console.demo.transcripts import (
    Transcript,
    TranscriptLine,
    as_messages,
    digest,
    load_transcripts,
    read_runs,
    save_transcripts,
)
from seekpoint.producers import Node
from seekpoint.schemas import MemoryLog
from seekpoint.schemas.errors import Fenced, OperatorRequired, Refused


def test_the_cases_are_the_same_every_time() -> None:
    """Twenty-four cases, told apart by their names, with tool calls in each."""
    cases = support_cases()
    assert cases == support_cases()
    assert len({case.case for case in cases}) == 24
    assert all(any(line.tool_calls for line in case.lines) for case in cases)


def test_saved_transcripts_are_loaded_unchanged(tmp_path: Path) -> None:
    """What a worker reads is what was written down for it."""
    cases = support_cases(3)
    save_transcripts(tmp_path / "cases.jsonl", cases)
    assert load_transcripts(tmp_path / "cases.jsonl") == cases


async def test_the_model_is_deterministic_by_case_and_turn() -> None:
    """The same conversation gets the same answer, after the same time, from any worker."""
    case = support_cases(1)[0]
    bills: list[BilledCall] = []
    one, other = (ScriptedModel(name, bills.append, (0.0, 0.001)) for name in ("worker-1", "worker-2"))
    for at, line in enumerate(case.lines):
        if line.by_model:
            request = {"messages": as_messages(case.lines[:at])}
            first, second = await one.answer(case, request), await other.answer(case, request)
            assert (
                TranscriptLine(**first["choices"][0]["message"])
                == TranscriptLine(**second["choices"][0]["message"])
                == line
            )
            assert first["id"] != second["id"]
    durations = {(bill.turn, one.duration_s(bill.digest), other.duration_s(bill.digest)) for bill in bills}
    assert len(durations) == case.model_calls
    assert {bill.turn for bill in bills} == set(range(1, case.model_calls + 1))


async def test_a_call_that_never_ends_is_on_the_bill() -> None:
    """The model is paid when it is asked, not when it is heard."""
    case = support_cases(1)[0]
    bills: list[BilledCall] = []
    model = ScriptedModel("worker-1", bills.append, (60.0, 60.0))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.5):
            await model.answer(case, {"messages": as_messages(case.lines[:1])})
    asked = digest(as_messages(case.lines[:1]))
    assert [(bill.case, bill.turn, bill.digest) for bill in bills] == [(case.case, 1, asked)]


async def test_a_conversation_has_one_digest_in_the_script_and_in_the_journal() -> None:
    """So the bill proves that a worker asked with the conversation that really was."""
    case = support_cases(1)[0]
    async with Node.in_memory() as node, node.open(case.case) as process:
        for at, line in enumerate(case.lines):
            assert digest(as_messages(process.state.conversation)) == digest(as_messages(case.lines[:at]))
            await process.say(
                line.role, line.content, tool_calls=line.tool_calls, tool_call_id=line.tool_call_id, name=line.name
            )


class _Waiting(ScriptedModel):
    """A model that answers once ``go`` is set."""

    def __init__(self) -> None:
        super().__init__("worker-1", lambda _: None, (0.0, 0.0))
        self.is_asked, self.go = asyncio.Event(), asyncio.Event()

    async def answer(self, transcript: Transcript, request: Mapping[str, Any]) -> dict[str, Any]:
        self.is_asked.set()
        await self.go.wait()
        return await super().answer(transcript, request)


async def test_a_worker_that_lost_a_case_notes_that_it_was_fenced() -> None:
    """The checker excuses entries that do not count only if their writer knows it."""
    case, log, model = support_cases(1)[0], MemoryLog(), _Waiting()
    notes: list[Note] = []
    support = support_agent([case], model, "worker-1", notes.append)
    async with Node.in_memory(log) as node, Node.in_memory(log) as other:
        running = asyncio.create_task(node.run(support, case.case, dict(case.facts)))
        await model.is_asked.wait()
        async with other.open(case.case, take_over=True):
            model.go.set()
            with pytest.raises(Fenced):
                await running
    assert [note.how for note in notes if isinstance(note, Ended)] == ["fenced"]


# --- what outsiders write down ----------------------------------------------------------------------------------------
def _receipt(seq: int) -> Receipt:
    return Receipt(case="case-01", node="worker-1", at=1.5, seq=seq, offset=seq, kind="message_said", call_id="x")


def test_calls_and_notes_are_read_as_written(tmp_path: Path) -> None:
    """Calls and notes, each once, as they come."""
    bill, notes = AppendOnlyFile(tmp_path / "bill"), AppendOnlyFile(tmp_path / "notes")
    call = BilledCall(call_id="x", case="case-01", turn=1, digest="d", node="worker-1", pid=7, at=0.5)
    ended = Ended(case="case-01", node="worker-1", at=2.0, how="finished")
    bill.bill(call)
    tail = FileTail(tmp_path / "notes")
    notes.note(_receipt(1))
    assert read_calls(FileTail(tmp_path / "bill")) == [call]
    assert read_notes([tail]) == [_receipt(1)]
    notes.note(ended)
    assert read_notes([tail]) == [ended]
    assert read_notes([tail, FileTail(tmp_path / "not there yet")]) == []
    bill.close()
    notes.close()
    notes.close()


def test_a_line_that_was_cut_off_is_not_read(tmp_path: Path) -> None:
    """A worker that dies while it writes has written nothing; a whole line that is no JSON is loud."""
    path = tmp_path / "notes"
    path.write_bytes(b'{"what": "ended", "no')
    tail = FileTail(path)
    assert tail.read() == []
    path.write_bytes(b'{"what": "ended", "no\n')
    with pytest.raises(OperatorRequired, match="damaged"):
        tail.read()


# --- real runs --------------------------------------------------------------------------------------------------------
MESSAGES: list[dict[str, Any]] = [
    {"role": "system", "content": "You are an agent."},
    {"role": "user", "content": "Book a flight."},
    {"role": "assistant", "content": None, "tool_calls": [{"id": "c", "function": {"name": "find"}}]},
    {"role": "tool", "content": "[]", "tool_call_id": "c", "name": "find"},
    {"role": "assistant", "content": "There is none."},
]
RUN = {"run_id": "airline-1", "task_id": 3, "messages": MESSAGES}


@pytest.mark.parametrize("packed", [True, False])
def test_a_run_becomes_a_case(tmp_path: Path, packed: bool) -> None:
    """Every message is kept as it was; each of the assistant's is a model call."""
    text = (json.dumps(RUN) + "\n").encode()
    path = tmp_path / "runs"
    path.write_bytes(gzip.compress(text) if packed else text)
    [case] = read_runs(path)
    assert isinstance(case, Transcript)
    assert (case.case, case.model_calls, case.facts) == ("airline-1", 2, {"run_id": "airline-1", "task_id": 3})
    assert [(line.role, line.content, line.tool_calls, line.tool_call_id, line.name) for line in case.lines] == [
        (said["role"], said["content"], said.get("tool_calls"), said.get("tool_call_id"), said.get("name"))
        for said in MESSAGES
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "not a run"),
        ("[]", "not a run"),
        ('{"run_id": "a"}', "not a run"),
        ('{"run_id": "", "messages": []}', "not a run"),
        ('{"run_id": "a", "messages": [{"role": "user", "content": 7}]}', "not a run"),
        ('{"run_id": "a", "messages": [{"role": "user", "content": "hello"}]}', "no message of an assistant"),
        (f"{json.dumps(RUN)}\n{json.dumps(RUN)}", "the run_id of another"),
    ],
)
def test_a_file_that_holds_no_runs_is_refused(tmp_path: Path, text: str, said: str) -> None:
    """In one line that names the file and what is wanted."""
    path = tmp_path / "runs.jsonl"
    path.write_text(text)
    with pytest.raises(Refused, match=said) as refused:
        read_runs(path)
    assert refused.value.facts["file"] == str(path)


@pytest.mark.parametrize("content", [None, gzip.compress(b"x" * 100)[:-20]])
def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path, content: bytes | None) -> None:
    """Missing, or cut off."""
    path = tmp_path / "runs.jsonl.gz"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(Refused, match="cannot be read"):
        read_runs(path)
