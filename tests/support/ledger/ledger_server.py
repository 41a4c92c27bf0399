"""The outside world as a process of its own: ``python ledger_server.py FILE``; prints its port, then serves.

A line of JSON in, a line of JSON out. ``{"what": "call", "key", "by"}`` is a call with an idempotency key: it is done.
``{"what": "find", "key"}`` asks whether it was. Everything is a line of the file, in the order it came.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from contextlib import suppress
from pathlib import Path

__all__: list[str] = []


async def main(path: Path) -> None:
    """Serve until killed."""
    done: set[str] = set()
    with path.open("a", buffering=1) as file:

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with suppress(ConnectionError):  # whoever asked was killed
                while (line := await reader.readline()).endswith(b"\n"):
                    asked = json.loads(line)
                    file.write(json.dumps(asked | {"at": time.time()}) + "\n")
                    was_done = asked["key"] in done
                    if asked["what"] == "call":
                        done.add(asked["key"])
                        await asyncio.sleep(asked.get("takes_s", 0))
                    writer.write(json.dumps({"done": was_done}).encode() + b"\n")
                    await writer.drain()
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        print(server.sockets[0].getsockname()[1], flush=True)
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
