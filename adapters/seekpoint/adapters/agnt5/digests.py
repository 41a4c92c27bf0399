"""The identities and digests of AGNT5's durable activations (V1), bit for bit as its SDKs compute them.

They do not need the SDK. What a journal is found by must not follow a change of the SDK unnoticed, so this module
computes them on its own, and tests compare both.
"""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from collections.abc import Mapping, Sequence
from hashlib import sha256
from math import isfinite
from struct import pack
from typing import Any

from seekpoint.errors import UnserializableValue

_IDENTITY = b"agnt5.activation.identity.v1\0"
_DEFINITION = b"agnt5.activation.definition.v1\0"
_PROTOCOL = b"durable_activation_v1"
_I64_MIN, _I64_MAX = -(2**63), 2**63 - 1
_SHA256_BYTES = 32


def activation_id(project_id: str, run_id: str, parent_activation_id: str, kind: int, stable_key: str) -> str:
    """Return the id of an activation: what makes it the same one in each run of the code.

    >>> activation_id("project-1", "run-1", "parent-1", 1, "step/load")
    'actv1_9LU0V32sQX2U3CaQSCW37t-WWSvBAe04qTWqTD6mN-w'
    """
    where = b"".join(_frame(text.encode()) for text in (project_id, run_id, parent_activation_id))
    digest = sha256(_IDENTITY + where + pack(">I", kind) + _frame(stable_key.encode())).digest()
    return f"actv1_{_base64(digest)}"


def definition_digest(artifact_sha256: bytes, component_name: str, version: str, config: bytes) -> bytes:
    """Return the digest of the code that an activation belongs to. ``config`` is canonical JSON.

    Raises ``UnserializableValue`` for another artifact digest than one of 32 bytes, and for other JSON.
    """
    if len(artifact_sha256) != _SHA256_BYTES:
        raise UnserializableValue(f"the SHA-256 of an artifact has 32 bytes, not {len(artifact_sha256)}", path="$")
    try:
        written = _compact(json.loads(config))
    except ValueError as exc:
        raise UnserializableValue(f"the configuration of a definition is no JSON: {exc}", path="$") from exc
    if written != config:
        raise UnserializableValue("the configuration of a definition is not written canonically", path="$")
    parts = (artifact_sha256, component_name.encode(), version.encode(), _PROTOCOL, config)
    return sha256(_DEFINITION + b"".join(map(_frame, parts))).digest()


def input_digest(value: Any, *, unsigned: type | None = None) -> bytes:
    """Return the SHA-256 of a value's canonical form.

    >>> input_digest({"count": 2}).hex()[:16]
    '1bb2f432884a7511'
    """
    return sha256(canonical_value(value, unsigned=unsigned)).digest()


def canonical_value(value: Any, *, unsigned: type | None = None) -> bytes:
    """Return a value as tagged canonical JSON. Integers of the type ``unsigned`` are written as unsigned ones.

    Raises ``UnserializableValue``, with the path, for NaN and infinity, for integers beyond 64 bits, for keys that are
    no text, for lone surrogates, and for values of other types.

    >>> canonical_value({"name": "Ada", "age": 36})
    b'["object",[["age",["i64","36"]],["name",["string","Ada"]]]]'
    """
    return _compact(_tagged(value, "$", unsigned))


def step_key(name: str, ordinal: int, explicit_key: str | None = None) -> str:
    """Return the stable key of a step: by its own key, or by how many steps the workflow made before it.

    >>> step_key("load", 0), step_key("load", 0, "item-42")
    ('step:load:0', 'step:load:item-42')
    """
    if not name:
        raise UnserializableValue("a step has a name", path="$")
    if explicit_key is None and ordinal < 0:
        raise UnserializableValue(f"the number of a step is not negative: {ordinal}", path="$")
    if explicit_key == "":
        raise UnserializableValue("the key of a step is not empty", path="$")
    return f"step:{name}:{ordinal if explicit_key is None else explicit_key}"


def content_hash(content: Mapping[str, Any]) -> str:
    """Return the hash by which the older checkpoints tell whether a call is the recorded one.

    Of a model call it covers the model, the messages' roles and contents, the temperature and ``max_tokens``; of a tool
    call its name and its arguments. Nothing else of a request counts.

    >>> content_hash({"tool": "search", "args": {"q": "shoes"}})
    '2f2471b58fbebfb1'
    """
    return sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()[:16]


def _tagged(value: Any, path: str, unsigned: type | None) -> list[Any]:
    if value is None:
        return ["null"]
    if isinstance(value, bool):
        return ["bool", value]
    if isinstance(value, int):
        return _integer(value, path, unsigned)
    if isinstance(value, float):
        if not isfinite(value):
            raise UnserializableValue("NaN and infinity have no canonical form", path=path)
        return ["f64", pack(">d", value or 0.0).hex()]  # minus zero is zero
    if isinstance(value, str):
        return ["string", _text(value, path)]
    if isinstance(value, bytes | bytearray | memoryview):
        return ["bytes", _base64(bytes(value))]
    if isinstance(value, list | tuple):
        return ["array", _items(value, path, unsigned)]
    if isinstance(value, dict):
        return ["object", _members(value, path, unsigned)]
    raise UnserializableValue(f"a value of type {type(value).__name__} has no canonical form", path=path)


def _integer(value: int, path: str, unsigned: type | None) -> list[Any]:
    if unsigned is not None and isinstance(value, unsigned):
        return ["u64", str(value)]
    if not _I64_MIN <= value <= _I64_MAX:
        raise UnserializableValue("an integer is beyond 64 bits", path=path)
    return ["i64", str(value)]


def _items(values: Sequence[Any], path: str, unsigned: type | None) -> list[Any]:
    return [_tagged(value, f"{path}[{index}]", unsigned) for index, value in enumerate(values)]


def _members(value: Mapping[Any, Any], path: str, unsigned: type | None) -> list[Any]:
    for key in value:
        if not isinstance(key, str):
            raise UnserializableValue(f"a key is text, not {type(key).__name__}", path=path)
        _text(key, path)
    return [[key, _tagged(value[key], f"{path}.{key}", unsigned)] for key in sorted(value)]


def _text(value: str, path: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError:
        raise UnserializableValue("a text with a lone surrogate", path=path) from None
    return value


def _compact(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def _base64(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode("ascii")


def _frame(data: bytes) -> bytes:
    return pack(">Q", len(data)) + data
