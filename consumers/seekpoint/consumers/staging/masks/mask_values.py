"""Masking of JSON trees: what a rule means is replaced wherever it stands, texts that are JSON themselves included.

Structure stays: a masked text is a text, a number a number, a list as long as it was (unless a rule drops its items).
"""

from __future__ import annotations

import json
import re
from binascii import a2b_base64
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any, Final

from seekpoint.consumers.staging.masks.mask_rules import Do, MaskRule

__all__ = ["DROPPED", "REDACTED", "Mask"]

REDACTED = "***"
DROPPED: Final = object()
"""Stands for a value that a rule takes out."""

_CONTAINER_TAGS = frozenset({"$tuple", "$set", "$frozenset"})
_LEAF_TAGS = frozenset({"$int", "$decimal", "$bytes", "$datetime", "$date", "$time", "$timedelta", "$uuid"})
_NUMBER_MASK = (1 << 53) - 1
_DEPTH_MAX = 200
_ESCAPED_DEPTH = 8
_ESCAPES = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|(.))", re.DOTALL)

_CLOSED: Final = object()
_MARKS = "\ufeff\u200b \t\r\n"
"""What may stand around JSON unseen."""

Names = tuple[str, ...]
Rules = tuple[MaskRule, ...]


class Mask:
    """The rules that apply to one kind, as functions of values."""

    def __init__(self, rules: Rules, key: bytes) -> None:
        self._rules = rules
        self._key = blake2b(key, digest_size=32).digest()
        self.has_key = bool(key)

    def pseudonym(self, text: str) -> str:
        """The same for the same text, and of no use to who has not the key."""
        return blake2b(text.encode("utf-8", "surrogatepass"), key=self._key, digest_size=8).hexdigest()

    def text(self, value: str, names: Names) -> Any:
        """A plain text, masked; ``DROPPED`` if it goes."""
        return self._leaf(value, names, self._in_force((), names), 0)

    def json(self, text: str, names: Names) -> str | Any:
        """A JSON text, masked, as JSON text; ``DROPPED`` if it goes. Raises ``ValueError`` if it is none."""
        masked = self.tree(json.loads(text), names)
        return masked if masked is DROPPED else dumped(masked)

    def tree(self, tree: Any, names: Names) -> Any:
        """A JSON value, masked."""
        return self._walk(tree, names, (), 0)

    def name(self, name: str, names: Names) -> str:
        """The name of a member of what lies at ``names``: rules with a regex reach it too."""
        return self._name(name, self._in_force((), names))

    # --- how
    def _in_force(self, before: Rules, names: Names) -> Rules:
        """The rules that hold at ``names``: those of what it lies in, and its own."""
        if not before and names:
            found: Rules = ()
            for at in range(len(names)):
                found = self._added(found, names[:at])
            before = found
        return self._added(before, names)

    def _added(self, before: Rules, names: Names) -> Rules:
        return before + tuple(rule for rule in self._rules if rule not in before and rule.path.matches(names))

    def _walk(self, node: Any, names: Names, before: Rules, depth: int) -> Any:
        if depth > _DEPTH_MAX:
            raise ValueError("nested too deep to be masked")
        rules = self._in_force(before, names)
        if any(rule.do is Do.DROP and rule.regex is None for rule in rules):
            return DROPPED
        if isinstance(node, dict) and not _is_leaf_tag(node):
            return self._members(node, names, rules, depth)
        if isinstance(node, list):
            items = [self._walk(item, names, rules, depth + 1) for item in node]
            return [item for item in items if item is not DROPPED]
        return self._leaf(node, names, rules, depth)

    def _members(self, node: dict[str, Any], names: Names, rules: Rules, depth: int) -> Any:
        masked: dict[str, Any] = {}
        for name, value in node.items():
            tagged = len(node) == 1 and (name in _CONTAINER_TAGS or name == "$object")
            found = self._walk(value, names if tagged else (*names, name), rules, depth + 1)
            if found is not DROPPED:
                masked[name if tagged else self._name(name, rules)] = found
        return masked

    def _name(self, name: str, rules: Rules) -> str:
        for rule in rules:
            if rule.regex is not None:
                name = self._replaced(rule, name)
        return name

    def _leaf(self, node: Any, names: Names, rules: Rules, depth: int) -> Any:
        if node is None:
            return None
        whole = next((rule for rule in rules if rule.regex is None), None)
        if whole is not None:
            return DROPPED if whole.do is Do.DROP else self._whole(node, whole.do)
        if isinstance(node, str):
            return self._text(node, names, rules, depth)
        if isinstance(node, bool):
            return node
        return self._unsplit(node, names, rules, depth)

    def _whole(self, node: Any, do: Do) -> Any:
        """The whole value, by its type: who reads it finds what it expects, and nothing in it."""
        if isinstance(node, bool):
            return False
        if isinstance(node, int | float):
            return int(self.pseudonym(repr(node)), 16) & _NUMBER_MASK if do is Do.HASH else 0
        text = node if isinstance(node, str) else dumped(node)
        return self._stand_in(text, do)

    def _replaced(self, rule: MaskRule, text: str) -> str:
        """Each match; the whole text where one only shows once its escapes are read."""
        assert rule.regex is not None
        replaced = rule.regex.sub(lambda match: self._stand_in(match[0], rule.do), text)
        return self._stand_in(text, rule.do) if _hides(rule.regex, replaced) else replaced

    def _stand_in(self, text: str, do: Do) -> str:
        return self.pseudonym(text) if do is Do.HASH else REDACTED

    def _text(self, text: str, names: Names, rules: Rules, depth: int) -> Any:
        """What in it matches. A text that is JSON is opened first: in it secrets are spelt otherwise."""
        inner = _inner(text)
        if inner is _CLOSED:
            found = self._unopened(text, names, rules)
            if found is not text:
                return found
        elif inner is not None:
            masked = self._walk(inner, names, rules, depth + 1)
            if masked is DROPPED:
                return DROPPED
            text = text if masked == inner else dumped(masked)
        for rule in rules:
            if rule.regex is not None and (rule.regex.search(text) or _hides(rule.regex, text)):
                if rule.do is Do.DROP:
                    return DROPPED
                text = self._replaced(rule, text)
        return text

    def _unopened(self, text: str, names: Names, rules: Rules) -> Any:
        """A text that looks like JSON and cannot be opened: where a rule is for something in it, it goes as a whole."""
        for rule in self._rules:
            if rule not in rules and rule.path.may_lie_below(names):
                return DROPPED if rule.do is Do.DROP else self._stand_in(text, rule.do)
        return text

    def _unsplit(self, node: Any, names: Names, rules: Rules, depth: int) -> Any:
        """A number, or a tagged value: masked as a whole where any spelling of it, or anything in it, matches."""
        spellings = _spellings(node)
        for rule in rules:
            if rule.regex is not None and any(
                rule.regex.search(text) or _hides(rule.regex, text) for text in spellings
            ):
                return DROPPED if rule.do is Do.DROP else self._stand_in(spellings[0], rule.do)
        if isinstance(node, dict) and any(self._text(text, names, rules, depth + 1) != text for text in spellings[1:]):
            return self._stand_in(spellings[0], Do.REDACT)
        return node


def dumped(tree: Any) -> str:
    """A JSON value as the text that ``values.dump`` would write of it."""
    return json.dumps(tree, ensure_ascii=False, separators=(",", ":"), sort_keys=True)


def _is_leaf_tag(node: Mapping[str, Any]) -> bool:
    if len(node) != 1:
        return False
    [(name, value)] = node.items()
    return name in _LEAF_TAGS and isinstance(value, str)


def _inner(text: str) -> Any:
    """The object, list or text that ``text`` is in JSON; None if it is none, ``_CLOSED`` if it only looks like one."""
    stripped = text.strip().strip(_MARKS)
    if f"{stripped[:1]}{stripped[-1:]}" not in ("{}", "[]", '""') or len(stripped) < 2:
        return None
    try:
        return json.loads(stripped, object_pairs_hook=_once)
    except (ValueError, RecursionError):
        return _CLOSED if stripped[0] == "{" or (stripped[0] == "[" and "{" in stripped) else None


def _once(members: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object; of a name that stands in it twice, only one value would be looked at."""
    found = dict(members)
    if len(found) < len(members):
        raise ValueError("a name stands twice in an object")
    return found


def _hides(regex: re.Pattern[str], text: str) -> bool:
    """Whether ``regex`` matches what ``text`` spells with escapes, as JSON does: ``\\u0040`` for ``@``."""
    for _ in range(_ESCAPED_DEPTH):
        if "\\" not in text:
            return False
        before, text = text, _ESCAPES.sub(_unescaped, text)
        if text == before:
            return False
        if regex.search(text):
            return True
    return True  # escaped deeper than anybody looks: taken for a match


def _unescaped(match: re.Match[str]) -> str:
    return chr(int(match[1], 16)) if match[1] else match[2]


def _spellings(node: Any) -> list[str]:
    if not isinstance(node, dict):
        return [repr(node), f"{node:f}"] if isinstance(node, float) else [repr(node)]
    [(name, text)] = node.items()
    if name != "$bytes":
        return [text]
    try:
        return [text, a2b_base64(text).decode("utf-8", "replace")]
    except ValueError:
        return [text]
