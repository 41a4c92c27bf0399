"""Masking of the states that seeds, forks and rewinds carry. A value has the name that it has in its entry.

The output of a step is ``output`` as in the entry that ended the step, that of a decision ``response``, that of a child
``result``; the content at the start of a turn is ``context``. So one rule matches a value in entries and states. The
declarations of a state's fields give each value its shape, and this module masks values by their shapes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from seekpoint.consumers.staging.masks.mask_fields import constant_or_text, json_text, text_of, text_or_none
from seekpoint.consumers.staging.masks.mask_values import DROPPED, Mask, dumped
from seekpoint.schemas.state.mask_shapes import CONTEXT, PLAIN, Shape
from seekpoint.schemas.state.process_state import FIELDS
from seekpoint.schemas.state.state_table import Section

_WHOLE = {**FIELDS.shapes(Section.WHOLE), "fold_version": PLAIN, "counters": PLAIN}
_CONTENT = FIELDS.shapes(Section.CONTENT)
_OWNERSHIP = FIELDS.shapes(Section.OWNERSHIP)
_FACTS_JSON = frozenset({"payload", "prompt", "output", "error"})


class StateMasks:
    """Applies the rules for one kind to the state in its entries. A malformed state raises ``ValueError`` or others."""

    def __init__(
        self, mask: Mask, process_id: Callable[[str], str], digest: Callable[[str], str] = lambda digest: digest
    ) -> None:
        self._mask = mask
        self._process_id = process_id
        self._digest = digest

    def state(self, text: str) -> str:
        """Mask the whole state of a seed."""
        whole = json.loads(text)
        content, ownership = whole.pop("content"), whole.pop("ownership")
        masked = {"content": self._parts(content, _CONTENT), "ownership": self._parts(ownership, _OWNERSHIP)}
        return dumped(self._parts(whole, _WHOLE) | masked)

    def content(self, text: str) -> str:
        """Mask the content that a rewind or a fork restores."""
        return dumped(self._parts(json.loads(text), _CONTENT))

    def value(self, shape: Shape, value: Any, member: str = "", beside: Mapping[object, Any] | None = None) -> Any:
        """Mask ``value`` as ``shape`` says. ``member``: its key. ``beside``: the parts of the record it is in."""
        kind = shape.kind
        if value is None or kind == "plain":
            return value
        if kind == "case":
            chosen = shape.parts.get((beside or {})[shape.names[0]], shape.of[0])
            return self.value(chosen, value, member, beside)
        names = tuple(member if name == "*" else name for name in shape.names)
        if kind in _LEAVES:
            return self._leaf(shape, value, names)
        if kind == "embedded":
            return self._embedded(shape, value)
        if kind == "list":
            return [self.value(shape.of[0], one) for one in value]
        if kind == "row":
            if len(value) > len(shape.parts):
                raise ValueError(f"a row has {len(shape.parts)} parts at most")
            return list(self._parts(dict(zip(shape.parts, value, strict=False)), shape.parts).values())
        if kind == "facts":
            return {name: self._fact(name, one) for name, one in value.items()}
        return self._parts(value, shape.parts) if kind == "record" else self._members(shape, value, names)

    def _leaf(self, shape: Shape, value: Any, names: tuple[str, ...]) -> Any:
        mask = self._mask
        match shape.kind:
            case "text":
                return value if value in shape.words else text_of(mask, value, names)
            case "optional_text":
                return text_or_none(mask, value, names)
            case "name":
                return mask.name(value, names)
            case "process_id":
                return self._process_id(value)
        return json_text(mask, value, names, None if shape.kind == "optional_json" else "null")

    def _embedded(self, shape: Shape, text: str) -> Any:
        tree = json.loads(text)
        if tree is None:
            return text
        if isinstance(tree, dict):
            return dumped(self.value(shape.of[0], tree))
        if len(shape.of) == 1:
            raise ValueError("the JSON of an object is another value")
        return self.value(shape.of[1], text)

    def _members(self, shape: Shape, found: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
        masked: dict[str, Any] = {}
        for key, value in found.items():
            one = self.value(shape.of[0], value, key)
            if shape.kind == "digests":
                masked[self._digest(key)] = one
            elif shape.kind == "object":
                masked[text_of(self._mask, key, names)] = one
            elif one is not None:
                masked[self._mask.name(key, names)] = one
        return masked

    def _parts(self, found: Mapping[Any, Any], shapes: Mapping[Any, Shape]) -> dict[Any, Any]:
        """Mask each field by its shape; a field without a declaration, under its own name."""
        return {
            key: self.value(shapes[key], value, beside=found) if key in shapes else self._by_name(key, value)
            for key, value in found.items()
        }

    def _by_name(self, name: str, value: Any) -> Any:
        masked = self._mask.value(value, (name,))
        return None if masked is DROPPED else masked

    def _fact(self, name: str, value: Any) -> Any:
        if value is None or isinstance(value, bool | int):
            return value
        if not isinstance(value, str):
            return self._by_name(name, value)
        if name == "child_id":
            return self._process_id(value)
        return (
            json_text(self._mask, value, (name,)) if name in _FACTS_JSON else constant_or_text(self._mask, name, value)
        )


_LEAVES = frozenset({"text", "optional_text", "name", "process_id", "json", "optional_json"})


def context_of(mask: Mask, values: Mapping[str, str], *, keep: bool = False) -> dict[str, str]:
    """Mask context values. ``keep``: replace a dropped value by null."""
    if keep:
        return {mask.name(key, ("context",)): json_text(mask, text, ("context", key)) for key, text in values.items()}
    masked: dict[str, str] = StateMasks(mask, str).value(CONTEXT, values)
    return masked
