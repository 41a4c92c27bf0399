"""``seekpoint mcp`` as a program, and the client of the official package that talks to it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import httpx2
import pytest
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from seekpoint.console.web.auth.tokens import TokenFile
from seekpoint.console.web.auth.user_identity import Role
from seekpoint.schemas.config.settings import Settings
from shells import Shell

CODE = """
from seekpoint import agent
print("loaded")

@agent("refund", "2")
async def refund(process, order):
    found = await process.step("look", lambda name: {"order": name, "amount": 12}, order)
    await process.say("user", f"Where is {order}?")
    if order == "bad":
        raise ValueError("no such order")
    if order == "good":
        await process.gate("approve", prompt={"amount": found["amount"]}, timeout=3_600)
    await process.update("letter", "x" * 100_000)
    return found["amount"]
"""


def environment(**given: str) -> dict[str, str]:
    """Return the environment without any setting of the machine's."""
    return {name: value for name, value in os.environ.items() if not name.startswith("SEEKPOINT_")} | given


def on_stdio(folder: Path, *words: str, **given: str) -> StdioServerParameters:
    """Return how a client starts the server."""
    arguments = ["-m", "seekpoint", "mcp", *words]
    return StdioServerParameters(command=sys.executable, args=arguments, cwd=folder, env=environment(**given))


async def ask(client: Client, name: str, **given: Any) -> Any:
    """Return the result of a tool, which the text has too."""
    answer = await client.call_tool(name, given)
    [content] = answer.content
    assert json.loads(content.text) == answer.structured_content  # type: ignore[union-attr]
    assert not answer.is_error, answer.structured_content
    return answer.structured_content


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_a_coding_agent_finds_out_why_a_run_failed(tmp_path: Path, address: str, mode: str) -> None:
    """With the handshake of the clients of today, and without one. Every tool says that it only reads."""
    async with Client(on_stdio(tmp_path, "--journal-url", address), mode=mode) as client:
        assert client.server_info is not None
        assert client.server_info.name == "seekpoint"
        assert "journal seekpoint" in (client.instructions or "")
        tools = (await client.list_tools()).tools
        assert len(tools) == 10
        for tool in tools:
            assert tool.annotations is not None
            assert (tool.annotations.read_only_hint, tool.annotations.destructive_hint) == (True, False)
        [failed] = (await ask(client, "list_processes", failed=True))["processes"]
        assert (failed["process_id"], failed["error"]) == ("case-bad", "ValueError: no such order")
        state = await ask(client, "show_state", process_id=failed["process_id"])
        assert "in refund: raise ValueError" in state["failure"]["where"]
        [call] = (await ask(client, "list_calls", process_id="case-bad"))["calls"]
        assert (call["key"], call["input"]) == ("look:1", '["bad"]')
        [gate] = (await ask(client, "list_gates"))["gates"]
        assert (gate["process_id"], gate["prompt"]) == ("case-waits", {"amount": 12})
        refused = await client.call_tool("show_state", {"process_id": "case-9"})
        error = refused.structured_content["error"]
        assert (refused.is_error, error["code"]) == (True, "UnknownProcess")
        assert error["advice"]
        with pytest.raises(MCPError, match="Unknown tool: approve"):
            await client.call_tool("approve", {})


async def test_a_replay_check_runs_the_code_of_now(tmp_path: Path, address: str) -> None:
    """The server need not be started again after a change of the code, and what the code prints does no harm."""
    file = tmp_path / "shop.py"
    file.write_text(CODE)
    async with Client(on_stdio(tmp_path, "-m", "shop", "--journal-url", address)) as client:
        same = await ask(client, "check_replay", process_id="case-done")
        assert (same["ok"], same["calls"]) == (True, 3)
        every = await ask(client, "check_replay", every="all", agent="refund", since="1h", limit=10)
        assert [one["outcome"] for one in every["processes"]] == ["same"] * 3
        file.write_text(CODE.replace('"look"', '"look up"'))
        changed = await ask(client, "check_replay", process_id="case-done")
        assert (changed["ok"], changed["divergence"]["key"]) == (False, "look up:1")
        file.write_text("def broken(:")
        broken = await client.call_tool("check_replay", {"process_id": "case-done"})
        error = broken.structured_content["error"]
        assert broken.is_error
        assert "shop cannot be imported" in error["message"]
        file.write_text(CODE)
        other = await client.call_tool("check_replay", {"agent": "os:system"})
        assert "shop has no agent 'os:system'" in other.structured_content["error"]["message"]
        option = await client.call_tool("check_replay", {"process_id": "--help"})
        assert option.structured_content["error"]["code"] == "UnknownProcess"


async def test_a_check_that_takes_too_long_is_ended(tmp_path: Path, address: str) -> None:
    """With its program."""
    (tmp_path / "shop.py").write_text("import os, time\nopen('pid', 'w').write(str(os.getpid()))\ntime.sleep(60)\n")
    async with Client(on_stdio(tmp_path, "-m", "shop", "--journal-url", address)) as client:
        for timeout_s in (3, 30):
            given = {"process_id": "case-done", "timeout_s": timeout_s}
            error = (await client.call_tool("check_replay", given)).structured_content["error"]
            assert error["code"] == "TimedOut"
            if (tmp_path / "pid").exists():  # a busy machine may need longer to begin
                break
        with pytest.raises(ProcessLookupError):
            os.kill(int((tmp_path / "pid").read_text()), 0)


HELLO = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "by hand", "version": "1"},
}


def test_only_messages_are_on_standard_output(tmp_path: Path, address: str) -> None:
    """One a line. The server ends with 0 when its client closes standard input."""
    asked = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "list_processes", "arguments": {}}},
    ]
    command = [sys.executable, "-m", "seekpoint", "mcp", "--journal-url", address, "--json", "--debug"]
    with subprocess.Popen(
        command, cwd=tmp_path, env=environment(), text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as server:  # fmt: skip
        assert server.stdin is not None
        assert server.stdout is not None
        assert server.stderr is not None
        for one in asked:
            server.stdin.write(json.dumps(one) + "\n")
        server.stdin.flush()
        answers = [json.loads(server.stdout.readline()) for _ in range(2)]
        server.stdin.close()
        assert server.stdout.read() == ""
        assert "reading from the log" not in server.stderr.read()
    assert server.returncode == 0
    assert [one["id"] for one in answers] == [1, 2]
    assert answers[0]["result"]["protocolVersion"] == "2025-06-18"
    assert len(answers[1]["result"]["structuredContent"]["processes"]) == 3


@contextmanager
def over_http(folder: Path, *words: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Run the server on a free port, and yield its address and its program, which is ended by SIGTERM."""
    command = [sys.executable, "-m", "seekpoint", "mcp", "--port", "0", "--tokens", "tokens.json", "--json", *words]
    with subprocess.Popen(command, cwd=folder, env=environment(), text=True, stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        try:
            yield json.loads(server.stdout.readline())["address"], server
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait(20)


async def test_it_speaks_http_of_this_machine(tmp_path: Path, address: str) -> None:
    """To who has a token. No web page of another host reaches it, whatever name it gave to this machine's address."""
    own = {"Authorization": f"Bearer {TokenFile(tmp_path / 'tokens.json').add('agent', Role.VIEWER, 'now')}"}
    with over_http(tmp_path, "--journal-url", address) as (url, server):
        async with (
            httpx2.AsyncClient(headers=own) as sender,
            Client(streamable_http_client(url, http_client=sender)) as client,
        ):
            assert len((await ask(client, "list_processes"))["processes"]) == 3
        async with httpx.AsyncClient() as browser:
            for given, status in (
                ({**own, "Host": "evil.example"}, 421), ({**own, "Origin": "https://evil.example"}, 403),
                ({}, 401), ({"Authorization": "Bearer spc_wrong"}, 401), ({"Authorization": "Basic YTpi"}, 401),
            ):  # fmt: skip
                headers = {**given, "Accept": "application/json, text/event-stream"}
                body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO}
                assert (await browser.post(url, json=body, headers=headers)).status_code == status
    assert server.returncode in (0, 143, -signal.SIGTERM)


def test_http_needs_a_file_of_tokens(shell: Shell, tmp_path: Path, address: str) -> None:
    """Every user of the machine can reach the port, and the journal of another one is not theirs."""
    done = shell("mcp", "--port", "0", "--tokens", str(tmp_path / "none.json"), "--journal-url", address)
    assert done.code != 0
    assert "seekpoint console token add NAME --role viewer" in done.err


@pytest.mark.cluster
async def test_it_reads_a_journal_on_kafka(tmp_path: Path, cases: Settings) -> None:
    """A gap, mail, and a record that is no entry."""
    given = {
        "SEEKPOINT_BOOTSTRAP_SERVERS": cases.bootstrap_servers,
        "SEEKPOINT_JOURNAL": cases.journal,
        "SEEKPOINT_REDIS_URL": cases.redis_url or "none",
    }
    async with Client(on_stdio(tmp_path, **given)) as client:
        listed = {one["process_id"]: one for one in (await ask(client, "list_processes"))["processes"]}
        assert {"case-1", "case-done", "case-err", "case-gap", "case-left"} <= listed.keys()
        assert listed["case-gap"]["degraded"]["reason"]
        state = await ask(client, "show_state", process_id="case-1")
        assert (state["context"], [one["name"] for one in state["mailbox"]]) == ({"status": "checking"}, ["approve"])
        verdicts = [one["verdict"] for one in (await ask(client, "list_entries", process_id="case-gap"))["entries"]]
        assert verdicts == ["claim_won", "applied", "gap"]
        compared = await ask(client, "compare_processes", left="case-1@1", right="case-1")
        assert (compared["is_same"], compared["context"]["status"]) == (False, [None, "checking"])
        [letter] = (await ask(client, "list_dead_letters"))["letters"]
        shown = await ask(client, "show_dead_letter", place=letter["place"])
        assert shown["value"]
