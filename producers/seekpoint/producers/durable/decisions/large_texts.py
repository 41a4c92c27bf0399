"""What the record of a request has otherwise: references to its large texts, and no URLs of tools.

The digest of a decision is that of the whole request. So the references, which name the process, change no identity,
and a run that was recorded with the URLs goes on.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Any

import msgspec

from seekpoint.schemas.config.limits import Limits
from seekpoint.schemas.values.attachment_ref import DEFAULT_MEDIA_TYPE, Ref

_SHARE = 16
"""An entry keeps this part of its bytes free for all that is beside the request; a text of this size is large."""


def is_too_large(text: str, limits: Limits) -> bool:
    """Whether the JSON text of a request does not fit into an entry."""
    room = limits.record_bytes - limits.record_bytes // _SHARE
    return len(text) * 4 > room and len(text.encode()) > room


def has_tool_urls(text: str) -> bool:
    """Whether the JSON text of a request may have the URL of a tool."""
    return '"server_url":' in text


def without_tool_urls(value: Any) -> Any:
    """Return a value of JSON without the ``server_url`` of MCP tools: it often has a key in its path.

    >>> without_tool_urls({"tools": [{"type": "mcp", "server_label": "shop", "server_url": "https://mcp.example/key"}]})
    {'tools': [{'type': 'mcp', 'server_label': 'shop'}]}
    """
    if isinstance(value, list):
        return [without_tool_urls(member) for member in value]
    if not isinstance(value, Mapping):
        return value
    left_out = "server_url" if value.get("type") == "mcp" else None
    return {name: without_tool_urls(member) for name, member in value.items() if name != left_out}


def with_references(value: Any, process_id: str, limits: Limits, attached: dict[Ref, bytes]) -> Any:
    """Return a value of JSON with references in place of its large texts and bytes, which go into ``attached``."""
    if isinstance(value, Mapping):
        return {name: with_references(member, process_id, limits, attached) for name, member in value.items()}
    if isinstance(value, list):
        return [with_references(member, process_id, limits, attached) for member in value]
    if isinstance(value, Ref):  # in the record of a fork it names the process that the call was made in
        return msgspec.structs.replace(value, process_id=process_id)
    if not isinstance(value, str | bytes):
        return value
    data = value.encode() if isinstance(value, str) else value
    if len(data) < limits.record_bytes // _SHARE:
        return value
    media_type = DEFAULT_MEDIA_TYPE if data is value else "text/plain; charset=utf-8"
    ref = Ref(sha256(data).hexdigest(), len(data), process_id, media_type)
    attached[ref] = data
    return ref
