"""The Model Context Protocol on a journal: clients of streamable HTTP resume on any node. Needs the extra ``mcp``.

    a session of a client              a process of the journal, which any node may write to
    an event of a stream               a record of the process; its seq is the id of the event
    Last-Event-ID on any node          the records of the stream behind it, and what any node adds later

>>> from mcp.server import Server
>>> from seekpoint import Node
>>> from seekpoint.adapters.mcp import streamable_http_app
>>> async def program():
...     async with Node.in_memory() as node:
...         return streamable_http_app(Server("shop"), node)
"""

from seekpoint.adapters.mcp_release import require_mcp

require_mcp("seekpoint.adapters.mcp")  # before the SDK says which of its modules is missing

from seekpoint.adapters.mcp.event_store import SeekpointEventStore  # noqa: E402
from seekpoint.adapters.mcp.session_manager import SeekpointSessionManager, streamable_http_app  # noqa: E402

__all__ = ["SeekpointEventStore", "SeekpointSessionManager", "streamable_http_app"]
