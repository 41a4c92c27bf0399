"""Avro's binary encoding of the types in an entry: numbers, texts, ids, booleans, maps of texts.

A writer appends to a ``bytearray``; a reader takes (data, position) and returns (value, next position). Readers check
every length before they use it. They raise ``ValueError``, or ``IndexError`` at the end of the data.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from seekpoint.schemas.errors import InvalidName

__all__ = ["ID_BYTES", "Get", "Put", "get_long", "get_text", "optional_get", "optional_put", "put_long"]

ID_BYTES = 16
_LONG_MAX = (1 << 64) - 1
_SHIFTS = tuple(range(7, 70, 7))

Put: TypeAlias = Callable[[bytearray, Any], None]
Get: TypeAlias = Callable[[bytes, int], tuple[Any, int]]


def put_long(out: bytearray, value: int) -> None:
    """Encode a number as a zigzag varint, seven bits a byte. Raises ``ValueError`` beyond 64 bits."""
    rest = value << 1 if value >= 0 else ~(value << 1)
    if rest < 0x80:
        out.append(rest)
        return
    if rest > _LONG_MAX:
        raise ValueError(f"{value} has more than 64 bits")
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)


def put_text(out: bytearray, text: str) -> None:
    """Encode a text as its length and its UTF-8 bytes."""
    data = text.encode()
    put_long(out, len(data))
    out += data


def put_id(out: bytearray, value: bytes) -> None:
    """Encode an id. Raises ``InvalidName`` for a wrong length, which would shift all bytes behind it."""
    if len(value) != ID_BYTES:
        raise InvalidName(f"an id has {ID_BYTES} bytes", id=value.hex()[:80], hint="use new_id(), or UUID.bytes")
    out += value


def put_data(out: bytearray, data: bytes) -> None:
    """Encode bytes of any length."""
    put_long(out, len(data))
    out += data


def put_bool(out: bytearray, value: bool) -> None:
    """Encode a boolean as one byte."""
    out.append(1 if value else 0)


def put_texts(out: bytearray, texts: Mapping[str, str]) -> None:
    """Encode a map of texts as one block."""
    if texts:
        put_long(out, len(texts))
        for key, text in texts.items():
            put_text(out, key)
            put_text(out, text)
    out.append(0)


def optional_put(put: Put) -> Put:
    """Return the writer of the union of null and what ``put`` writes."""

    def put_optional(out: bytearray, value: Any) -> None:
        if value is None:
            out.append(0)
        else:
            out.append(2)
            put(out, value)

    return put_optional


def get_long(data: bytes, at: int) -> tuple[int, int]:
    """Decode a number. Reads at most ten bytes."""
    byte = data[at]
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), at + 1
    more = data[at + 1]
    if more < 0x80:
        rest = (byte & 0x7F) + (more << 7)
        return (rest >> 1) ^ -(rest & 1), at + 2
    rest = byte & 0x7F
    for shift in _SHIFTS:
        at += 1
        byte = data[at]
        rest |= (byte & 0x7F) << shift
        if byte < 0x80:
            if rest > _LONG_MAX:
                break
            return (rest >> 1) ^ -(rest & 1), at + 1
    raise ValueError("a number has more than 64 bits")


def get_timestamp(data: bytes, at: int) -> tuple[int, int]:
    """Decode a number. A present-day timestamp has eight bytes and is read without a loop, in a third of the time."""
    eight = data[at : at + 8]
    if len(eight) == 8:
        a, b, c, d, e, f, g, h = eight
        if h < 0x80 <= a & b & c & d & e & f & g:  # the high bit is clear only in the last byte
            low = (a & 0x7F) + ((b & 0x7F) << 7) + ((c & 0x7F) << 14) + ((d & 0x7F) << 21)
            rest = low | (e & 0x7F) + ((f & 0x7F) << 7) + ((g & 0x7F) << 14) + (h << 21) << 28
            return (rest >> 1) ^ -(rest & 1), at + 8
    return get_long(data, at)


def get_text(data: bytes, at: int) -> tuple[str, int]:
    """Decode a text."""
    size, at = get_long(data, at)
    end = at + size
    if size < 0 or end > len(data):
        raise ValueError("a text is longer than its record")
    return data[at:end].decode(), end


def get_data(data: bytes, at: int) -> tuple[bytes, int]:
    """Decode bytes of any length."""
    size, at = get_long(data, at)
    end = at + size
    if size < 0 or end > len(data):
        raise ValueError("a value is longer than its record")
    return data[at:end], end


def get_id(data: bytes, at: int) -> tuple[bytes, int]:
    """Decode an id."""
    end = at + ID_BYTES
    if end > len(data):
        raise ValueError("an id is longer than its record")
    return data[at:end], end


def get_bool(data: bytes, at: int) -> tuple[bool, int]:
    """Decode a boolean."""
    if data[at] > 1:
        raise ValueError("a boolean is neither 0 nor 1")
    return data[at] == 1, at + 1


def get_texts(data: bytes, at: int) -> tuple[dict[str, str], int]:
    """Decode a map of texts. A member takes at least two bytes, so the length of the record limits any count in it."""
    texts: dict[str, str] = {}
    while True:
        count, at = get_long(data, at)
        if count == 0:
            return texts, at
        if count < 0:
            count = -count
            _, at = get_long(data, at)
        for _ in range(count):
            key, at = get_text(data, at)
            texts[key], at = get_text(data, at)


def optional_get(get: Get) -> Get:
    """Return the reader of the union of null and what ``get`` reads."""

    def get_optional(data: bytes, at: int) -> tuple[Any, int]:
        branch = data[at]
        if branch == 2:
            return get(data, at + 1)
        if branch == 0:
            return None, at + 1
        raise ValueError("a union has no such branch")

    return get_optional
