"""Values of LangGraph as texts of the journal, by a serializer that is never pickle."""

from __future__ import annotations

from binascii import a2b_base64, b2a_base64
from collections.abc import Iterable
from typing import Any

from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from seekpoint.errors import InvalidSetting, UndecodableRecord, UnserializableValue

__all__ = ["checked_serializer", "dumped", "loaded", "strict_serializer"]


def strict_serializer(allow: Iterable[type | tuple[str, str]] = ()) -> JsonPlusSerializer:
    """Return LangGraph's serializer in its strict form: it builds values of its own safe types, and of ``allow``."""
    return JsonPlusSerializer(pickle_fallback=False, allowed_msgpack_modules=list(allow) or None)


def checked_serializer(serde: SerializerProtocol) -> SerializerProtocol:
    """Return ``serde``. Raises ``InvalidSetting`` for one that falls back to pickle: loading it would run any code."""
    inner = serde.serde if isinstance(serde, EncryptedSerializer) else serde
    if getattr(inner, "pickle_fallback", False):
        raise InvalidSetting(
            "a journal holds no pickles, because loading one runs any code", setting="serde",
            hint="use the default serializer, and name your own types in allow=[...]",
        )  # fmt: skip
    return serde


def dumped(serde: SerializerProtocol, value: Any, what: str, name: str) -> tuple[str, str]:
    """Return the serializer's type and its bytes in base64. Raises ``UnserializableValue`` that names ``what``."""
    try:
        kind, data = serde.dumps_typed(value)
    except (TypeError, ValueError, OverflowError) as exc:
        raise UnserializableValue(
            f"LangGraph's serializer cannot write this {what}: {exc}", path=name, type=type(value).__name__,
            hint="keep plain data, messages, dataclasses or models in the graph's state",
        ) from exc  # fmt: skip
    return kind, b2a_base64(data, newline=False).decode()


def loaded(serde: SerializerProtocol, kind: str, data: str | bytes) -> Any:
    """Return a value that ``dumped`` has written. Raises ``UndecodableRecord`` for a type that is not allowed."""
    try:
        return serde.loads_typed((kind, a2b_base64(data) if isinstance(data, str) else data))
    except (NotImplementedError, ValueError) as exc:  # of base64, or of a cipher with another key
        raise UndecodableRecord(
            f"the saver's serializer cannot read a stored value of the type {kind!r}: {exc}",
            hint="open the saver with the serializer that wrote it",
        ) from exc  # fmt: skip
