"""Tell which requests of a client are model calls, and what the journal has of them. Pure.

The request of a decision is the JSON that the client sends. It has two more members if they are not empty: ``_query``
has the parameters of the URL, ``_headers`` those headers that change what the API does. Keys and hosts are left out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlsplit, urlunsplit

from seekpoint.adapters.credentials import is_credential, without_credentials
from seekpoint.errors import Refused

_HEADERS = ("anthropic-beta", "openai-beta")
_QUERY, _HEADERS_MEMBER = "_query", "_headers"
_OWN = frozenset({_QUERY, _HEADERS_MEMBER})
_TOOLS = frozenset({"tools", "mcp_servers"})
_SCHEMAS = frozenset({"function", "functionDeclarations", "function_declarations", "input_schema", "parameters"})
"""Members of a tool whose parameters may have any name."""
_VERSION = re.compile(r"^(?:v\d+[a-z0-9]*/)?(?:deployments/[^/]+/)?")
_GOOGLE_METHOD = re.compile(r"^(?P<before>.*/)(?P<model>[^/:]+):(?P<method>\w+)$")


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One model call of a client."""

    name: str
    recorded: dict[str, Any]
    """The request as the journal has it."""
    is_stream: bool
    url: str
    body: bytes
    url_of: Callable[[str, Mapping[str, Any]], str]
    has_model_in_body: bool = True

    def sent(self, asked: Mapping[str, Any]) -> tuple[str, bytes]:
        """Return the URL and the body to send for ``asked``: ``recorded``, or the same with another model."""
        if asked is self.recorded:
            return self.url, self.body
        given = json.loads(self.body)  # has the keys that the record lacks
        members = {
            name: given.get(name, value) if value == self.recorded.get(name) else value
            for name, value in asked.items()
            if name not in _OWN
        }
        if not self.has_model_in_body:
            del members["model"]
        return self.url_of(self.url, asked), json.dumps(members, ensure_ascii=False).encode()


@dataclass(frozen=True, slots=True)
class Api:
    """One kind of API: how its requests are read, and how it answers."""

    name: str
    read: Callable[[str, Mapping[str, str], dict[str, Any], bytes], ModelRequest | None]
    request_id_header: str = "x-request-id"
    also_busy: frozenset[int] = frozenset()
    """Statuses that the client of this API sends again, besides 408, 429 and those from 500 on."""

    def model_request(self, method: str, url: str, headers: Mapping[str, str], body: bytes) -> ModelRequest:
        """Return the model call that a request makes. Raises ``Refused`` for any other request."""
        found = None
        if method == "POST" and "json" in headers.get("content-type", "json"):
            try:
                members = json.loads(body)
            except ValueError:
                members = None
            found = self.read(url, headers, members, body) if isinstance(members, dict) else None
        if found is None:
            raise Refused(
                "a wrapped client makes model calls only: JSON requests that name a model",
                call=f"{method} {urlsplit(url).path}",
                hint="make this call in a step (process.step), with the client that is not wrapped",
            )
        return found


def api_of_paths(name: str, base_url: str, request_id_header: str) -> Api:
    """Return an API whose paths name what is asked for, as ``/chat/completions``, and whose bodies name the model."""
    base = urlsplit(base_url).path

    def read(url: str, headers: Mapping[str, str], members: dict[str, Any], body: bytes) -> ModelRequest | None:
        if not isinstance(members.get("model"), str):
            return None
        path = urlsplit(url).path
        asked = _VERSION.sub("", path.removeprefix(base).strip("/")).replace("/", ".")
        recorded = {**_without_keys(members), **_beside(url, headers)}
        is_stream = members.get("stream") is True
        return ModelRequest(f"{name}.{asked}", recorded, is_stream, url, body, lambda url, _: url)

    return Api(name, read, request_id_header, frozenset({409}))


def _read_google(url: str, headers: Mapping[str, str], members: dict[str, Any], body: bytes) -> ModelRequest | None:
    found = _GOOGLE_METHOD.match(urlsplit(url).path)
    if found is None:
        return None
    method = found["method"]
    is_stream = method.startswith("stream")
    asked = re.sub(r"(?<=[a-z])([A-Z])", r"_\1", method.removeprefix("stream")).lower()
    recorded = {**_without_keys(members), "model": unquote(found["model"]), **_beside(url, headers, ("alt", "key"))}
    return ModelRequest(f"google.{asked}", recorded, is_stream, url, body, _google_url, "model" in members)


def _google_url(url: str, asked: Mapping[str, Any]) -> str:
    parts = urlsplit(url)
    path = _GOOGLE_METHOD.sub(
        lambda found: f"{found['before']}{quote(str(asked['model']), safe='')}:{found['method']}", parts.path
    )
    return urlunsplit(parts._replace(path=path))


GOOGLE = Api("google", _read_google)
"""Google's APIs, whose URLs name the model: ``/models/NAME:generateContent``."""


def _without_keys(members: Mapping[str, Any]) -> dict[str, Any]:
    """Return the members of a request without the keys with which the provider calls tools of others."""
    return {
        name: [_tool(one) if isinstance(one, dict) else one for one in value]
        if name in _TOOLS and isinstance(value, list)
        else value
        for name, value in members.items()
    }


def _tool(tool: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: value if name in _SCHEMAS else without_credentials(value)
        for name, value in tool.items()
        if not is_credential(name)
    }


def _beside(url: str, headers: Mapping[str, str], without: tuple[str, ...] = ("key",)) -> dict[str, Any]:
    given = parse_qsl(urlsplit(url).query)
    query = {name: value for name, value in given if name not in without and not is_credential(name)}
    kept = {name: headers[name] for name in _HEADERS if name in headers}
    return {name: value for name, value in ((_QUERY, query), (_HEADERS_MEMBER, kept)) if value}
