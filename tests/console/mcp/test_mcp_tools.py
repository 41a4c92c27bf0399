"""The tools of ``seekpoint mcp``: they tell what the commands tell, within bounds, and errors with advice."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import orjson
import pytest

from seekpoint.console.mcp.answerer import TOOLS, Answerer
from seekpoint.console.mcp.tool_declarations import Document, input_schema
from seekpoint.console.services.arguments.target import CommandTarget
from seekpoint.producers import Node
from shells import Shell

UNSTABLE = {"report", "behind", "notes"}
LONG = "x" * 100_000
"""What the finished case keeps as a letter."""


async def ask(answerer: Answerer, name: str, **given: Any) -> Document:
    """Return the result of a tool."""
    answer = await answerer.answer(TOOLS[name], given)
    assert not answer.is_error, answer.document
    return answer.document


async def refused(answerer: Answerer, name: str, **given: Any) -> Document:
    """Return the error of a tool."""
    answer = await answerer.answer(TOOLS[name], given)
    assert answer.is_error, answer.document
    error: Document = answer.document["error"]
    return error


async def test_it_tells_what_the_commands_tell(answerer: Answerer, shell: Shell, address: str) -> None:
    """``ps``, ``state``, ``gates ls``, ``diff`` and ``dlq ls`` with ``--json``."""
    url = ("--json", "--journal-url", address)
    listed = await ask(answerer, "list_processes")
    expected = shell("ps", *url).json["processes"]
    told = [{name: value for name, value in one.items() if value is not None and value != []} for one in expected]
    assert sorted(map(orjson.dumps, listed["processes"])) == sorted(map(orjson.dumps, told))
    assert listed["notes"][0].startswith("reading from the log: ")
    state = shell("state", "case-bad", *url).json
    found = await ask(answerer, "show_state", process_id="case-bad")
    assert {name: found[name] for name in state.keys() - UNSTABLE} == {
        name: value for name, value in state.items() if name not in UNSTABLE
    }
    assert (await ask(answerer, "list_gates"))["gates"] == shell("gates", "ls", *url).json["gates"]
    diff = shell("diff", "case-bad", "case-waits", *url).json
    compared = await ask(answerer, "compare_processes", left="case-bad", right="case-waits")
    assert compared.pop("is_same") is diff.pop("is_empty") is False
    assert compared == diff
    [letter] = shell("dlq", "ls", *url).json["letters"]
    [found] = (await ask(answerer, "list_dead_letters"))["letters"]
    assert (found["place"], found["bytes"], found["error"]) == (letter["place"], 4, letter["error"])
    shown = await ask(answerer, "show_dead_letter", place=letter["place"])
    assert shown.pop("readable")["form"]
    assert shown == letter


async def test_it_tells_calls_and_entries(answerer: Answerer, shell: Shell, address: str) -> None:
    """``steps`` and ``log`` with ``--json``; a list of calls is short, one call is whole."""
    url = ("--json", "--journal-url", address)
    steps = shell("steps", "case-waits", *url).json["calls"]
    listed = await ask(answerer, "list_calls", process_id="case-waits")
    assert [(one["key"], one["status"]) for one in listed["calls"]] == [(one["key"], one["status"]) for one in steps]
    assert (await ask(answerer, "show_call", process_id="case-waits", key="look:1"))["calls"] == steps[:1]
    [waits] = (await ask(answerer, "list_calls", process_id="case-waits", kind="gate", status="started"))["calls"]
    assert (waits["key"], waits["number"]) == ("approve:1", 1)
    [last] = (await ask(answerer, "list_calls", process_id="case-waits", first=-1))["calls"]
    assert last == waits
    entries = [orjson.loads(line) for line in shell("log", "case-bad", *url).out.splitlines()]
    assert (await ask(answerer, "list_entries", process_id="case-bad"))["entries"] == entries
    newest = await ask(answerer, "list_entries", process_id="case-bad", newest=True, limit=2)
    assert newest["entries"] == entries[-2:]
    [error] = (await ask(answerer, "list_entries", process_id="case-bad", kinds=["error_recorded"]))["entries"]
    assert "ValueError: no such order" in error["body"]["traceback"]


@pytest.mark.parametrize(
    ("name", "given", "items", "cursor", "key"),
    [
        ("list_processes", {}, "processes", "after", "process_id"),
        ("list_calls", {"process_id": "case-waits"}, "calls", "first", "key"),
        ("list_entries", {"process_id": "case-bad"}, "entries", "from_offset", "offset"),
        ("list_gates", {}, "gates", "skip", "key"),
        ("list_dead_letters", {}, "letters", "skip", "place"),
    ],
)
async def test_a_list_is_read_in_pages(
    answerer: Answerer, name: str, given: Document, items: str, cursor: str, key: str
) -> None:
    """``next`` of a page begins the next one; together they are the list, each item once."""
    whole = [one[key] for one in (await ask(answerer, name, **given))[items]]
    paged: list[Any] = []
    more: Document = {}
    while True:
        page = await ask(answerer, name, **given, limit=1, **more)
        paged += [one[key] for one in page[items]]
        if page["next"] is None:
            break
        more = {cursor: page["next"]}
    assert whole
    assert paged == whole


async def test_lists_are_filtered(answerer: Answerer) -> None:
    """As ``ps`` filters."""

    async def ids(**given: Any) -> list[str]:
        return [one["process_id"] for one in (await ask(answerer, "list_processes", **given))["processes"]]

    assert await ids(failed=True) == ["case-bad"]
    assert await ids(lifecycle="finished") == ["case-done"]
    assert await ids(waiting=True) == ["case-waits"]
    assert await ids(open=True) == ["case-bad", "case-waits"]
    assert await ids(agent="nobody") == []
    assert await ids(since="2100-01-01") == []
    assert (await ids(sort="started", limit=1)) == ["case-waits"]


async def test_the_past_is_shown(answerer: Answerer) -> None:
    """After a seq, as the command shows it."""
    found = await ask(answerer, "show_state", process_id="case-bad", at_seq=1)
    assert (found["seq"], found["failure"], found["conversation"]) == (1, None, [])


async def test_a_result_has_at_most_so_many_bytes(target: CommandTarget) -> None:
    """The rest of a value is read with its path, piece by piece."""
    answerer = Answerer(target, bytes_max=10_000)
    found = await ask(answerer, "show_state", process_id="case-done", at_seq=6)
    assert len(orjson.dumps(found)) <= 10_000
    [cut] = found["cut"]
    assert (cut["path"], cut["length"]) == ("/context/letter", len(LONG))
    assert "path" in found["advice"]
    read = ""
    while len(read) < len(LONG):
        piece = await ask(
            answerer, "show_state", process_id="case-done", at_seq=6, path="/context/letter", start=len(read)
        )
        assert len(orjson.dumps(piece)) <= 10_000
        read += piece["value"]
    assert read == LONG


async def test_numbers_beyond_64_bits_are_told(tmp_path: Path) -> None:
    """Those of values in their exact form; as an argument they are refused, and in an error they are told."""

    async with Node.local(tmp_path / "runs.db") as node:
        for name, number in (("one", 2**70), ("other", 7)):
            process = await node.open(name, shared=True)
            await process.update("n", number)
    with closing(CommandTarget(None, None, None, f"sqlite:///{tmp_path / 'runs.db'}")) as target:
        answerer = Answerer(target)
        found = await ask(answerer, "compare_processes", left="one", right="other")
        assert orjson.dumps(found).count(b'{"$int":"1180591620717411303424"}') == 1
        for tool, given in (
            ("show_state", {"process_id": "one", "at_seq": 2**70}), ("list_gates", {"skip": 2**70}),
            ("compare_processes", {"left": "one@1", "right": f"one@{2**70}"}),
            ("show_state", {"process_id": "one", "at_time": "9" * 300}),
        ):  # fmt: skip
            error = await refused(answerer, tool, **given)
            assert error["code"] != "Unexpected"
            orjson.dumps(error)


async def test_a_page_that_is_too_long_ends_earlier(target: CommandTarget) -> None:
    """``next`` begins with the first item that was left out, so no item is lost."""
    whole = (await ask(Answerer(target), "list_entries", process_id="case-bad"))["entries"]
    answerer, read, pages, more = Answerer(target, bytes_max=4_000), list[int](), 0, 0
    while True:
        page = await ask(answerer, "list_entries", process_id="case-bad", from_offset=more)
        assert len(orjson.dumps(page)) <= 4_000
        assert "/entries" not in [cut["path"] for cut in page.get("cut", ())]
        read += [one["offset"] for one in page["entries"]]
        pages += 1
        if page["next"] is None:
            break
        more = page["next"]
    assert read == [one["offset"] for one in whole]
    assert 1 < pages < len(whole)


async def test_secrets_of_the_settings_are_masked(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever they are: in results, in their parts, in errors."""
    monkeypatch.setenv("SEEKPOINT_KAFKA_SASL_PASSWORD", "no such order")
    with closing(CommandTarget(None, None, None, address)) as target:
        answerer = Answerer(target)
        state = await ask(answerer, "show_state", process_id="case-bad")
        assert state["failure"]["message"] == "***"
        part = await ask(answerer, "show_state", process_id="case-bad", path="/failure/where")
        error = await refused(answerer, "show_state", process_id="no such order")
        texts = [orjson.dumps(one).decode() for one in (state, part, error)]
    assert not [text for text in texts if "no such order" in text]


@pytest.mark.parametrize(
    ("name", "given", "code"),
    [
        ("show_state", {"process_id": "nobody"}, "UnknownProcess"),
        ("show_state", {"process_id": "case-bad", "at_seq": 1, "at_offset": 1}, "UnknownPoint"),
        ("show_state", {"process_id": "a\nb"}, "InvalidName"),
        ("show_state", {}, "InvalidArgument"),
        ("show_state", {"process": "case-bad"}, "InvalidArgument"),
        ("show_state", {"process_id": "case-bad", "path": "/nothing"}, "InvalidArgument"),
        ("show_state", {"process_id": "case-bad", "at_time": "soon"}, "InvalidArgument"),
        ("show_call", {"process_id": "case-bad", "key": "pay:1"}, "UnknownCall"),
        ("list_calls", {"process_id": "nobody"}, "UnknownProcess"),
        ("list_entries", {"process_id": "nobody"}, "UnknownProcess"),
        ("list_processes", {"lifecycle": "dead"}, "InvalidArgument"),
        ("list_processes", {"sort": "size"}, "InvalidArgument"),
        ("list_processes", {"sort": "cost", "after": "a"}, "InvalidArgument"),
        ("list_processes", {"limit": 501}, "InvalidArgument"),
        ("compare_processes", {"left": "case-bad", "right": "nobody"}, "UnknownProcess"),
        ("show_dead_letter", {"place": "nowhere"}, "InvalidArgument"),
        ("show_dead_letter", {"place": "0:99"}, "UnknownDeadLetter"),
        ("check_replay", {"process_id": "case-bad"}, "NoCode"),
    ],
)
async def test_an_error_says_what_to_do(answerer: Answerer, name: str, given: Document, code: str) -> None:
    """It is the result of the tool, so that a model can correct its call."""
    error = await refused(answerer, name, **given)
    assert (error["code"], bool(error["message"]), bool(error["advice"])) == (code, True, True)


async def test_a_failure_that_nobody_foresaw_is_told_in_a_sentence(
    answerer: Answerer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The traceback is on the server's standard error."""

    def break_down(*_: object, **__: object) -> None:
        raise ZeroDivisionError("by zero")

    monkeypatch.setattr("seekpoint.console.render.states.state_facts", break_down)
    error = await refused(answerer, "show_state", process_id="case-bad")
    assert (error["code"], error["message"]) == ("Unexpected", "unexpected ZeroDivisionError: by zero")
    assert "break_down" in caplog.text


async def test_an_argument_that_is_null_is_left_out(answerer: Answerer) -> None:
    """Models fill in every argument that they see."""
    found = await ask(answerer, "list_processes", agent=None, since=None, limit=None, path=None)
    assert len(found["processes"]) == 3


@pytest.mark.parametrize("name", sorted(TOOLS))
def test_a_tool_describes_itself(name: str) -> None:
    """Each argument has a description, and no other argument is taken; a choice lists its words."""
    tool = TOOLS[name]
    schema = input_schema(tool.arguments)
    assert (schema["type"], schema["additionalProperties"]) == ("object", False)
    assert set(schema["required"]) <= schema["properties"].keys()
    assert list(schema["properties"])[-2:] == ["path", "start"]
    for one in schema["properties"].values():
        assert one["description"].endswith(".")
        assert one.get("type") in ("string", "integer", "number", "boolean", "array")
        assert "anyOf" not in one
        assert one.get("default", "") is not None
    assert tool.description.endswith(".")
    assert (tool.answer is None) != (tool.run is None)
