"""Dynamic values: what agents journal as context, arguments and messages, as JSON text. Exact, or refused.

What plain JSON carries exactly is plain JSON, readable in any Kafka UI: null, true and false, texts, integers up to
2**53 - 1, finite floats (``1.0`` stays apart from ``1``), lists, and dicts with text keys. What it lacks is an object
of one member named by a tag, its text exact:

    tuple {"$tuple": […]} · set {"$set": […]} · frozenset {"$frozenset": […]} · larger int {"$int": "9007199254740993"}
    Decimal {"$decimal": "1.10"} · bytes {"$bytes": base64} · UUID {"$uuid": …} · timedelta {"$timedelta": "-1.500000"}
    datetime, date, time {"$datetime": ISO 8601}: naive, or with a fixed offset; a named zone is refused
    a dict of one key that begins with $: {"$object": {"$tuple": …}}

Never guessed, never pickled: all other types are ``UnserializableValue``, with the path and how to convert them. The
text is canonical: keys and sets sorted, no space, so equal texts are equal values of equal types. Depth and items (of
``Limits``) are those of the JSON text, tags included. A text from elsewhere may name a key twice (the last one counts,
as in most JSON readers) and its plain integers are exact up to 64 bits.
"""

from __future__ import annotations

import re
from hashlib import blake2b
from types import NoneType
from typing import Any, Final

import orjson

from seekpoint.schemas.config.limits import DEFAULT_LIMITS, Limits
from seekpoint.schemas.errors import LimitExceeded, UndecodableRecord
from seekpoint.schemas.values.json_trees import DEPTH_MAX, from_tree, to_tree

__all__ = ["check", "digest", "dump", "load", "merge_patch"]

_CANONICAL: Final = orjson.OPT_SORT_KEYS | orjson.OPT_STRICT_INTEGER
_SCALARS: Final = frozenset({str, int, bool, NoneType})
_NOT_PLAIN: Final = -1
_STRINGS = re.compile(r'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)
_ONE_BRACKET = str.maketrans("{}", "[]")
_NO_BRACKET = re.compile(r"[^\[\]]+")


def dump(value: object, limits: Limits = DEFAULT_LIMITS) -> str:
    """The canonical JSON text of ``value``; the order of a dict or a set does not matter.

    Raises ``UnserializableValue`` or ``LimitExceeded`` with the path to what does not fit (``$.items[3].price``). A
    plain text or a small flat dict costs half a microsecond.

    >>> dump({"b": 1, "a": (1.0, None)})
    '{"a":{"$tuple":[1.0,null]},"b":1}'
    """
    kind = type(value)
    if kind is dict or kind is list:
        depth = limits.depth if limits.depth < DEPTH_MAX else DEPTH_MAX
        plain = _plain_items(value, depth, limits.items) >= 0
    else:
        plain = kind in _SCALARS or (kind is float and value - value == 0.0)  # type: ignore[operator]
    if plain:
        try:
            return orjson.dumps(value, None, _CANONICAL).decode()
        except TypeError:
            pass  # a large integer or a lone surrogate: the exact way tags the one, and says where the other is
    return orjson.dumps(to_tree(value, limits), None, _CANONICAL).decode()


def load(text: str) -> Any:
    """The value whose text this is: the inverse of ``dump``. Raises ``UndecodableRecord``.

    >>> load('{"price":{"$decimal":"1.10"}}')
    {'price': Decimal('1.10')}
    """
    try:
        tree = orjson.loads(text)
    except ValueError as exc:
        raise UndecodableRecord(f"a dynamic value is not JSON: {exc}") from exc
    # No tag without a $ after a quote, however it is spelt; single characters are looked for first, as that is faster.
    if ("$" in text and '"$' in text) or ("\\" in text and "\\u0024" in text):
        return from_tree(tree)
    return tree


def check(text: str, limits: Limits = DEFAULT_LIMITS) -> None:
    """Whether ``text``, from an untrusted log, may be loaded. Bounded in time and memory, before anything is decoded.

    Raises ``LimitExceeded`` (depth, items) or ``UndecodableRecord`` (no JSON, or a tag that is not well-formed).
    """
    # A short text can be neither deep nor long.
    if len(text) > 2 * limits.depth or len(text) > limits.items or limits.depth > DEPTH_MAX:
        _check_bounds(text, limits)
    load(text)


def digest(value: object, limits: Limits = DEFAULT_LIMITS) -> str:
    """BLAKE2b-128 of the canonical text, in hex: 1, 1.0, True and "1" differ. Raises as ``dump`` does."""
    return blake2b(dump(value, limits).encode(), digest_size=16).hexdigest()


def merge_patch(target: Any, patch: Any) -> Any:
    """``target`` with an RFC 7386 merge patch applied: dicts are merged, None removes a member, all else replaces.

    Neither argument is changed; what the patch does not touch is shared with the result, not copied.

    >>> merge_patch({"a": 1, "b": {"c": 2, "d": 3}}, {"a": None, "b": {"c": 4}})
    {'b': {'c': 4, 'd': 3}}
    """
    if type(patch) is not dict:
        return patch
    merged = dict(target) if type(target) is dict else {}
    for key, item in patch.items():
        if item is None:
            merged.pop(key, None)
        else:
            merged[key] = merge_patch(merged.get(key), item)
    return merged


def _plain_items(value: Any, depth: int, items_max: int) -> int:
    """The members of a dict or list and all in it, if plain JSON carries it as it is, within the limits; else -1."""
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
    # No text has more items than characters, so most need no second look.
    if openings > min(limits.depth, DEPTH_MAX) or (
        len(text) > limits.items and openings + text.count(",") > limits.items
    ):
        _check_shape(text, limits)


def _check_shape(text: str, limits: Limits) -> None:
    """Count exactly, strings left out. Only long or nested texts come here."""
    bare = _STRINGS.sub("s", text).translate(_ONE_BRACKET)
    openings = bare.count("[")
    # All but the root are members of something; an empty container has none.
    if max(openings - 1, openings + bare.count(",") - _empty(bare)) > limits.items:
        raise LimitExceeded(f"a dynamic value of more than {limits.items} items", limit=limits.items)
    brackets = _NO_BRACKET.sub("", bare)
    depth_max = min(limits.depth, DEPTH_MAX)
    for _ in range(depth_max):
        brackets = brackets.replace("[]", "")
        if not brackets:
            return
    raise LimitExceeded(f"a dynamic value nested deeper than {depth_max}", limit=depth_max)


def _empty(bare: str) -> int:
    return len(re.findall(r"\[\s*\]", bare))
