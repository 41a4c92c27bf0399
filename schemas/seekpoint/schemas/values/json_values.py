"""Dynamic values: the context, arguments and messages that agents journal, as exact JSON text.

Values that plain JSON represents exactly are plain JSON, readable in any Kafka UI: null, true and false, texts,
integers up to 2**53 - 1, finite floats (``1.0`` is not ``1``), lists, and dicts with text keys. A value of any other
supported type is an object of one member, named by a tag:

    tuple {"$tuple": […]} · set {"$set": […]} · frozenset {"$frozenset": […]} · larger int {"$int": "9007199254740993"}
    Decimal {"$decimal": "1.10"} · bytes {"$bytes": base64} · UUID {"$uuid": …} · timedelta {"$timedelta": "-1.500000"}
    datetime, date, time {"$datetime": ISO 8601}: naive, or with a fixed offset; a named zone is refused
    Ref {"$attachment": [digest, size, process id, media type]}: the reference to an attachment
    a dict of one key that begins with $: {"$object": {"$tuple": …}}

All other types raise ``UnserializableValue`` with the path and how to convert them; nothing is guessed or pickled.
Models are written where an annotation tells how to rebuild them, or where nobody rebuilds them (``with_models``). The
text is canonical (sorted keys and sets, no space): equal texts are equal values of equal types. Depth and items (of
``Limits``) are those of the JSON text, tags included. In a text of another writer, the last value of a repeated key
counts, as in most JSON readers, and plain integers are exact up to 64 bits.
"""

from __future__ import annotations

import re
from hashlib import blake2b
from types import NoneType
from typing import Any, Final, Literal

import orjson

from seekpoint.schemas.config.limits import DEFAULT_LIMITS, Limits
from seekpoint.schemas.errors import LimitExceeded, UndecodableRecord
from seekpoint.schemas.values.tagged_json import DEPTH_MAX, from_tagged, to_tagged

_CANONICAL: Final = orjson.OPT_SORT_KEYS | orjson.OPT_STRICT_INTEGER
_SCALARS: Final = frozenset({str, int, bool, NoneType})
_NOT_PLAIN: Final = -1
_LARGE_INTEGER = re.compile(r"[0-9]{19}")
_STRINGS = r'(?s)"(?:[^"\\]++|\\.)*+"?'
_ONE_BRACKET = str.maketrans("{}", "[]")
_NO_BRACKET = r"[^\[\]]+"
_EMPTY = r"\[\s*\]"


def dump(value: Any, limits: Limits = DEFAULT_LIMITS, with_models: bool | Literal["set"] = False) -> str:
    """Return the canonical JSON text of ``value``; the order of a dict or a set does not matter.

    ``with_models``: a dataclass, a struct or a pydantic model becomes the object of its members, and whoever loads it
    gets a dict. With ``"set"`` a pydantic model has only the members that were set. Raises
    ``UnserializableValue`` or ``LimitExceeded`` with the path to the culprit (``$.a[3].price``).
    A plain text or a small flat dict costs half a microsecond.

    >>> dump({"b": 1, "a": (1.0, None)})
    '{"a":{"$tuple":[1.0,null]},"b":1}'
    """
    kind = type(value)
    if kind is dict or kind is list:
        depth = limits.depth if limits.depth < DEPTH_MAX else DEPTH_MAX
        plain = _plain_items(value, depth, limits.items) >= 0
    else:
        plain = kind in _SCALARS or (kind is float and value - value == 0.0)
    if plain:
        try:
            return orjson.dumps(value, None, _CANONICAL).decode()
        except TypeError:
            pass  # to_tagged tags a large integer, and reports the path to a lone surrogate
    return orjson.dumps(to_tagged(value, limits, with_models), None, _CANONICAL).decode()


def load(text: str) -> Any:
    """Return the value of ``text``: the inverse of ``dump``. Raises ``UndecodableRecord``.

    >>> load('{"price":{"$decimal":"1.10"}}')
    {'price': Decimal('1.10')}
    """
    try:
        value = orjson.loads(text)
    except ValueError as exc:
        raise UndecodableRecord(f"a dynamic value is not JSON: {exc}") from exc
    # A tag begins with a quote and $, which may be escaped. Single characters are searched first, as that is faster.
    if ("$" in text and '"$' in text) or ("\\" in text and "\\u0024" in text):
        return from_tagged(value)
    return value


def load_written(text: str) -> Any:
    """Return the value of a text that a person or another program wrote: integers of any size are exact.

    Raises ``UndecodableRecord``. The texts of a journal have larger integers as ``$int``; ``load`` is faster.
    """
    value = load(text)
    if _LARGE_INTEGER.search(text) is None:
        return value
    import json

    try:
        return from_tagged(json.loads(text))
    except ValueError as exc:  # beyond 4,300 digits
        raise UndecodableRecord(f"a dynamic value cannot be read: {exc}") from exc


def check(text: str, limits: Limits = DEFAULT_LIMITS) -> None:
    """Check that ``text``, from an untrusted log, may be loaded. Bounds time and memory before it decodes anything.

    Raises ``LimitExceeded`` (depth, items) or ``UndecodableRecord`` (no JSON, or a malformed tag).
    """
    # A short text cannot exceed the limits.
    if len(text) > 2 * limits.depth or len(text) > limits.items or limits.depth > DEPTH_MAX:
        _check_bounds(text, limits)
    load(text)


def digest(value: object, limits: Limits = DEFAULT_LIMITS) -> str:
    """Return the BLAKE2b-128 of the canonical text, in hex: 1, 1.0, True and "1" differ. Raises as ``dump`` does."""
    return blake2b(dump(value, limits).encode(), digest_size=16).hexdigest()


def _plain_items(value: Any, depth: int, items_max: int) -> int:
    """Count the items of a dict or list, nested ones included; -1 if it exceeds the limits or is not plain JSON."""
    items = len(value)
    if depth <= 0 or items > items_max:
        return _NOT_PLAIN
    members = value
    if type(value) is dict:
        for key in value:
            if type(key) is not str:
                return _NOT_PLAIN
        if items == 1 and key[:1] == "$":
            return _NOT_PLAIN
        members = value.values()
    for item in members:
        kind = type(item)
        if kind is str or kind in _SCALARS:
            continue
        if kind is dict or kind is list:
            inner = _plain_items(item, depth - 1, items_max)
            items += inner
            if inner < 0 or items > items_max:
                return _NOT_PLAIN
        elif kind is not float or item - item != 0.0:  # nan and the infinities
            return _NOT_PLAIN
    return items


def _check_bounds(text: str, limits: Limits) -> None:
    openings = text.count("[") + text.count("{")
    # A text has at most as many items as characters, so most texts need no exact count.
    if openings > min(limits.depth, DEPTH_MAX) or (
        len(text) > limits.items and openings + text.count(",") > limits.items
    ):
        _count_exactly(text, limits)


def _count_exactly(text: str, limits: Limits) -> None:
    """Check depth and items exactly, ignoring the content of strings."""
    bare = re.sub(_STRINGS, "s", text).translate(_ONE_BRACKET)
    openings = bare.count("[")
    # Every value except the root is an item; an empty container has none.
    if max(openings - 1, openings + bare.count(",") - len(re.findall(_EMPTY, bare))) > limits.items:
        raise LimitExceeded(f"a dynamic value of more than {limits.items} items", limit=limits.items)
    brackets = re.sub(_NO_BRACKET, "", bare)
    depth_max = min(limits.depth, DEPTH_MAX)
    for _ in range(depth_max):
        brackets = brackets.replace("[]", "")
        if not brackets:
            break
    if brackets:
        raise LimitExceeded(f"a dynamic value nested deeper than {depth_max}", limit=depth_max)
