"""Values of LangGraph's serializer, read without building any object: types of users, messages and sets stay bytes."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Protocol

import ormsgpack

from seekpoint.adapters.langgraph.serialization import strict_serializer
from seekpoint.errors import Refused

Typed = tuple[str, bytes]
"""The serializer's type, and its bytes."""
_EXTENSIONS = range(8)
"""The numbers of the extensions of MessagePack that LangGraph's serializer writes."""


class Cipher(Protocol):
    """LangGraph's protocol of ciphers."""

    def encrypt(self, plaintext: bytes) -> tuple[str, bytes]:
        """Return the cipher's name and the encrypted bytes."""

    def decrypt(self, ciphername: str, ciphertext: bytes) -> bytes:
        """Return the bytes."""


@dataclass(frozen=True, slots=True)
class Opaque:
    """A value that is compared by its bytes: an extension of MessagePack by which LangGraph writes a type."""

    type: int
    data: bytes


class OpaqueSerializer:
    """Reads values for a comparison. It never builds an object and never loads a pickle.

    What it cannot read is not copied either: ``Refused`` for an encrypted value without its key, a plain one where
    there is a key, a type that LangGraph's serializer does not write, and bytes that are not of their type.
    """

    def __init__(self, cipher: Cipher | None = None) -> None:
        self.cipher = cipher

    def loads_typed(self, data: Typed) -> Any:
        """Return plain data, with ``Opaque`` for each value that is no plain data."""
        kind, content = self.opened(data)
        if kind == "null":
            return None
        if kind in ("bytes", "bytearray"):
            return content
        try:
            if kind == "json":
                return json.loads(content)
            if kind == "msgpack":
                return ormsgpack.unpackb(content, ext_hook=_typed, option=ormsgpack.OPT_NON_STR_KEYS)
        except (ValueError, RecursionError) as exc:
            raise Refused(
                f"a value of the source is damaged: {exc}",
                kind=kind,
                hint="restore the source, or leave the thread out",
            ) from exc
        raise Refused(
            "a value of the source has a type that LangGraph's serializer does not write", kind=kind[:40],
            hint="write it with LangGraph's own serializer, or leave the thread out",
        )  # fmt: skip

    def checked(self, data: Typed) -> Typed:
        """Return a value that can be read, as it is stored. Raises ``Refused`` for any other."""
        if self.cipher is not None and "+" not in data[0]:
            raise Refused(
                "a value of the source is not encrypted, and LANGGRAPH_AES_KEY is set", kind=data[0][:40],
                hint="unset LANGGRAPH_AES_KEY if the source is not encrypted; else leave the thread out",
            )  # fmt: skip
        self.loads_typed(data)
        return data

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
        if "+" not in kind:
            return data
        if self.cipher is None:
            raise Refused(
                "a value of the source is encrypted", kind=kind[:40],
                hint="set LANGGRAPH_AES_KEY to the key of the source",
            )  # fmt: skip
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
    return ormsgpack.Ext(value.type, value.data)


def _typed(code: int, data: bytes) -> Opaque:
    if code not in _EXTENSIONS:
        raise ValueError(f"LangGraph has no extension of MessagePack with the number {code}")
    return Opaque(code, data)
