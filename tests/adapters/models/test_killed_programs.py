"""A program that is killed with -9 between and within model calls: a server on this machine counts what it is asked."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from scripted_api import recorded

PROGRAM = textwrap.dedent(
    """
    import asyncio, sys
    from anthropic import AsyncAnthropic
    from openai import AsyncOpenAI
    from seekpoint import Node
    from seekpoint.adapters.models import wrap_anthropic, wrap_openai

    url, journal, stops_after = sys.argv[1], sys.argv[2], int(sys.argv[3])
    asked = [{"role": "user", "content": "Where is order-4711?"}]

    async def stop_after(number):
        if number == stops_after:
            print("stopped", flush=True)
            await asyncio.sleep(60)

    async def main():
        async with Node.local(journal) as node, node.open("p") as process:
            chats = wrap_openai(process, AsyncOpenAI(api_key="k", base_url=f"{url}/v1"))
            messages = wrap_anthropic(process, AsyncAnthropic(api_key="k", base_url=url))
            said = await chats.chat.completions.create(model="m", messages=asked)
            await stop_after(1)
            words = []
            async for one in await chats.chat.completions.create(model="m", messages=asked, stream=True):
                words += [one.choices[0].delta.content or ""] if one.choices else []
                await stop_after(len(words) + 100)
            await stop_after(2)
            async with messages.messages.stream(model="m", max_tokens=9, messages=asked) as stream:
                last = await stream.get_final_message()
            print(said.choices[0].message.tool_calls[0].id, "".join(words), last.content[1].id, flush=True)

    asyncio.run(main())
    """
)


class Api(ThreadingHTTPServer):
    """The recorded answers, by the path of the request."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.asked: list[str] = []
        self.stalls = threading.Event()
        """While it is set, a stream stands still before its end."""
        self.go_on = threading.Event()

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Api

    def do_POST(self) -> None:
        asked: Any = json.loads(self.rfile.read(int(self.headers["content-length"])))
        is_stream = asked.get("stream") is True
        name = "anthropic_message" if self.path.endswith("/messages") else "openai_chat"
        self.server.asked.append(f"{name} {'stream' if is_stream else 'whole'}")
        found = recorded(f"{name}.{'sse' if is_stream else 'json'}")
        self.send_response(200)
        self.send_header("content-type", "text/event-stream" if is_stream else "application/json")
        pieces = (
            [f"{one}\n\n".encode() for one in found.split("\n\n") if one] if is_stream else [json.dumps(found).encode()]
        )
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        with suppress(ConnectionError):  # the program was killed
            for left, piece in zip(range(len(pieces), -1, -1), (*pieces, b""), strict=True):
                if is_stream and left == 2 and self.server.stalls.is_set():
                    self.server.go_on.wait(60)
                self.wfile.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")

    def log_message(self, format: str, *arguments: Any) -> None:
        """Say nothing."""


@pytest.fixture
def api() -> Iterator[Api]:
    with Api() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_a_killed_program_asks_only_for_what_is_not_recorded(api: Api, tmp_path: Path) -> None:
    """Killed in the middle of a stream, then after it: only the stream that was under way is asked for again."""
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    command = [sys.executable, str(program), api.url, str(tmp_path / "journal.db")]
    api.stalls.set()
    for stops_after in (103, 2):
        with subprocess.Popen([*command, str(stops_after)], stdout=subprocess.PIPE, text=True) as killed:
            assert killed.stdout is not None
            assert killed.stdout.readline() == "stopped\n"
            killed.send_signal(signal.SIGKILL)
        api.stalls.clear()
        api.go_on.set()
    assert api.asked == ["openai_chat whole", "openai_chat stream", "openai_chat stream"]
    done = subprocess.run([*command, "0"], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "call_abc123 I look it up — now. toolu_01T1x1fJ34qAmk2tNTrN7Up6\n"
    assert api.asked == ["openai_chat whole", "openai_chat stream", "openai_chat stream", "anthropic_message stream"]
