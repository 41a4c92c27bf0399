"""What an owner's entry does to the content of its process: context, conversation, lifecycle, invocations, lineage.

Each rule gives None when the body fits, else (reason, detail): its seq counts, the body is not applied, the process
is degraded. The writer asks the same questions before it sends.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import orjson

from seekpoint.schemas import bodies as b
from seekpoint.schemas.conversation import Message
from seekpoint.schemas.errors import SeekpointError
from seekpoint.schemas.lifecycle import Lifecycle, may_follow
from seekpoint.schemas.limits import Limits
from seekpoint.schemas.state import Draft, Invocation, Lineage, message_width, restore_content, value_width
from seekpoint.schemas.values import check, dump, load, merge_patch

__all__ = ["Misfit", "apply_content"]

Misfit = tuple[str, str] | None


def apply_content(draft: Draft, body: b.Body, limits: Limits) -> Misfit:
    """Apply ``body`` to ``draft`` and give None; or leave ``draft`` as it was and say why it does not fit."""
    rule = _RULES.get(type(body))
    return rule(draft, body, limits) if rule is not None else None


def _too_big(draft: Draft, more: int, limits: Limits) -> Misfit:
    grown = draft.content_bytes + more
    if grown > limits.state_bytes:
        return "state_limit", f"the state would have {grown} bytes, {limits.state_bytes} are allowed"
    return None


def _update(draft: Draft, body: b.ContextUpdated, limits: Limits) -> Misfit:
    return _set_values(draft, {body.key: body.value}, limits)


def _update_many(draft: Draft, body: b.ContextUpdatedMany, limits: Limits) -> Misfit:
    return _set_values(draft, body.values, limits)


def _set_values(draft: Draft, changes: Any, limits: Limits) -> Misfit:
    values = draft.values_json
    more = 0
    for key, text in changes.items():
        old = values.get(key)
        more += value_width(key, text) - (value_width(key, old) if old is not None else 0)
    misfit = _too_big(draft, more, limits)
    if misfit is None:
        values.update(changes)
        draft.content_bytes += more
    return misfit


def _delete(draft: Draft, body: b.ContextDeleted, limits: Limits) -> Misfit:
    old = draft.values_json.pop(body.key, None)
    if old is not None:
        draft.content_bytes -= value_width(body.key, old)
    return None


def _patch(draft: Draft, body: b.ContextPatched, limits: Limits) -> Misfit:
    try:
        patch = load(body.patch)
        if type(patch) is not dict:
            return "illegal_patch", "a merge patch of a context is an object"
        touched = {key: load(draft.values_json[key]) for key in patch if key in draft.values_json}
        merged = merge_patch(touched, patch)
        changes = {key: dump(value, limits) for key, value in merged.items()}
    except SeekpointError as exc:
        return "illegal_patch", exc.message
    misfit = _set_values(draft, changes, limits)
    if misfit is None:
        for key in touched.keys() - merged.keys():
            _delete(draft, b.ContextDeleted(key), limits)
    return misfit


def _clear(draft: Draft, body: b.ContextCleared, limits: Limits) -> Misfit:
    draft.content_bytes -= sum(value_width(key, text) for key, text in draft.values_json.items())
    draft.values_json = {}
    return None


def _say(draft: Draft, body: b.MessageSaid, limits: Limits) -> Misfit:
    message = Message(body.role, body.content, body.parts, body.tool_calls, body.tool_call_id, body.name)
    width = message_width(message)
    misfit = _too_big(draft, width, limits)
    if misfit is None:
        draft.conversation = draft.conversation.append(message)
        draft.content_bytes += width
    return misfit


def _change_lifecycle(draft: Draft, body: b.LifecycleChanged, limits: Limits) -> Misfit:
    if not may_follow(draft.lifecycle, body.to):
        return "illegal_transition", f"{draft.lifecycle} does not lead to {body.to[:40]}"
    draft.lifecycle = Lifecycle(body.to)
    return None


def _trigger(draft: Draft, body: b.InvocationTriggered, limits: Limits) -> Misfit:
    draft.invocation = Invocation(body.trigger, body.payload)
    return None


def _start(draft: Draft, body: b.InvocationStarted, limits: Limits) -> Misfit:
    if draft.invocation is None:
        return "illegal_invocation", "nothing was triggered"
    draft.invocation = replace(draft.invocation, started=True)
    return None


def _end(draft: Draft, body: b.InvocationEnded, limits: Limits) -> Misfit:
    if draft.invocation is None:
        return "illegal_invocation", "nothing was triggered"
    draft.invocation = None
    draft.invocations += 1
    return None


def _rewind(draft: Draft, body: b.Rewound, limits: Limits) -> Misfit:
    misfit = _restore(draft, body.content, limits)
    if misfit is None:
        draft.lineage = replace(draft.lineage, rewound_to_seq=body.to_seq, rewinds=draft.lineage.rewinds + 1)
    return misfit


def _fork(draft: Draft, body: b.Forked, limits: Limits) -> Misfit:
    misfit = _restore(draft, body.content, limits)
    if misfit is None:
        draft.lineage = Lineage(parent_id=body.parent_id, parent_seq=body.parent_seq)
    return misfit


def _restore(draft: Draft, content: b.Json, limits: Limits) -> Misfit:
    restored = Draft()
    try:
        restore_content(restored, orjson.loads(content))
        for text in restored.values_json.values():
            check(text, limits)
    except (KeyError, TypeError, ValueError, AttributeError, SeekpointError) as exc:
        return "illegal_content", repr(exc)[:200]
    misfit = _too_big(restored, 0, limits)
    if misfit is None:
        for name in ("values_json", "conversation", "lifecycle", "invocations", "invocation", "content_bytes"):
            setattr(draft, name, getattr(restored, name))
    return misfit


_RULES: dict[type[b.Body], Callable[[Draft, Any, Limits], Misfit]] = {
    b.ContextUpdated: _update,
    b.ContextUpdatedMany: _update_many,
    b.ContextDeleted: _delete,
    b.ContextPatched: _patch,
    b.ContextCleared: _clear,
    b.MessageSaid: _say,
    b.LifecycleChanged: _change_lifecycle,
    b.InvocationTriggered: _trigger,
    b.InvocationStarted: _start,
    b.InvocationEnded: _end,
    b.Rewound: _rewind,
    b.Forked: _fork,
}
