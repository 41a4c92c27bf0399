"""The tool that checks code against recorded histories, in a program of its own: it always runs the code of now."""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
from typing import Annotated, Any

import anyio
import orjson
from msgspec import Meta

from seekpoint.console.mcp.tool_declarations import Arguments, Document, Limit, ProcessId, Tool, ToolCall, ToolFailed
from seekpoint.producers.durable.replay.conduct import Detail

_OUTPUT_BYTES_MAX = 64 * 1_048_576
_STDERR_LINES_MAX = 20
_LINE_CHARACTERS_MAX = 500


class _CheckReplay(Arguments, frozen=True, kw_only=True, forbid_unknown_fields=True):
    process_id: Annotated[ProcessId, Meta(description="Check this process. Leave it out to check many.")] | None = None
    every: Annotated[
        str,
        Meta(
            description="Without process_id: check the processes that have not ended (open), or also ended ones (all).",
            extra_json_schema={"enum": ["open", "all"]},
        ),
    ] = "open"
    agent: Annotated[str, Meta(description="Only this agent of the modules, by its name.")] | None = None
    since: (
        Annotated[str, Meta(description="Of many: only those with an entry since then, such as 2h or 7d.")] | None
    ) = None
    limit: Annotated[Limit, Meta(description="Of many: at most so many.")] = 100
    detail: Annotated[
        str,
        Meta(
            description="The detail that the processes ran with.",
            extra_json_schema={"enum": [str(one) for one in Detail]},
        ),
    ] = "full"
    timeout_s: Annotated[float, Meta(gt=0, le=600, description="Give up after so many seconds.")] = 120


async def _check_replay(call: ToolCall, given: _CheckReplay) -> Document:
    if not call.modules:
        raise ToolFailed(
            "NoCode", "this server has no code to check",
            "ask the user to start it with the modules of the agents: seekpoint mcp -m shop.agents",
        )  # fmt: skip
    for name in ("agent", "since", "detail"):
        text = getattr(given, name)
        if text is not None and not text.isprintable():
            raise ToolFailed("InvalidArgument", f"{name} is {text!r}"[:200], "give a text without control characters")
    if given.every not in ("open", "all"):
        raise ToolFailed("InvalidArgument", f"every is {given.every!r}", "give open or all")
    command = [sys.executable, "-m", "seekpoint", "replay-check", *_words(call, given)]
    try:
        with anyio.fail_after(given.timeout_s):
            done = await anyio.run_process(command, stdin=subprocess.DEVNULL, check=False)
    except TimeoutError:
        raise ToolFailed(
            "TimedOut", f"the replay check did not end in {given.timeout_s:g} s", "check fewer processes: limit, since"
        ) from None
    return _report(call, done)


def _words(call: ToolCall, given: _CheckReplay) -> list[str]:
    """Return the words of the command line. No argument of the tool can become an option of its own."""
    words = [*(f"--module={module}" for module in call.modules), f"--detail={given.detail}", "--json"]
    words += [] if given.agent is None else [f"--agent={given.agent}"]
    words += call.target.words
    if given.process_id is not None:
        return [*words, "--", given.process_id]
    words += [f"--{given.every}", f"--limit={given.limit}"]
    return words if given.since is None else [*words, f"--since={given.since}"]


def _report(call: ToolCall, done: subprocess.CompletedProcess[bytes]) -> Document:
    said = [line[:_LINE_CHARACTERS_MAX] for line in done.stderr.decode(errors="replace").splitlines() if line.strip()]
    if len(done.stdout) > _OUTPUT_BYTES_MAX:
        raise ToolFailed("TooMuch", "the report has more than 64 MiB", "check fewer processes: limit, since")
    found = _parsed(done.stdout)
    if found is None:
        raise _failure(said, done.returncode)
    for line in said[-_STDERR_LINES_MAX:]:
        call.note(line)
    return found


def _parsed(output: bytes) -> Document | None:
    """Return the report. The code of an agent may have written in front of it."""
    for text in (output, output.rstrip().rpartition(b"\n")[2]):
        try:
            found = orjson.loads(text)
        except orjson.JSONDecodeError:
            continue
        if isinstance(found, dict):
            return found
    return None


def _failure(said: list[str], code: int) -> ToolFailed:
    """Return the error of the command: the last line on stderr, as JSON."""
    error: Any = None
    with suppress(orjson.JSONDecodeError, KeyError, TypeError):
        error = orjson.loads(said[-1])["error"] if said else None
    if isinstance(error, dict) and {"code", "message"} <= error.keys():
        return ToolFailed(error["code"], error["message"], error.get("advice", ""), error.get("facts"))
    text = " | ".join(said[-_STDERR_LINES_MAX:]) or "it said nothing"
    return ToolFailed(
        "CheckFailed", f"the replay check wrote no report and ended with {code}: {text}",
        "the agents' code must not write to standard output; try seekpoint replay-check in a terminal",
    )  # fmt: skip


REPLAY_TOOLS = (
    Tool(
        name="check_replay", title="Check code against recorded runs", arguments=_CheckReplay, run=_check_replay,
        description="Run the agents' code of now, as it is in the files, against the recorded history of one"
        " process or of many, and name the first difference. No step, model call, effect or wait is"
        " executed and nothing is written; the code between the calls runs. Use it after a change of"
        " code, before it is deployed. The server has to be started with the agents' modules (-m).",
    ),
)  # fmt: skip
