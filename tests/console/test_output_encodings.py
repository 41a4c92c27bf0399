"""What commands print where the output's encoding lacks a character: a pipe on Windows, or a locale of one byte."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from seekpoint import Node, Process, agent

TEXT = "Zoë \u2713 \U0001f44b"


@agent("greeter")
async def greeter(process: Process, name: str) -> str:
    """Return what it was given, by way of a step and a message."""
    await process.say("assistant", name)
    return await process.step("hello", str, name)


async def _run(path: Path) -> None:
    async with Node.local(path) as node:
        await node.run(greeter, "p", TEXT)


@pytest.mark.parametrize("encoding", ["cp1252", "ascii", "utf-8"])
def test_a_command_prints_each_character_or_its_escape(tmp_path: Path, encoding: str) -> None:
    """A JSON document is the same document in each encoding."""
    asyncio.run(_run(tmp_path / "runs.db"))
    environ = {
        **{name: value for name, value in os.environ.items() if not name.startswith("SEEKPOINT_")},
        "SEEKPOINT_JOURNAL_URL": f"sqlite:///{tmp_path / 'runs.db'}", "PYTHONIOENCODING": encoding,
    }  # fmt: skip
    for command in (["result", "p"], ["log", "p"], ["steps", "p"], ["state", "p"], ["steps", "p", "--json"], ["ps"]):
        program = [sys.executable, "-m", "seekpoint", *command]
        ran = subprocess.run(program, env=environ, capture_output=True, cwd=tmp_path, check=False)
        assert ran.returncode == 0, ran.stderr
        assert b"error" not in ran.stderr
        if command[0] == "result":
            assert json.loads(ran.stdout.decode(encoding)) == TEXT
        if command[-1] == "--json":
            assert TEXT in json.dumps(json.loads(ran.stdout.decode(encoding)), ensure_ascii=False)
