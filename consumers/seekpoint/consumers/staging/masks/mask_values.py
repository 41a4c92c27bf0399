"""Masking of JSON values: matches of a rule are replaced everywhere, also inside texts that contain JSON.

The structure stays: a masked text is a text, a masked number a number, and a list keeps its length without drops.
"""

from __future__ import annotations

import json
import re
from binascii import a2b_base64
from collections.abc import Callable, Mapping
from copy import deepcopy
from hashlib import blake2b
from itertools import accumulate
from typing import Any, Final

from seekpoint.consumers.staging.masks.joined_texts import groups, pieces_of, uncovered
from seekpoint.consumers.staging.masks.mask_matching import Matching
from seekpoint.consumers.staging.masks.mask_rules import Do, MaskRule
from seekpoint.schemas.values.attachment_ref import read_ref

__all__ = ["DROPPED", "REDACTED", "Mask"]

REDACTED = "***"
DROPPED: Final = object()
"""Stands for a value that a rule drops."""

_CONTAINER_TAGS = frozenset({"$tuple", "$set", "$frozenset"})
_LEAF_TAGS = frozenset({"$int", "$decimal", "$bytes", "$datetime", "$date", "$time", "$timedelta", "$uuid"})
_REF = "$attachment"
_NUMBER_MASK = (1 << 53) - 1
_DEPTH_MAX = 200
_ESCAPED_DEPTH = 8
_ESCAPES = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|(.))", re.DOTALL)

_UNPARSABLE: Final = object()
_SURROUNDING = "\ufeff\u200b \t\r\n"
"""Invisible characters that may surround JSON."""

Names = tuple[str, ...]
Rules = tuple[MaskRule, ...]


class Mask:
    """Applies the rules for one kind to values."""

    def __init__(
        self, rules: Rules, key: bytes, ref_items: Callable[[list[Any]], list[Any]] = lambda items: items
    ) -> None:
        """``ref_items`` masks what the references to attachments say."""
        self._rules = rules
        self._ref_items = ref_items
        self._key = blake2b(key, digest_size=32).digest()
        self.has_key = bool(key)
        self._matching = Matching()

    def pseudonym(self, text: str) -> str:
        """Return a keyed hash: the same text has the same pseudonym, and only the key allows guesses."""
        return blake2b(text.encode("utf-8", "surrogatepass"), key=self._key, digest_size=8).hexdigest()

    def reaches(self, names: Names) -> bool:
        """Return whether a rule applies to the value at ``names``."""
        return bool(self._active((), names))

    def text(self, value: str, names: Names) -> Any:
        """Mask a plain text; ``DROPPED`` if a rule drops it."""
        value = self._joined(value, names)
        return self._leaf(value, names, self._active((), names), 0)

    def json(self, text: str, names: Names) -> str | Any:
        """Mask a JSON text; ``DROPPED`` if a rule drops it. Raises ``ValueError`` if it is no JSON."""
        masked = self.value(json.loads(text), names)
        return masked if masked is DROPPED else dumped(masked)

    def value(self, value: Any, names: Names) -> Any:
        """Mask a JSON value; ``DROPPED`` if a rule drops it."""
        return self._walk(self._joined(value, names), names, (), 0)

    def name(self, name: str, names: Names) -> str:
        """Mask the name of a member of the value at ``names``: rules with a regex apply to it too."""
        self._matching.begin()
        return self._name(name, self._active((), names))

    # --- implementation
    def _active(self, before: Rules, names: Names) -> Rules:
        """Return the rules that apply at ``names``: those of the values around it, and its own."""
        if not before and names:
            found: Rules = ()
            for at in range(len(names)):
                found = self._added(found, names[:at])
            before = found
        return self._added(before, names)

    def _added(self, before: Rules, names: Names) -> Rules:
        return before + tuple(rule for rule in self._rules if rule not in before and rule.path.matches(names))

    def _joined(self, value: Any, names: Names) -> Any:
        """Return ``value`` with the matches masked that stand in several of its texts; see ``joined_texts``."""
        self._matching.begin()
        is_nested = isinstance(value, dict | list) or (isinstance(value, str) and "[" in value)
        if not (self._rules and is_nested):
            return value
        pieces = pieces_of([value], names, _parsed)
        texts = [piece.text for piece in pieces]
        for number, piece in enumerate(pieces):
            rules = self._active((), piece.names) if piece.is_coded else ()
            whole = next((rule for rule in rules if rule.regex is None), None)
            if whole is not None:  # its path is that in its event, where the walk does not find it
                texts[number] = "" if whole.do is Do.DROP else self._replacement(piece.text, whole.do)
        for group in groups(pieces):
            self._mask_joined(group, pieces[group[0]].names, texts)
        if all(text == piece.text for text, piece in zip(texts, pieces, strict=True)):
            return value
        holder = [deepcopy(value)]
        for text, piece in zip(texts, pieces_of(holder, names, _parsed), strict=True):
            if text != piece.text:
                piece.put(text)
        return holder[0]

    def _mask_joined(self, group: list[int], names: Names, texts: list[str]) -> None:
        """Mask what the texts in ``group`` say together, in ``texts``."""
        joined = "".join(texts[number] for number in group)
        rules = self._active((), names)
        if isinstance(_parsed(joined), dict | list):  # the pieces of a JSON text, such as a tool's arguments
            masked = self._text(joined, names, rules, 0)
            if masked != joined:
                texts[group[0]] = "" if masked is DROPPED else masked
                for number in group[1:]:
                    texts[number] = ""
            return
        for rule in rules:
            if rule.regex is None:
                return
            self._mask_matches(rule, group, texts)

    def _mask_matches(self, rule: MaskRule, group: list[int], texts: list[str]) -> None:
        """Mask the matches of one rule that reach over several texts. Those within one stay: the walk finds them."""
        assert rule.regex is not None
        parts = [texts[number] for number in group]
        own = [self._matching.spans(rule.regex, part) if part else [] for part in parts]
        edits: list[list[tuple[int, int, str]]] = [[] for _ in parts]
        joined = "".join(parts)
        starts = [0, *accumulate(map(len, parts))][:-1]
        for begin, end in self._matching.spans(rule.regex, joined):
            touched = [
                (
                    at,
                    max(begin - start, 0),
                    min(end - start, len(parts[at])),
                    [span for span in own[at] if span[1] > begin - start and span[0] < end - start],
                )
                for at, start in enumerate(starts)
                if start < end and start + len(parts[at]) > begin
            ]
            if len(touched) == 1:
                continue
            within = [(at, span) for at, _, _, spans in touched for span in spans]
            # A text that is a match of its own, and what matches beyond this match, keep the pseudonym of their own.
            is_one = len(within) < 2 and all(
                span[0] >= begin - starts[at]
                and span[1] <= end - starts[at]
                and (span != (0, len(parts[at])) or starts[at] > begin)
                for at, span in within
            )
            left = (
                "" if rule.do is Do.DROP or (within and not is_one) else self._replacement(joined[begin:end], rule.do)
            )
            for at, first, last, spans in touched:
                for start, stop in uncovered(first, last, () if is_one else spans):
                    edits[at].append((start, stop, left))
                    left = ""
        for number, edit in zip(group, edits, strict=True):
            for start, stop, replacement in reversed(edit):
                texts[number] = texts[number][:start] + replacement + texts[number][stop:]
        rest = "".join(self._matching.replaced(rule.regex, texts[number], lambda _: "") for number in group)
        if self._is_in_unescaped(rule.regex, rest):
            for number in group:
                texts[number] = self._replacement(texts[number], rule.do)

    def _walk(self, node: Any, names: Names, before: Rules, depth: int) -> Any:
        if depth > _DEPTH_MAX:
            raise ValueError("nested too deep to be masked")
        rules = self._active(before, names)
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
        return self._scalar(node, names, rules, depth)

    def _whole(self, node: Any, do: Do) -> Any:
        """Mask a whole value and keep its type, so that readers still accept it."""
        if isinstance(node, bool):
            return False
        if isinstance(node, int | float):
            return int(self.pseudonym(repr(node)), 16) & _NUMBER_MASK if do is Do.HASH else 0
        text = node if isinstance(node, str) else dumped(node)
        return self._replacement(text, do)

    def _replaced(self, rule: MaskRule, text: str) -> str:
        """Replace each match; replace the whole text if it matches only after unescaping."""
        assert rule.regex is not None
        replaced = self._matching.replaced(rule.regex, text, lambda match: self._replacement(match, rule.do))
        return self._replacement(text, rule.do) if self._is_in_unescaped(rule.regex, replaced) else replaced

    def _replacement(self, text: str, do: Do) -> str:
        return self.pseudonym(text) if do is Do.HASH else REDACTED

    def _text(self, text: str, names: Names, rules: Rules, depth: int) -> Any:
        """Mask the matches in a text. A text that is JSON is parsed first, because its content may be escaped."""
        inner = _parsed(text)
        if inner is _UNPARSABLE:
            found = self._unparsable(text, names, rules)
            if found is not text:
                return found
        elif inner is not None:
            masked = self._walk(inner, names, rules, depth + 1)
            if masked is DROPPED:
                return DROPPED
            text = text if masked == inner else dumped(masked)
        for rule in rules:
            if rule.regex is not None and self._is_in(rule.regex, text):
                if rule.do is Do.DROP:
                    return DROPPED
                text = self._replaced(rule, text)
        return text

    def _unparsable(self, text: str, names: Names, rules: Rules) -> Any:
        """Mask a text that looks like JSON but cannot be parsed: as a whole, if a rule may match something in it."""
        for rule in self._rules:
            if rule not in rules and rule.path.may_lie_below(names):
                return DROPPED if rule.do is Do.DROP else self._replacement(text, rule.do)
        return text

    def _scalar(self, node: Any, names: Names, rules: Rules, depth: int) -> Any:
        """Mask a number or a tagged value as a whole if a rule matches any notation of it, or something in it."""
        spellings = _spellings(node)
        for rule in rules:
            if rule.regex is not None and any(self._is_in(rule.regex, text) for text in spellings):
                return DROPPED if rule.do is Do.DROP else self._replacement(spellings[0], rule.do)
        if isinstance(node, dict) and any(self._text(text, names, rules, depth + 1) != text for text in spellings[1:]):
            return self._replacement(spellings[0], Do.REDACT)
        return {_REF: self._ref_items(node[_REF])} if isinstance(node, dict) and _REF in node else node

    def _is_in(self, regex: re.Pattern[str], text: str) -> bool:
        return self._matching.is_in(regex, text) or self._is_in_unescaped(regex, text)

    def _is_in_unescaped(self, regex: re.Pattern[str], text: str) -> bool:
        """Return whether ``regex`` matches ``text`` after unescaping, as JSON does: ``\\u0040`` is ``@``."""
        for _ in range(_ESCAPED_DEPTH):
            if "\\" not in text:
                return False
            before, text = text, _ESCAPES.sub(_unescaped, text)
            if text == before:
                return False
            if self._matching.is_in(regex, text):
                return True
        return True  # nested escapes beyond the limit count as a match


def dumped(value: Any) -> str:
    """Return the canonical text of a JSON value, as ``json_values.dump`` writes it."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True)


def _is_leaf_tag(node: Mapping[str, Any]) -> bool:
    if len(node) != 1:
        return False
    [(name, value)] = node.items()
    return (name in _LEAF_TAGS and isinstance(value, str)) or (name == _REF and _is_ref(value))


def _is_ref(items: object) -> bool:
    try:
        return isinstance(items, list) and read_ref(items) is not None
    except ValueError:
        return False


def _parsed(text: str) -> Any:
    """Return the JSON object, list or text in ``text``; None if it is no JSON, ``_UNPARSABLE`` if it only looks so."""
    stripped = text.strip().strip(_SURROUNDING)
    if f"{stripped[:1]}{stripped[-1:]}" not in ("{}", "[]", '""') or len(stripped) < 2:
        return None
    try:
        return json.loads(stripped, object_pairs_hook=_unique_members)
    except (ValueError, RecursionError):
        return _UNPARSABLE if stripped[0] == "{" or (stripped[0] == "[" and "{" in stripped) else None


def _unique_members(members: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the object; refuse repeated names, of which only one value would be masked."""
    found = dict(members)
    if len(found) < len(members):
        raise ValueError("an object has a name twice")
    return found


def _unescaped(match: re.Match[str]) -> str:
    return chr(int(match[1], 16)) if match[1] else match[2]


def _spellings(node: Any) -> list[str]:
    if not isinstance(node, dict):
        return [repr(node), f"{node:f}"] if isinstance(node, float) else [repr(node)]
    [(name, text)] = node.items()
    if name == _REF:
        return [dumped(text), *(item for item in text if isinstance(item, str))]
    if name != "$bytes":
        return [text]
    try:
        return [text, a2b_base64(text).decode("utf-8", "replace")]
    except ValueError:
        return [text]
