"""What the session manager overrides and reads of the MCP SDK, which has no public way to serve another node's session.

A test here fails where the SDK changes any of it: look at ``session_manager.py`` then, before the test.
"""

from __future__ import annotations

import inspect
import sys
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import pytest
from mcp.server.mcpserver import MCPServer
from mcp.server.streamable_http import StreamableHTTPServerTransport
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

from seekpoint.adapters.mcp import SeekpointSessionManager
from seekpoint.console.commands.journal.mcp import mcp
from seekpoint.errors import InvalidSetting

OVERRIDDEN = {
    "_admit_session": (["requestor"], "_handle_stateful_request"),
    "_serve_opening_request": (["http_transport", "scope", "receive", "send"], "_handle_stateful_request"),
    "_handle_stateful_request": (["scope", "receive", "send"], "_handle_request"),
    "_discard_session": (["session_id", "transport"], "_serve_opening_request"),
}
"""By method: its parameters, and who calls it."""


@pytest.mark.parametrize("name", OVERRIDDEN)
def test_the_sdk_calls_what_is_overridden(name: str) -> None:
    """With these parameters, and as a coroutine or not, as here."""
    parameters, caller = OVERRIDDEN[name]
    own, theirs = getattr(SeekpointSessionManager, name), getattr(StreamableHTTPSessionManager, name)
    assert own is not theirs
    for one in (own, theirs):
        assert [*inspect.signature(one).parameters][1:] == parameters
    assert inspect.iscoroutinefunction(own) == inspect.iscoroutinefunction(theirs)
    assert f"self.{name}(" in inspect.getsource(getattr(StreamableHTTPSessionManager, caller))


@pytest.mark.parametrize(
    ("where", "attribute"),
    [
        (StreamableHTTPSessionManager.__init__, "_server_instances"),
        (StreamableHTTPSessionManager.__init__, "_session_owners"),
        (StreamableHTTPSessionManager.__init__, "_task_group"),
        (StreamableHTTPSessionManager, "_lifespan_state"),
        (StreamableHTTPServerTransport.__init__, "_event_store"),
        (MCPServer.__init__, "_lowlevel_server"),
    ],
)
def test_the_sdk_has_what_is_read(where: Any, attribute: str) -> None:
    """Each is an attribute of an object of its own."""
    assert f"self.{attribute}" in inspect.getsource(where)


def test_the_sdk_has_no_public_way() -> None:
    """If its manager gets one, such as a hook that makes a session, it is to be used instead."""
    public = [name for name, _ in inspect.getmembers(StreamableHTTPSessionManager) if not name.startswith("_")]
    assert public == ["handle_request", "run"]


@pytest.mark.parametrize(
    ("found", "is_refused"), [("1.27.0", True), ("2.2.9", True), ("2.3.0rc1", False), ("3", False)]
)
def test_an_older_sdk_is_named_at_import(found: str, is_refused: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the advice, and in place of a missing module of the SDK; so does ``seekpoint mcp``."""
    monkeypatch.setattr("seekpoint.adapters.mcp_release.version", {"mcp": found}.__getitem__)
    monkeypatch.delitem(sys.modules, "seekpoint.adapters.mcp")
    if is_refused:
        for failing in (lambda: import_module("seekpoint.adapters.mcp"), lambda: mcp(SimpleNamespace())):  # type: ignore[arg-type]
            with pytest.raises(InvalidSetting, match=rf"found=mcp {found}.*; pip install .*in an environment without"):
                failing()
    else:
        import_module("seekpoint.adapters.mcp")
