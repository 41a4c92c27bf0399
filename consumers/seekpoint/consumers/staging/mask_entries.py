"""Masking of entries: by the names that a reader of the state would use, whatever kind of entry carries a value.

context.KEY...                context_updated, context_updated_many, context_patched, context_deleted
message.content, .parts...    message_said
context..., message...        also within rewound, forked and seeded, which carry a state
FIELD...                      any other field of any other kind: payload, result, reason, error, ...
actor, correlation_id         of every entry
process_id                    of every entry, and its Kafka key; always replaced as a whole, by a pseudonym
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, replace
from types import NoneType
from typing import Any

from seekpoint.consumers.staging.mask_rules import MaskRules
from seekpoint.consumers.staging.mask_values import DROPPED, REDACTED, Mask, dumped
from seekpoint.schemas import bodies as b
from seekpoint.schemas.entry import Entry
from seekpoint.schemas.errors import ReplayRefused, SeekpointError
from seekpoint.schemas.values import check

__all__ = ["EntryMasks"]

_ROLES = frozenset({"system", "developer", "user", "assistant", "tool", "function"})
_MESSAGE = ("role", "content", "parts", "tool_calls", "tool_call_id", "name")
_MESSAGE_JSON = frozenset({"parts", "tool_calls"})


_CONTENT = frozenset({"context", "conversation", "invocation", "invocations", "lifecycle"})
_OWNERSHIP = frozenset({"epoch", "owner", "seq", "finished", "result", "last_kind", "mailbox", "remembered", "lineage"})
_HARMLESS = (bool, int, bytes, NoneType)
"""Fields of these types hold counts, times and ids."""


class EntryMasks:
    """The rules, applied to entries. Raises ``ValueError`` for an entry that cannot be masked."""

    def __init__(self, rules: MaskRules) -> None:
        self._rules = rules
        self._masks: dict[str, Mask] = {}
        self._all = Mask(rules.rules, rules.key)

    def mask_of(self, kind: str) -> Mask:
        """The rules that are for ``kind``: those that name it, and those that name none."""
        if kind not in self._masks:
            chosen = tuple(rule for rule in self._rules.rules if not rule.kinds or kind in rule.kinds)
            self._masks[kind] = Mask(chosen, self._rules.key)
        return self._masks[kind]

    def process_id(self, process_id: str) -> str:
        """The process's id; the same wherever it stands, so of all rules, whatever kinds they are for."""
        mask = self._all
        masked = mask.text(process_id, ("process_id",))
        if masked == process_id:
            return process_id
        if not mask.has_key:
            raise ReplayRefused(
                "a mask rule reaches process ids, which need pseudonyms: two processes must not become one",
                hint="give the rules a key_file, or leave process_id out of their paths",
            )
        return mask.pseudonym(process_id)

    def entry(self, entry: Entry) -> Entry:
        """The entry, masked."""
        mask = self.mask_of(entry.kind)
        return entry._replace(
            process_id=self.process_id(entry.process_id),
            actor=_text_or_none(mask, entry.actor, ("actor",)),
            correlation_id=_text_or_none(mask, entry.correlation_id, ("correlation_id",)),
            body=self._body(mask, entry.body),
        )

    def _body(self, mask: Mask, body: b.Body) -> b.Body:
        """Each field by its own name, but those that a reader of the state knows by another."""
        known = self._known(mask, body)
        others = [each for each in fields(body) if each.name not in known]
        return replace(body, **known, **{each.name: _field(mask, body, each) for each in others})

    def _known(self, mask: Mask, body: b.Body) -> dict[str, Any]:
        if isinstance(body, b.ContextUpdated):
            [(key, value)] = _context(mask, {body.key: body.value}, keep=True).items()
            return {"key": key, "value": value}
        if isinstance(body, b.ContextUpdatedMany):
            return {"values": _context(mask, body.values)}
        if isinstance(body, b.ContextPatched):
            return {"patch": _json(mask, body.patch, ("context",), "{}")}
        if isinstance(body, b.ContextDeleted):
            return {"key": mask.name(body.key, ("context",))}
        if isinstance(body, b.MessageSaid):
            return {name: _message_part(mask, name, getattr(body, name)) for name in _MESSAGE}
        if isinstance(body, b.LifecycleChanged):
            return {"to": body.to}
        if isinstance(body, b.Rewound):
            return {"content": self._content(mask, body.content)}
        if isinstance(body, b.Forked):
            return {"parent_id": self.process_id(body.parent_id), "content": self._content(mask, body.content)}
        if isinstance(body, b.Seeded):
            return {"state": self._state(mask, body.state)}
        if isinstance(body, b.ContentBatch):
            return {"values": _context(mask, body.values), **_batched(mask, body)}
        if isinstance(body, b.ChildSpawned):
            return {"child_id": self.process_id(body.child_id)}
        return {}

    def _state(self, mask: Mask, text: str) -> str:
        """A whole state: its content, and what lies in its mailbox, is owed, or came out of it."""
        whole = json.loads(text)
        whole["content"] = json.loads(self._content(mask, dumped(whole["content"])))
        ownership = whole["ownership"]
        ownership["mailbox"] = [_mail(mask, item) for item in ownership["mailbox"]]
        if ownership["lineage"]["parent_id"] is not None:
            ownership["lineage"]["parent_id"] = self.process_id(ownership["lineage"]["parent_id"])
        if ownership["result"] is not None:
            ownership["result"] = _json(mask, ownership["result"], ("result",))
        for name in ownership.keys() - _OWNERSHIP:
            found = mask.tree(ownership[name], (name,))
            ownership[name] = None if found is DROPPED else found
        return dumped(whole)

    def _content(self, mask: Mask, text: str) -> str:
        """What a rewind or a fork restores."""
        content = json.loads(text)
        content["context"] = _context(mask, content["context"])
        content["conversation"] = [_message(mask, said) for said in content["conversation"]]
        if content["invocation"] is not None:
            trigger, payload, started = content["invocation"]
            trigger = _text(mask, trigger, ("trigger",))
            content["invocation"] = [trigger, _json(mask, payload, ("payload",)), started]
        for name in content.keys() - _CONTENT:
            found = mask.tree(content[name], (name,))
            content[name] = None if found is DROPPED else found
        return dumped(content)


def _context(mask: Mask, values: Mapping[str, str], *, keep: bool = False) -> dict[str, str]:
    """Context values by key. ``keep``: one that is dropped stays, as null."""
    masked: dict[str, str] = {}
    for key, text in values.items():
        found = mask.json(text, ("context", key))
        if found is not DROPPED:
            masked[mask.name(key, ("context",))] = _checked(found)
        elif keep:
            masked[mask.name(key, ("context",))] = "null"
    return masked


def _mail(mask: Mask, item: list[Any]) -> list[Any]:
    """One item of a mailbox: id, kind, name, payload, actor."""
    id_hex, kind, name, payload, actor = item
    named = _text(mask, name, ("name",))
    return [id_hex, kind, named, _json(mask, payload, ("payload",)), _text_or_none(mask, actor, ("actor",))]


def _batched(mask: Mask, body: b.ContentBatch) -> dict[str, str]:
    """Names of values that were deleted, and messages, as JSON."""
    deleted = [mask.name(key, ("context",)) for key in json.loads(body.deleted)]
    messages = [_message(mask, said) for said in json.loads(body.messages)]
    return {"deleted": dumped(deleted), "messages": dumped(messages)}


def _message(mask: Mask, said: list[Any]) -> list[Any]:
    return [_message_part(mask, name, value) for name, value in zip(_MESSAGE, said, strict=False)]


def _message_part(mask: Mask, name: str, value: str | None) -> str | None:
    if value is None or (name == "role" and value in _ROLES):
        return value
    if name in _MESSAGE_JSON:
        found_json: str | None = _json(mask, value, ("message", name), None)
        return found_json
    found = _text_or_none(mask, value, ("message", name))
    return found if found is not None or name != "role" else ""


def _field(mask: Mask, body: b.Body, field: Any) -> Any:
    """A field of a kind without a name of its own for it."""
    value, declared, names = getattr(body, field.name), str(field.type), (field.name,)
    if isinstance(value, Mapping):
        return {mask.name(key, names): _json(mask, text, (*names, key)) for key, text in value.items()}
    if isinstance(value, _HARMLESS):
        return value
    if not isinstance(value, str):
        raise TypeError(f"no mask knows fields of the type {declared}")
    if "Json" in declared:
        return _json(mask, value, names, None if "None" in declared else "null")
    return _text_or_none(mask, value, names) if "None" in declared else _text(mask, value, names)


def _text(mask: Mask, value: str, names: tuple[str, ...]) -> str:
    return _text_or_none(mask, value, names) or ""


def _text_or_none(mask: Mask, value: str | None, names: tuple[str, ...]) -> str | None:
    if value is None:
        return None
    found = mask.text(value, names)
    return None if found is DROPPED else str(found)


def _json(mask: Mask, text: str, names: tuple[str, ...], dropped: Any = "null") -> Any:
    found = mask.json(text, names)
    return dropped if found is DROPPED else _checked(found)


def _checked(text: str) -> str:
    """A masked text that is no dynamic value any more (a set in which two became one) is redacted as a whole."""
    try:
        check(text)
    except SeekpointError:
        return dumped(REDACTED)
    return text
