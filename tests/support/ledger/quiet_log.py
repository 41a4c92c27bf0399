"""The invariant of rule R3 on a real log: when nothing arrives and no timer is due, nobody appends."""

from __future__ import annotations

import asyncio

from seekpoint.producers import Client

__all__ = ["until_quiet"]


async def until_quiet(client: Client, still_s: float = 5.0, patience_s: float = 60.0) -> list[str]:
    """Wait until the journal's topic has not grown for ``still_s``; return the fault of a log that does not stop."""
    reader, clock = client._runtime.reader, asyncio.get_running_loop().time

    def length() -> int:
        return sum(reader.watermarks(partition).high for partition in range(reader.partitions))

    began, since = (clock(), await asyncio.to_thread(length)), clock()
    newest = began[1]
    while clock() - since < still_s:
        if clock() - began[0] > patience_s:
            return [f"the log did not become quiet: {newest - began[1]} records in {patience_s:g} s"]
        await asyncio.sleep(0.2)
        seen = await asyncio.to_thread(length)
        if seen != newest:
            newest, since = seen, clock()
    return []
