"""Values of LangGraph as texts of the journal, by a serializer that is never pickle."""

from __future__ import annotations

import copy
from binascii import a2b_base64, b2a_base64
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime
from types import FunctionType
from typing import Any

import ormsgpack
from langgraph.checkpoint.serde import jsonplus
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from seekpoint.errors import InvalidSetting, UndecodableRecord, UnserializableValue


class ExactSerializer(JsonPlusSerializer):
    """LangGraph's serializer without its changes: zones, folds and bounds of deques stay, lone surrogates are refused.

    LangGraph's own strict serializer reads what it writes.
    """

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        """Return a value as ``JsonPlusSerializer`` writes it. Raises ``TypeError`` for what that would change."""
        return super().dumps_typed(obj) if isinstance(obj, bytes | bytearray | None) else ("msgpack", _packed(obj))


def _packed(value: Any) -> bytes:
    return ormsgpack.packb(value, default=_extension, option=jsonplus._option & ~ormsgpack.OPT_REPLACE_SURROGATES)


_default = FunctionType(jsonplus._msgpack_default.__code__, {**vars(jsonplus), "_msgpack_enc": _packed})
"""LangGraph's way to write a type, with our way to write what is inside: it has no other hook for that."""


def _extension(value: Any) -> Any:
    if type(value) is datetime and repr(datetime.fromisoformat(value.isoformat())) != repr(value):
        names = ("year", "month", "day", "hour", "minute", "second", "microsecond", "tzinfo", "fold")
        members = {name: getattr(value, name) for name in names}
        return ormsgpack.Ext(jsonplus.EXT_CONSTRUCTOR_KW_ARGS, _packed(("datetime", "datetime", members)))
    if type(value) is deque and value.maxlen is not None:
        made_of = (tuple(value), value.maxlen)
        return ormsgpack.Ext(jsonplus.EXT_CONSTRUCTOR_POS_ARGS, _packed(("collections", "deque", made_of)))
    return _default(value)


def strict_serializer(allow: Iterable[type | tuple[str, str]] = ()) -> JsonPlusSerializer:
    """Return LangGraph's serializer in its strict form: it builds values of its own safe types, and of ``allow``."""
    return ExactSerializer(pickle_fallback=False, allowed_msgpack_modules=list(allow) or None)


def take_declared_types() -> None:
    """Have graphs that are compiled from now on tell their savers which types their states declare.

    LangGraph does so in its strict mode alone. Serializers that build every type, as its own do by default, ignore it.
    """
    with suppress(ImportError):  # the package langgraph need not be there
        from langgraph._internal import _serde

        vars(_serde)["STRICT_MSGPACK_ENABLED"] = True


def checked_serializer(serde: SerializerProtocol) -> SerializerProtocol:
    """Return ``serde``, exact if it is LangGraph's own.

    Raises ``InvalidSetting`` if it, or one inside it, would run code that a stored value names.
    """
    inner: Any = serde
    while (within := getattr(inner, "serde", None)) is not None:  # of a serializer that encrypts, or adapts another
        inner = within
    if getattr(inner, "pickle_fallback", False) or not hasattr(inner, "loads_typed"):
        raise InvalidSetting(
            "a journal holds no pickles, because loading one runs any code", setting="serde",
            hint="use the default serializer, and name your own types in allow=[...]",
        )  # fmt: skip
    # An attribute that LangGraph renames counts as permissive.
    if isinstance(inner, JsonPlusSerializer) and any(
        getattr(inner, f"_allowed_{form}_modules", True) is True for form in ("msgpack", "json")
    ):
        raise InvalidSetting(
            "this serializer builds any type that a stored value names, so whoever may write the journal runs code",
            setting="serde",
            hint="pass JsonPlusSerializer(allowed_msgpack_modules=[your types] or None), for encryption inside "
            "EncryptedSerializer.from_pycryptodome_aes(...)",
        )
    return _exact(serde)


def _exact(serde: Any) -> SerializerProtocol:
    if type(serde) is EncryptedSerializer:
        return EncryptedSerializer(serde.cipher, _exact(serde.serde))
    if type(serde) is JsonPlusSerializer:
        serde = copy.copy(serde)
        serde.__class__ = ExactSerializer
    exact: SerializerProtocol = serde
    return exact


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
    """Return a value that ``dumped`` has written.

    Raises ``UndecodableRecord`` for a type that is not allowed, and for plain data where the saver has a cipher: who
    does not know the key must not be able to write what the graph reads.
    """
    try:
        if "+" not in kind and getattr(serde, "cipher", None) is not None:
            raise ValueError("it is not encrypted, and the saver has a cipher")
        return serde.loads_typed((kind, a2b_base64(data) if isinstance(data, str) else data))
    except Exception as exc:  # of base64, a cipher with another key, or a type that the serializer does not know
        raise UndecodableRecord(
            f"the saver's serializer cannot read a stored value of the type {kind[:40]!r}: {exc}",
            hint="open the saver with the serializer that wrote it",
        ) from exc  # fmt: skip
