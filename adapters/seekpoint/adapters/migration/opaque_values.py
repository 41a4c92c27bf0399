"""Values of LangGraph's serializer, read without building any object: types of users, messages and sets stay bytes."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Protocol

import ormsgpack

from seekpoint.adapters.langgraph.serialization import strict_serializer
from seekpoint.errors import Refused

__all__ = ["Cipher", "Opaque", "OpaqueSerializer", "Typed", "are_equal", "cipher_of_environment", "is_pickle"]

Typed = tuple[str, bytes]
"""The serializer's type, and its bytes."""


class Cipher(Protocol):
    """LangGraph's protocol of ciphers."""

    def encrypt(self, plaintext: bytes) -> tuple[str, bytes]:
        """Return the cipher's name and the encrypted bytes."""

    def decrypt(self, ciphername: str, ciphertext: bytes) -> bytes:
        """Return the bytes."""


@dataclass(frozen=True, slots=True)
class Opaque:
    """A value that is compared by its bytes: an extension of MessagePack, or an encrypted value without a key."""

    type: int | str
    data: bytes


class OpaqueSerializer:
    """Reads values for a comparison. It never builds an object and never loads a pickle."""

    def __init__(self, cipher: Cipher | None = None) -> None:
        self.cipher = cipher

    def loads_typed(self, data: Typed) -> Any:
        """Return plain data, with ``Opaque`` for each value that is no plain data."""
        kind, content = self.opened(data)
        if "+" in kind:
            return Opaque(kind, content)
        if kind == "null":
            return None
        if kind in ("bytes", "bytearray"):
            return content
        if kind == "json":
            return json.loads(content)
        if kind == "msgpack":
            return ormsgpack.unpackb(content, ext_hook=Opaque, option=ormsgpack.OPT_NON_STR_KEYS)
        raise NotImplementedError(f"unknown type {kind}")

    def dumps_typed(self, obj: Any) -> Typed:
        """Write plain data. Integers beyond 64 bits are JSON."""
        try:
            kind, data = strict_serializer().dumps_typed(obj)
        except (TypeError, ValueError, OverflowError):
            kind, data = "json", json.dumps(obj).encode()
        return self.sealed((kind, data))

    def opened(self, data: Typed) -> Typed:
        """Return a value that is no longer encrypted, if there is a key."""
        kind, content = data
        if "+" not in kind or self.cipher is None:
            return data
        inner, _, name = kind.partition("+")
        try:
            return inner, self.cipher.decrypt(name, content)
        except Exception as exc:
            raise Refused(
                "an encrypted value of the source cannot be read with this key", kind=kind,
                hint="set LANGGRAPH_AES_KEY to the key that the source was written with",
            ) from exc  # fmt: skip

    def sealed(self, data: Typed) -> Typed:
        """Return a value encrypted, if there is a key."""
        if self.cipher is None:
            return data
        name, content = self.cipher.encrypt(data[1])
        return f"{data[0]}+{name}", content


def cipher_of_environment(key: str | None) -> Cipher | None:
    """Return the cipher of LangGraph's ``EncryptedSerializer`` for the key of ``LANGGRAPH_AES_KEY``; None without."""
    if not key:
        return None
    from langgraph.checkpoint.serde.encrypted import EncryptedSerializer

    try:
        return EncryptedSerializer.from_pycryptodome_aes(key=key.encode()).cipher
    except ImportError as exc:
        raise Refused("an encrypted source needs pycryptodome", hint="pip install pycryptodome") from exc


def is_pickle(kind: str | None) -> bool:
    """Return whether a value is a pickle, encrypted or not."""
    return (kind or "").partition("+")[0] == "pickle"


def are_equal(one: Any, other: Any) -> bool:
    """Return whether two values that ``OpaqueSerializer`` has read are the same, bit by bit."""
    try:
        return _packed(one) == _packed(other)
    except (TypeError, ValueError):  # what MessagePack cannot write: integers beyond 64 bits
        return bool(one == other)


def _packed(value: Any) -> bytes:
    return ormsgpack.packb(
        value, default=_extension, option=ormsgpack.OPT_NON_STR_KEYS | ormsgpack.OPT_PASSTHROUGH_DATACLASS
    )


def _extension(value: Any) -> Any:
    if not isinstance(value, Opaque):
        raise TypeError(type(value).__name__)
    if isinstance(value.type, int):
        return ormsgpack.Ext(value.type, value.data)
    return [value.type, value.data]
