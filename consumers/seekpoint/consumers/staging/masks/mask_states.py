"""Masking of the states that seeds, forks and rewinds carry: each value by the name it has in the entries it came from.

A call's output is ``output`` as in the entry that ended the step, a decision's ``response``, a child's ``result``; what
a turn started from is ``context`` again. So one rule reaches a value wherever it stands.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from seekpoint.consumers.staging.masks.mask_texts import json_text, text_of, text_or_none, word_or_text
from seekpoint.consumers.staging.masks.mask_values import DROPPED, Mask, dumped
from seekpoint.schemas.state.calls import kind_number
from seekpoint.schemas.state.process_state import FIELDS
from seekpoint.schemas.state.state_table import Section, Shape

__all__ = ["MESSAGE", "StateMasks", "context_of", "message_of", "message_part"]

_ROLES = frozenset({"system", "developer", "user", "assistant", "tool", "function"})
MESSAGE = ("role", "content", "parts", "tool_calls", "tool_call_id", "name")
_MESSAGE_JSON = frozenset({"parts", "tool_calls"})

_WHOLE = {**FIELDS.shapes(Section.WHOLE), "fold_version": Shape("plain"), "counters": Shape("plain")}
_CONTENT = FIELDS.shapes(Section.CONTENT)
_OWNERSHIP = FIELDS.shapes(Section.OWNERSHIP)
_NAMES = {"decision": "response", "sample": "value", "gate": "payload", "child": "result"}
_OUTPUTS = {kind_number(kind): name for kind, name in _NAMES.items()}
"""What the entry that ended a call of this kind (by its number in a state) names what came of it, if not ``output``."""
_GATE, _RECEIVE = kind_number("gate"), kind_number("receive")
_PLAIN = Shape("plain")
_FACTS_JSON = frozenset({"payload", "prompt", "output", "error"})


class StateMasks:
    """The rules for one kind, applied to the state its entries carry. Raises ``ValueError`` and such if it is none."""

    def __init__(self, mask: Mask, process_id: Callable[[str], str]) -> None:
        self._mask = mask
        self._process_id = process_id
        self._forms: dict[str, Callable[[Any], Any]] = {
            "context": lambda found: context_of(mask, found),
            "message": lambda found: message_of(mask, found),
            "process_id": process_id,
            "call": self._call,
            "mail": self._mail,
            "budget": self._budget,
            "degraded": self._degraded,
            "folds": self._folds,
        }

    def state(self, text: str) -> str:
        """Mask a whole state, as a seed carries it."""
        whole = json.loads(text)
        content, ownership = whole.pop("content"), whole.pop("ownership")
        masked = {"content": self._section(content, _CONTENT), "ownership": self._section(ownership, _OWNERSHIP)}
        return dumped(self._section(whole, _WHOLE) | masked)

    def content(self, text: str) -> str:
        """Mask what a rewind or a fork restores."""
        return dumped(self._section(json.loads(text), _CONTENT))

    def _section(self, tree: dict[str, Any], shapes: Mapping[str, Shape]) -> dict[str, Any]:
        """Mask each key by its shape; one that the table of a state's fields does not have, by the name it has."""
        masked: dict[str, Any] = {}
        for key, value in tree.items():
            shape = shapes.get(key)
            masked[key] = self._unknown(key, value) if shape is None else self._walk(shape, value)
        return masked

    def _unknown(self, name: str, value: Any) -> Any:
        found = self._mask.tree(value, (name,))
        return None if found is DROPPED else found

    def _walk(self, shape: Shape, value: Any) -> Any:
        """Mask ``value`` as its shape says where texts of a person's stand in it."""
        kind, names, of = shape
        if value is None or kind == "plain":
            return value
        if kind == "text":
            return text_of(self._mask, value, names)
        if kind == "optional_text":
            return text_or_none(self._mask, value, names)
        if kind == "json":
            return json_text(self._mask, value, names)
        if kind == "list":
            return [self._walk(of[0], one) for one in value]
        if kind == "object":
            return {text_of(self._mask, key, names): self._walk(of[0], one) for key, one in value.items()}
        if kind == "row":
            if len(value) > len(of):
                raise ValueError(f"a row has {len(of)} parts at most")
            return [self._walk(part, one) for part, one in zip(of, value, strict=False)]
        if kind == "record":
            parts = dict(zip(names, of, strict=True))
            return {name: self._walk(parts.get(name, _PLAIN), one) for name, one in value.items()}
        return self._forms[kind](value)

    # --- calls
    def _call(self, row: list[Any]) -> list[Any]:
        kind, position, digest, status, attempt, seq, *texts = row
        if len(texts) > 3:
            raise ValueError("a call has six to nine parts")
        output, error, detail = (*texts, None, None, None)[:3]
        masked = [
            self._output(kind, output),
            self._json(error, "error"),
            None if detail is None else self._facts(detail),
        ]
        digest = text_of(self._mask, digest, ("digest",))
        return [kind, position, digest, status, attempt, seq, *masked[: len(texts)]]

    def _output(self, kind: int, output: str | None) -> Any:
        if output is not None and kind == _GATE:  # a gate's is what its end says, as an object
            return self._facts(output) if isinstance(json.loads(output), dict) else self._json(output, "payload")
        if output is not None and kind == _RECEIVE:  # what was received is as it was in the mailbox
            item = json.loads(output)
            return output if item is None else dumped(self._mail(item))
        return self._json(output, _OUTPUTS.get(kind, "output"))

    def _facts(self, text: str) -> str:
        """An object of texts and numbers, each by its name."""
        return dumped({name: self._fact(name, value) for name, value in json.loads(text).items()})

    def _fact(self, name: str, value: Any) -> Any:
        if value is None or isinstance(value, bool | int):
            return value
        if isinstance(value, str):
            if name == "child_id":
                return self._process_id(value)
            return self._json(value, name) if name in _FACTS_JSON else word_or_text(self._mask, name, value)
        found = self._mask.tree(value, (name,))
        return None if found is DROPPED else found

    # --- mail, budgets, gaps, folds
    def _mail(self, item: list[Any]) -> list[Any]:
        """One item of a mailbox: id, kind, name, payload, actor."""
        id_hex, kind, name, payload, actor = item
        named = {"cancel_requested": "reason", "signal": "name"}.get(kind, "key")
        told = self._json(payload, "payload") if named != "key" else self._facts(payload)
        return [id_hex, kind, text_of(self._mask, name, (named,)), told, text_or_none(self._mask, actor, ("actor",))]

    def _budget(self, budget: dict[str, Any]) -> dict[str, Any]:
        """Amounts stay; the calls that some is kept for are named, and dimensions are."""
        masked = {name: self._amounts(value) for name, value in budget.items()}
        if "reserved" in budget:
            kept = budget["reserved"].items()
            masked["reserved"] = {text_of(self._mask, key, ("key",)): self._amounts(one) for key, one in kept}
        return masked

    def _amounts(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {self._name(name, "limits"): self._amounts(one) for name, one in value.items()}
        if isinstance(value, list):
            return [self._amounts(one) for one in value]
        return self._name(value, "limits") if isinstance(value, str) else value

    def _degraded(self, found: dict[str, Any] | None, depth: int = 0) -> dict[str, Any] | None:
        if found is None:
            return None
        if depth > 2:
            raise ValueError("what came before a gap was no gap")
        texts = {name: text_of(self._mask, found[name], ("degraded", name)) for name in ("reason", "detail")}
        return {**found, **texts, "earlier": self._degraded(found["earlier"], depth + 1)}

    def _folds(self, folds: Mapping[str, list[Any]]) -> dict[str, list[Any]]:
        return {self._name(name, "folds"): self._fold(name, row) for name, row in folds.items()}

    def _fold(self, name: str, row: list[Any]) -> list[Any]:
        """Version, count, value; of one that failed, where, and why."""
        version, customs, value, *failed = row
        masked = [version, customs, json_text(self._mask, value, ("folds", name))]
        return masked + [text_of(self._mask, one, ("error",)) if isinstance(one, str) else one for one in failed]

    def _name(self, name: str, of: str) -> str:
        return self._mask.name(name, (of,))

    def _json(self, text: str | None, name: str) -> Any:
        return None if text is None else json_text(self._mask, text, (name,))


def context_of(mask: Mask, values: Mapping[str, str], *, keep: bool = False) -> dict[str, str]:
    """Context values by key. ``keep``: one that is dropped stays, as null."""
    masked: dict[str, str] = {}
    for key, text in values.items():
        dropped = "null" if keep else None
        found = json_text(mask, text, ("context", key), dropped)
        if found is not None:
            masked[mask.name(key, ("context",))] = found
    return masked


def message_of(mask: Mask, said: list[Any]) -> list[Any]:
    """One message, as a state keeps it."""
    if len(said) > len(MESSAGE):
        raise ValueError("a message has six parts")
    return [message_part(mask, name, value) for name, value in zip(MESSAGE, said, strict=False)]


def message_part(mask: Mask, name: str, value: str | None) -> str | None:
    """One part of a message. Roles are vocabulary, not somebody's data."""
    if value is None or (name == "role" and value in _ROLES):
        return value
    if name in _MESSAGE_JSON:
        found_json: str | None = json_text(mask, value, ("message", name), None)
        return found_json
    found = text_or_none(mask, value, ("message", name))
    return found if found is not None or name != "role" else ""
