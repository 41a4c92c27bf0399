"""A server behind a load balancer, as a real process: it writes to any thread and reads any thread.

Run: ``shared_server.py``; settings come from the environment. It prints ``ready``. Then each line of the standard input
is a request and each line of the standard output an answer, in JSON; requests are worked on at the same time:

    {"id": 1, "do": "write", "thread": "t-1", "key": "r", "entry_id": "0..."} {"id": 1, "seq": 5, "is_repeated": false}
    {"id": 2, "do": "count", "thread": "t-1"}                                 {"id": 2, "seq": 6, "is_repeated": false}
    {"id": 3, "do": "read", "thread": "t-1"}                                  {"id": 3, "seq": 6, "context": {...}}

``write`` sets the context value KEY to 1. ``count`` reads the thread, and adds one to the value ``count`` if nobody has
written since; else it answers {"id": 2, "conflict": 7, "expected": 5}. Another error is {"id": 1, "error": "..."}.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from seekpoint import Node
from seekpoint.errors import AppendConflict, SeekpointError


async def answer(node: Node, request: dict[str, Any]) -> dict[str, Any]:
    """Do what the request says."""
    thread = await node.open(request["thread"], shared=True)
    if request["do"] == "read":
        state = await thread.read()
        return {"seq": state.seq, "context": dict(state.context)}
    if request["do"] == "count":
        state = await thread.read()
        try:
            done = await thread.update("count", state.context.get("count", 0) + 1, expected_seq=state.seq)
        except AppendConflict as error:
            return {"conflict": error.seq, "expected": state.seq}
        return {"seq": done.seq, "is_repeated": False}
    done = await thread.update(request["key"], 1, entry_id=bytes.fromhex(request["entry_id"]))
    return {"seq": done.seq, "is_repeated": done.is_repeated}


async def serve() -> None:
    """Answer until the standard input ends."""
    loop = asyncio.get_running_loop()
    lines = asyncio.StreamReader(limit=2**20)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    tasks = set[asyncio.Task[None]]()

    async def respond(request: dict[str, Any]) -> None:
        try:
            said = await answer(node, request)
        except SeekpointError as exc:
            said = {"error": f"{type(exc).__name__}: {exc}"}
        print(json.dumps({"id": request["id"], **said}), flush=True)

    async with Node.connect() as node:
        print("ready", flush=True)
        while line := await lines.readline():
            task = asyncio.create_task(respond(json.loads(line)))
            tasks.add(task)
            task.add_done_callback(tasks.discard)


if __name__ == "__main__":
    asyncio.run(serve())
