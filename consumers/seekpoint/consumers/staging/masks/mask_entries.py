"""Masking of entries. A path uses the names of the state, whatever kind of entry carries a value:

context.KEY...                context_updated, context_updated_many, context_patched, context_deleted
message.content, .parts...    message_said
context..., message...        also inside rewound, forked, promoted and seeded, which carry a state: see mask_states
data                          the bytes of part_attached; their digest goes with them, in values too
key                           the key of a call, also each key in the lists of calls_set_aside and parent_answered
FIELD...                      any other field of any other kind: payload, result, reason, error, ...
actor, correlation_id         of every entry
process_id                    of every entry, and its Kafka key; always replaced as a whole, by a pseudonym
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from types import NoneType
from typing import Any

from seekpoint.consumers.staging.masks.mask_fields import constant_or_text, json_text, text_of, text_or_none
from seekpoint.consumers.staging.masks.mask_rules import MaskRules
from seekpoint.consumers.staging.masks.mask_states import StateMasks, context_of
from seekpoint.consumers.staging.masks.mask_values import Mask, dumped
from seekpoint.schemas import bodies as b
from seekpoint.schemas.bodies.entry import Entry
from seekpoint.schemas.errors import ReplayRefused
from seekpoint.schemas.folding.fold import SHARED_PREFIX
from seekpoint.schemas.state.conversation import Message
from seekpoint.schemas.state.lifecycle import Lifecycle
from seekpoint.schemas.state.state_values import shape_of

_DIGEST_PARTS = 4
_LIFECYCLE = frozenset(Lifecycle)
_MESSAGE = shape_of(Message)
_HARMLESS = (bool, int, bytes, NoneType)
"""The types of fields that need no mask: counts, times and ids."""


class EntryMasks:
    """Applies mask rules to entries. Raises ``ValueError`` for an entry that cannot be masked."""

    def __init__(self, rules: MaskRules) -> None:
        self._rules = rules
        self._masks: dict[str, Mask] = {}
        self._all = Mask(rules.rules, rules.key)
        self._attachments = AttachmentMasks(self._chosen(b.PartAttached.KIND), self.process_id)

    def mask_of(self, kind: str) -> Mask:
        """Return the rules for ``kind``: those that name it, and those without kinds."""
        if kind not in self._masks:
            self._masks[kind] = self._chosen(kind, self._attachments.ref_items)
        return self._masks[kind]

    def _chosen(self, kind: str, *ref_items: Callable[[list[Any]], list[Any]]) -> Mask:
        chosen = tuple(rule for rule in self._rules.rules if not rule.kinds or kind in rule.kinds)
        return Mask(chosen, self._rules.key, *ref_items)

    def process_id(self, process_id: str) -> str:
        """Mask a process id. All rules apply, so that the pseudonym is the same in entries of all kinds."""
        mask = self._all
        masked = mask.text(process_id, ("process_id",))
        if masked == process_id:
            return process_id
        if not mask.has_key:
            raise ReplayRefused(
                "a mask rule matches process ids, which need pseudonyms: two processes must not become one",
                hint="give the rules a key_file, or leave process_id out of their paths",
            )
        shared = SHARED_PREFIX if process_id.startswith(SHARED_PREFIX) else ""  # the fold needs it
        return shared + mask.pseudonym(process_id)

    def entry(self, entry: Entry) -> Entry:
        """Mask an entry."""
        mask = self.mask_of(entry.kind)
        return entry._replace(
            process_id=self.process_id(entry.process_id),
            actor=text_or_none(mask, entry.actor, ("actor",)),
            correlation_id=text_or_none(mask, entry.correlation_id, ("correlation_id",)),
            body=self._body(mask, entry.body),
        )

    def _body(self, mask: Mask, body: b.Body) -> b.Body:
        """Mask each field under its own name, or under its name in the state if that differs."""
        known = self._known(mask, body)
        others = [each for each in fields(body) if each.name not in known]
        return replace(body, **known, **{each.name: _field(mask, body, each) for each in others})

    def _known(self, mask: Mask, body: b.Body) -> dict[str, Any]:
        if isinstance(body, b.ContextUpdated):
            [(key, value)] = context_of(mask, {body.key: body.value}, keep=True).items()
            return {"key": key, "value": value}
        if isinstance(body, b.ContextUpdatedMany):
            return {"values": context_of(mask, body.values)}
        if isinstance(body, b.ContextPatched):
            return {"patch": json_text(mask, body.patch, ("context",), "{}")}
        if isinstance(body, b.ContextDeleted):
            return {"key": mask.name(body.key, ("context",))}
        if isinstance(body, b.MessageSaid):
            return _message(mask, [getattr(body, str(name)) for name in _MESSAGE.parts])
        if isinstance(body, b.LifecycleChanged):
            return {"to": body.to if body.to in _LIFECYCLE else text_of(mask, body.to, ("to",))}
        if isinstance(body, b.Rewound):
            return {
                "content": self._state_masks(mask).content(body.content),
                "answers": None if body.answers is None else _keys(mask, body.answers),
            }
        if isinstance(body, b.Forked):
            return {
                "parent_id": self.process_id(body.parent_id),
                "rerun_of": None if body.rerun_of is None else self.process_id(body.rerun_of),
                "content": self._state_masks(mask).content(body.content),
                "answers": None if body.answers is None else _keys(mask, body.answers),
            }
        if isinstance(body, b.Promoted):
            content = self._state_masks(mask).content(body.content)
            return {"fork_id": self.process_id(body.fork_id), "content": content}
        if isinstance(body, b.Seeded):
            return {"state": self._state_masks(mask).state(body.state)}
        if isinstance(body, b.ContentBatch):
            return {"values": context_of(mask, body.values), **_batched(mask, body)}
        if isinstance(body, b.CallsSetAside | b.ParentAnswered):
            return {"keys": _keys(mask, body.keys)}
        if isinstance(body, b.AgentStarted | b.Submitted):
            return {"spawned_by": None if body.spawned_by is None else self.process_id(body.spawned_by)}
        if isinstance(body, b.ChildSpawned):
            return {"child_id": self.process_id(body.child_id)}
        if isinstance(body, b.PartAttached):
            part, store = self._attachments.part(body), body.store and text_of(mask, body.store, ("store",))
            return {"digest": part.digest, "data": part.data, "store": store}
        if isinstance(body, b.Detached):
            return {"digests": dumped([self._attachments.digest(each) for each in json.loads(body.digests)])}
        return {}

    def _state_masks(self, mask: Mask) -> StateMasks:
        return StateMasks(mask, self.process_id, self._attachments.digest)


def _keys(mask: Mask, text: str) -> str:
    """Mask a list of keys of calls."""
    return dumped([text_of(mask, key, ("key",)) for key in json.loads(text)])


def _batched(mask: Mask, body: b.ContentBatch) -> dict[str, str]:
    """Mask the names of deleted values, and the messages, which are JSON."""
    deleted = [mask.name(key, ("context",)) for key in json.loads(body.deleted)]
    messages = [[*_message(mask, message).values()] for message in json.loads(body.messages)]
    return {"deleted": dumped(deleted), "messages": dumped(messages)}


def _message(mask: Mask, values: list[Any]) -> dict[str, Any]:
    """Mask one message, given as the list of its fields."""
    if len(values) > len(_MESSAGE.parts):
        raise ValueError("a message has six fields")
    masked: dict[str, Any] = StateMasks(mask, str).value(_MESSAGE, dict(zip(_MESSAGE.parts, values, strict=False)))
    return masked


def _field(mask: Mask, body: b.Body, field: Any) -> Any:
    """Mask a field under its own name."""
    value, declared, names = getattr(body, field.name), str(field.type), (field.name,)
    if isinstance(value, Mapping):
        return {mask.name(key, names): json_text(mask, text, (*names, key)) for key, text in value.items()}
    if isinstance(value, _HARMLESS):
        return value
    if not isinstance(value, str):
        raise TypeError(f"a field of the type {declared} cannot be masked")
    if "Json" in declared:
        return json_text(mask, value, names, None if "None" in declared else "null")
    return text_or_none(mask, value, names) if "None" in declared else constant_or_text(mask, field.name, value)


class AttachmentMasks:
    """Masks attachments by the rules for their parts: as a whole if any rule reaches their bytes or their digest.

    A digest tells whoever guesses the bytes that the guess is right, so it never passes beside masked bytes. Sizes
    stay, so the copy folds as the source does. What is masked cannot be read: its digest is that of no bytes.
    """

    def __init__(self, mask: Mask, process_id: Callable[[str], str]) -> None:
        self._mask = mask
        self._process_id = process_id
        self._is_masked = mask.reaches(("data",)) or mask.reaches(("digest",))

    def part(self, body: b.PartAttached) -> b.PartAttached:
        """Mask a part: its bytes and its digest."""
        digest = self.digest(body.digest)
        return body if digest == body.digest else replace(body, digest=digest, data=bytes(len(body.data)))

    def digest(self, digest: str) -> str:
        """Mask the digest of an attachment. Raises ``ReplayRefused`` if it needs a key."""
        if not self._is_masked:
            return digest
        if not self._mask.has_key:
            raise ReplayRefused(
                "a mask rule reaches attachments, whose digests need pseudonyms: two must not become one",
                hint="give the rules a key_file, or name the kinds of the rule that reaches part_attached",
            )
        return "".join(self._mask.pseudonym(f"{number} {digest}") for number in range(_DIGEST_PARTS))

    def ref_items(self, items: list[Any]) -> list[Any]:
        """Mask what a reference in a value says."""
        digest, size, process_id, *rest = items
        return [self.digest(digest), size, self._process_id(process_id), *rest]
