"""Masking of the states that seeds, forks and rewinds carry: each value by the name it has in the entries it came from.

A call's output is ``output`` as in the entry that ended the step, a decision's ``response``, a child's ``result``; what
a turn started from is ``context`` again. So one rule reaches a value wherever it stands.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from seekpoint.consumers.staging.masks.mask_texts import json_text, text_of, text_or_none, word_or_text
from seekpoint.consumers.staging.masks.mask_values import DROPPED, Mask, dumped
from seekpoint.schemas.state.calls import kind_number

__all__ = ["MESSAGE", "StateMasks", "context_of", "message_of", "message_part"]

_ROLES = frozenset({"system", "developer", "user", "assistant", "tool", "function"})
MESSAGE = ("role", "content", "parts", "tool_calls", "tool_call_id", "name")
_MESSAGE_JSON = frozenset({"parts", "tool_calls"})

_WHOLE = frozenset({"fold_version", "content", "ownership", "offset", "first_offset", "counters", "customs", "folds"})
_CONTENT = frozenset({"context", "conversation", "lifecycle", "invocations", "invocation", "calls", "turn"})
_CONTENT_RUN = frozenset({"patches", "frames"})
_OWNERSHIP = frozenset({"epoch", "owner", "seq", "finished", "dropped", "last_kind", "remembered"})
"""Counts, ids, and words of ours."""
_NAMES = {"decision": "response", "sample": "value", "gate": "payload", "child": "result"}
_OUTPUTS = {kind_number(kind): name for kind, name in _NAMES.items()}
"""What the entry that ended a call of this kind (by its number in a state) names what came of it, if not ``output``."""
_GATE, _RECEIVE = kind_number("gate"), kind_number("receive")
_FACTS_JSON = frozenset({"payload", "prompt", "output", "error"})


class StateMasks:
    """The rules for one kind, applied to the state its entries carry. Raises ``ValueError`` and such if it is none."""

    def __init__(self, mask: Mask, process_id: Callable[[str], str]) -> None:
        self._mask = mask
        self._process_id = process_id

    def state(self, text: str) -> str:
        """A whole state, as a seed carries it."""
        whole = json.loads(text)
        whole["content"] = self._content(whole["content"])
        whole["ownership"] = self._ownership(whole["ownership"])
        if "folds" in whole:
            whole["folds"] = {self._name(name, "folds"): self._fold(name, row) for name, row in whole["folds"].items()}
        return dumped(self._others(whole, whole.keys() - _WHOLE))

    def content(self, text: str) -> str:
        """What a rewind or a fork restores."""
        return dumped(self._content(json.loads(text)))

    def _others(self, tree: dict[str, Any], names: Iterable[str]) -> dict[str, Any]:
        """What this code does not know is masked all the same, by the name it has."""
        for name in names:
            found = self._mask.tree(tree[name], (name,))
            tree[name] = None if found is DROPPED else found
        return tree

    # --- content
    def _content(self, content: dict[str, Any]) -> dict[str, Any]:
        mask = self._mask
        content["context"] = context_of(mask, content["context"])
        content["conversation"] = [message_of(mask, said) for said in content["conversation"]]
        content["invocation"] = self._invocation(content["invocation"])
        if "calls" in content:
            content["calls"] = self._calls(content["calls"])
        if "patches" in content:
            content["patches"] = [text_of(mask, one, ("id",)) for one in content["patches"]]
        if "frames" in content:
            content["frames"] = [self._frame(one) for one in content["frames"]]
        return self._others(content, content.keys() - _CONTENT - _CONTENT_RUN)

    def _invocation(self, found: list[Any] | None) -> list[Any] | None:
        if found is None:
            return None
        trigger, payload, started = found
        return [text_of(self._mask, trigger, ("trigger",)), json_text(self._mask, payload, ("payload",)), started]

    def _frame(self, found: list[Any] | None) -> list[Any] | None:
        if found is None:
            return None
        values, messages, invocations, invocation = found
        return [context_of(self._mask, values), messages, invocations, self._invocation(invocation)]

    def _calls(self, rows: Mapping[str, list[Any]]) -> dict[str, list[Any]]:
        return {text_of(self._mask, key, ("key",)): self._call(row) for key, row in rows.items()}

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

    # --- ownership
    def _ownership(self, owned: dict[str, Any]) -> dict[str, Any]:
        mask = self._mask
        owned["owner_node"] = text_or_none(mask, owned["owner_node"], ("node_id",))
        owned["owner_boot"] = text_or_none(mask, owned["owner_boot"], ("boot_id",))
        owned["mailbox"] = [self._mail(item) for item in owned["mailbox"]]
        owned["result"] = self._json(owned["result"], "result")
        if owned["lineage"]["parent_id"] is not None:
            owned["lineage"]["parent_id"] = self._process_id(owned["lineage"]["parent_id"])
        owned["degraded"] = self._degraded(owned["degraded"])
        owed = self._owed(owned)
        known = {"owner_node", "owner_boot", "mailbox", "result", "lineage", "degraded", *owed}
        return self._others({**owned, **owed}, owned.keys() - _OWNERSHIP - known)

    def _owed(self, owned: Mapping[str, Any]) -> dict[str, Any]:
        """What there is of an agent's run."""
        mask = self._mask
        owed: dict[str, Any] = {}
        if "agent" in owned:
            *names, given = owned["agent"][:4]
            said = zip(("agent", "version", "definition"), names, strict=True)
            digests = [text_of(mask, one, ("digest",)) for one in owned["agent"][4:]]
            owed["agent"] = [*(text_of(mask, text, (name,)) for name, text in said), self._json(given, "input")]
            owed["agent"] += digests
        if "effects" in owned:
            owed["effects"] = self._calls(owned["effects"])
        if "obligations" in owned:
            owed["obligations"] = [self._obligation(one) for one in owned["obligations"]]
        if "cancelled" in owned:
            owed["cancelled"] = text_of(mask, owned["cancelled"], ("reason",))
        if "budget" in owned:
            owed["budget"] = self._budget(owned["budget"])
        if "forgotten" in owned:
            owed["forgotten"] = {text_of(mask, key, ("key",)): times for key, times in owned["forgotten"].items()}
        if "failure" in owned:
            seq, *texts = owned["failure"]
            names = ("type", "message", "where")
            said = zip(names, texts, strict=True)
            owed["failure"] = [seq, *(text_or_none(mask, text, (name,)) for name, text in said)]
        if "shared" in owned:
            version, text = owned["shared"]
            owed["shared"] = [version, self._json(text, "value")]
        return owed

    def _mail(self, item: list[Any]) -> list[Any]:
        """One item of a mailbox: id, kind, name, payload, actor."""
        id_hex, kind, name, payload, actor = item
        named = {"cancel_requested": "reason", "signal": "name"}.get(kind, "key")
        told = self._json(payload, "payload") if named != "key" else self._facts(payload)
        return [id_hex, kind, text_of(self._mask, name, (named,)), told, text_or_none(self._mask, actor, ("actor",))]

    def _obligation(self, one: list[Any]) -> list[Any]:
        key, name, arguments, status = one
        named = [text_of(self._mask, key, ("key",)), text_of(self._mask, name, ("name",))]
        return [*named, self._json(arguments, "arguments"), status]

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
