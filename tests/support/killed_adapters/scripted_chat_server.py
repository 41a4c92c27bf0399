"""A model behind HTTP with the interface that Ollama and OpenAI have, whose answers follow a script.

``scripted_chat(script, on_call)`` serves while its block runs: point ``OLLAMA_BASE_URL`` at ``url``. The script is
given the number of tool results in a request, so a request that is repeated gets the same answer.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

__all__ = ["scripted_chat", "tool_call"]

Script = Callable[[int], str | list[dict[str, Any]]]
"""What the model says to so many tool results: a text, or calls of tools."""


def tool_call(name: str, arguments: dict[str, Any], call_id: str) -> dict[str, Any]:
    """Return a call of a tool."""
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}


@contextmanager
def scripted_chat(script: Script, on_call: Callable[[int], object] = lambda number: None) -> Iterator[str]:
    """Serve, and yield the URL. ``on_call`` is told the number of tool results before an answer."""

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            """Say nothing."""

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
            number = sum(message["role"] == "tool" for message in asked["messages"])
            on_call(number)
            says = script(number)
            message: dict[str, Any] = {"role": "assistant", "content": says if isinstance(says, str) else ""}
            if not isinstance(says, str):
                message["tool_calls"] = says
            answer = _streamed(message, asked) if asked.get("stream") else _answer("message", message, asked)
            self.send_response(200)
            self.send_header("content-type", "text/event-stream" if asked.get("stream") else "application/json")
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    serving.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        serving.join()
        server.server_close()


def _answer(part: str, message: dict[str, Any], asked: dict[str, Any], ends: str | None = "stop") -> bytes:
    kind = "chat.completion" if part == "message" else "chat.completion.chunk"
    return json.dumps({
        "id": "answer", "object": kind, "created": 1, "model": asked["model"],
        "choices": [{"index": 0, part: message, "finish_reason": ends}],
        "usage": {"prompt_tokens": 50, "completion_tokens": 20, "total_tokens": 70},
    }).encode()  # fmt: skip


def _streamed(message: dict[str, Any], asked: dict[str, Any]) -> bytes:
    chunks = [_answer("delta", message, asked, None), _answer("delta", {}, asked), b"[DONE]"]
    return b"".join(b"data: " + chunk + b"\n\n" for chunk in chunks)
