"""Find the parts of a MessagePack value without decoding them: each keeps its bytes, whatever types it has. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from seekpoint.errors import UndecodableRecord

_NIL_TO_TRUE: Final = {0xC0: 0, 0xC2: 0, 0xC3: 0}
_FIXED: Final[Mapping[int, int]] = {
    **_NIL_TO_TRUE, 0xCA: 4, 0xCB: 8, 0xCC: 1, 0xCD: 2, 0xCE: 4, 0xCF: 8, 0xD0: 1, 0xD1: 2, 0xD2: 4, 0xD3: 8,
    0xD4: 2, 0xD5: 3, 0xD6: 5, 0xD7: 9, 0xD8: 17,
}  # fmt: skip
"""The bytes behind the first one, of heads that say it: constants, numbers, small extensions with their type."""
_SIZED: Final[Mapping[int, tuple[int, int]]] = {
    0xC4: (1, 0), 0xC5: (2, 0), 0xC6: (4, 0), 0xC7: (1, 1), 0xC8: (2, 1), 0xC9: (4, 1), 0xD9: (1, 0), 0xDA: (2, 0),
    0xDB: (4, 0),
}  # fmt: skip
"""The width of the size, and the bytes beside the sized ones: bytes, extensions, texts."""
_COUNTED: Final[Mapping[int, tuple[int, int]]] = {0xDC: (2, 1), 0xDD: (4, 1), 0xDE: (2, 2), 0xDF: (4, 2)}
"""The width of the count, and the values of each item: arrays and maps."""
_SNAPSHOT_TYPE: Final = 7
_EXTENSIONS: Final[Mapping[int, int]] = {0xC7: 2, 0xC8: 3, 0xC9: 5, 0xD4: 1, 0xD5: 1, 0xD6: 1, 0xD7: 1, 0xD8: 1}
"""The place of an extension's type."""


def map_parts(data: bytes) -> dict[str, bytes]:
    """Return the values of a map with texts as keys, each as its own bytes. Raises ``UndecodableRecord``.

    >>> map_parts(bytes([0x82, 0xA1, 0x61, 0x01, 0xA1, 0x62, 0x92, 0xC0, 0xC3]))
    {'a': b'\\x01', 'b': b'\\x92\\xc0\\xc3'}
    """
    try:
        count, at = _map_head(data)
        parts: dict[str, bytes] = {}
        for _ in range(count):
            key_end = _end(data, at)
            end = _end(data, key_end)
            parts[_text(data[at:key_end])] = data[key_end:end]
            at = end
        if at != len(data):
            raise IndexError
    except (IndexError, UnicodeDecodeError, ValueError) as exc:
        raise UndecodableRecord(
            "a stored value is not the MessagePack map that LangGraph writes", hint="the source is damaged: restore it"
        ) from exc
    return parts


def map_of(parts: Mapping[str, bytes]) -> bytes:
    """Return the map whose values have these bytes.

    >>> map_parts(map_of({"a": b"\\x01"}))
    {'a': b'\\x01'}
    """
    count = len(parts)
    head = bytes([0x80 | count]) if count < 16 else b"\xdf" + count.to_bytes(4, "big")
    return head + b"".join(_str(key) + value for key, value in parts.items())


def array_of(parts: Iterable[bytes]) -> bytes:
    """Return the array whose items have these bytes."""
    rows = list(parts)
    head = bytes([0x90 | len(rows)]) if len(rows) < 16 else b"\xdd" + len(rows).to_bytes(4, "big")
    return head + b"".join(rows)


def is_snapshot(kind: str, data: bytes) -> bool:
    """Return whether a value is the snapshot of a delta channel."""
    at = _EXTENSIONS.get(data[0]) if kind == "msgpack" and data else None
    return at is not None and len(data) > at and data[at] == _SNAPSHOT_TYPE


def _map_head(data: bytes) -> tuple[int, int]:
    """Return how many items a map has, and where the first one begins."""
    head = data[0]
    if 0x80 <= head <= 0x8F:
        return head & 15, 1
    if head not in (0xDE, 0xDF):
        raise ValueError("no map")
    width = _COUNTED[head][0]
    return int.from_bytes(data[1 : 1 + width], "big"), 1 + width


def _end(data: bytes, at: int) -> int:
    """Return where the value ends that begins at ``at``."""
    left = 1
    while left:
        left -= 1
        head = data[at]
        at += 1
        if head <= 0x7F or head >= 0xE0:
            continue
        if head <= 0x8F:
            left += 2 * (head & 15)
        elif head <= 0x9F:
            left += head & 15
        elif head <= 0xBF:
            at += head & 31
        elif head in _FIXED:
            at += _FIXED[head]
        elif head in _SIZED:
            width, more = _SIZED[head]
            at += width + int.from_bytes(data[at : at + width], "big") + more
        else:
            width, items = _COUNTED.get(head) or _unused(head)
            left += items * int.from_bytes(data[at : at + width], "big")
            at += width
    if at > len(data):
        raise IndexError
    return at


def _unused(head: int) -> tuple[int, int]:
    raise ValueError(f"no value begins with {head:#x}")


def _text(data: bytes) -> str:
    head = data[0]
    if 0xA0 <= head <= 0xBF:
        return data[1:].decode()
    if head not in (0xD9, 0xDA, 0xDB):
        raise ValueError("no text")
    return data[1 + _SIZED[head][0] :].decode()


def _str(text: str) -> bytes:
    data = text.encode()
    return (bytes([0xA0 | len(data)]) if len(data) < 32 else b"\xdb" + len(data).to_bytes(4, "big")) + data
