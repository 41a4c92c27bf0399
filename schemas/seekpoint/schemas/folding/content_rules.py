"""The fold's rules for the content of a process: context, conversation, lifecycle, invocations, lineage.

Each rule returns None if the body fits, else (reason, detail). An entry whose body does not fit still advances the seq;
its body is not applied and the process is degraded. Writers check the same rules before they send.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeAlias

import orjson
from msgspec.structs import replace

from seekpoint.schemas import bodies as b
from seekpoint.schemas.bodies.entry import process_key
from seekpoint.schemas.config.limits import Limits
from seekpoint.schemas.errors import SeekpointError
from seekpoint.schemas.state.calls import STANDING, UNDO, AgentRun, is_compensated, turn_of
from seekpoint.schemas.state.conversation import message_width
from seekpoint.schemas.state.lifecycle import Lifecycle, may_follow
from seekpoint.schemas.state.process_state import FIELDS, Draft, content_width, restore_content
from seekpoint.schemas.state.state_parts import Failure, InvocationState, Lineage, RunFailures
from seekpoint.schemas.state.state_values import member_width, size_of, text_width
from seekpoint.schemas.values.json_values import check, dump, load
from seekpoint.schemas.values.merge_patch import merge_patch

Misfit: TypeAlias = tuple[str, str] | None
Rule: TypeAlias = Callable[[Draft, Any, Limits], Misfit]
"""Applies a body to a draft and returns None, or returns why the body does not fit and leaves the draft unchanged."""


EFFECT_POLICIES = ("refused", "recorded", "live")
"""What may become of an effect of a fork that no record answers."""
_REASON_CHARACTERS_MAX = 200
_NO_CONTENT: Misfit = "illegal_content", "no content of a process, or beyond the limits of one value"
"""A fixed text. The detail is part of the state, and a library's own message may differ between its versions."""


def too_big(grown: int, limits: Limits) -> Misfit:
    """Return the misfit of a state with ``grown`` bytes; None if it is within the limit."""
    if grown <= limits.state_bytes:
        return None
    return "state_limit", f"the state would have {grown} bytes, {limits.state_bytes} are allowed"


def _update(draft: Draft, body: b.ContextUpdated, limits: Limits) -> Misfit:
    values, key, text = draft.values_json, body.key, body.value
    old = values.get(key)
    if old is None:
        grown = draft.content_bytes + member_width(key, text)
    else:
        grown = draft.content_bytes + text_width(text) - text_width(old)
    if grown > limits.state_bytes:
        return too_big(grown, limits)
    values[key] = text
    draft.content_bytes = grown
    return None


def _update_many(draft: Draft, body: b.ContextUpdatedMany, limits: Limits) -> Misfit:
    return _change_values(draft, body.values, (), limits)


def _change_values(
    draft: Draft, changes: Mapping[str, b.Json], removed: Collection[str], limits: Limits, more: int = 0
) -> Misfit:
    """Set ``changes`` and delete ``removed``, all or none. ``more`` bytes of other content count too."""
    values = draft.values_json
    grown = draft.content_bytes + more
    for key, text in changes.items():
        old = values.get(key)
        grown += member_width(key, text) if old is None else text_width(text) - text_width(old)
    for key in removed:
        if key in values:
            grown -= member_width(key, values[key])
    misfit = too_big(grown, limits)
    if misfit is None:
        values.update(changes)
        for key in removed:
            values.pop(key, None)
        draft.content_bytes = grown
    return misfit


def _delete(draft: Draft, body: b.ContextDeleted, limits: Limits) -> Misfit:
    old = draft.values_json.pop(body.key, None)
    if old is not None:
        draft.content_bytes -= member_width(body.key, old)
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
    return _change_values(draft, changes, touched.keys() - merged.keys(), limits)


def _clear(draft: Draft, body: b.ContextCleared, limits: Limits) -> Misfit:
    draft.content_bytes -= sum(member_width(key, text) for key, text in draft.values_json.items())
    draft.values_json = {}
    return None


def _append_message(draft: Draft, body: b.MessageSaid, limits: Limits) -> Misfit:
    grown = draft.content_bytes + message_width(body)
    if grown > limits.state_bytes:
        return too_big(grown, limits)
    draft.conversation = draft.conversation.append(body if body.call is None else replace(body, call=None))
    draft.content_bytes = grown
    return None


def _change_lifecycle(draft: Draft, body: b.LifecycleChanged, limits: Limits) -> Misfit:
    if not may_follow(draft.lifecycle, body.to):
        return "illegal_transition", f"{draft.lifecycle} does not lead to {body.to[:40]}"
    draft.lifecycle, draft.lifecycle_us = Lifecycle(body.to), draft.updated_us
    draft.awaits = (
        body.reason[:_REASON_CHARACTERS_MAX] if body.reason and draft.lifecycle is Lifecycle.AWAITING else None
    )
    if draft.lifecycle is Lifecycle.RUNNING and draft.hold is not None and draft.hold.action == "resume":
        draft.hold = None  # the request is carried out
    if draft.lifecycle is Lifecycle.RUNNING:
        draft.redrive = None
    if draft.lifecycle is Lifecycle.FAILED:
        draft.owner_deaths = 0
        count = 0 if draft.run_failures is None else draft.run_failures.count
        draft.run_failures = RunFailures(count + 1, draft.seq + 1, body.retry_at_us)
    return None


def _trigger(draft: Draft, body: b.InvocationTriggered, limits: Limits) -> Misfit:
    invocation = InvocationState(body.trigger, body.payload)
    grown = draft.content_bytes + size_of(invocation) - size_of(draft.invocation)
    misfit = too_big(grown, limits)
    if misfit is None:
        draft.invocation = invocation
        draft.content_bytes = grown
    return misfit


def _start(draft: Draft, body: b.InvocationStarted, limits: Limits) -> Misfit:
    if draft.invocation is None:
        return "illegal_invocation", "nothing was triggered"
    draft.invocation = replace(draft.invocation, started=True)
    return None


def _end(draft: Draft, body: b.InvocationEnded, limits: Limits) -> Misfit:
    if draft.invocation is None:
        return "illegal_invocation", "nothing was triggered"
    draft.content_bytes -= size_of(draft.invocation)
    draft.invocation = None
    draft.invocations += 1
    return None


REWIND_MODES = ("both", "conversation_only", "code_only", "summarize")
"""What a rewind restores: all content, the conversation, all but the conversation; nothing, but it adds a note."""
_ONLY_CONVERSATION = ("conversation_only", "summarize")


def _rewind(draft: Draft, body: b.Rewound, limits: Limits) -> Misfit:
    if body.mode not in REWIND_MODES:
        return "illegal_content", f"no rewind is {body.mode[:40]}"
    adjust = _keep_all_but_conversation if body.mode in _ONLY_CONVERSATION else _keep_effects
    misfit = _restore(draft, body.content, limits, adjust)
    if misfit is None:
        draft.lineage = replace(draft.lineage, rewound_to_seq=body.to_seq, rewinds=draft.lineage.rewinds + 1)
    return misfit


def _no_change(draft: Draft, body: b.ParentAnswered, limits: Limits) -> Misfit:
    """Change nothing: the entry is for those who read the history."""
    return None


def _promote(draft: Draft, body: b.Promoted, limits: Limits) -> Misfit:
    """Replace the content by one that was merged with a fork's. The process's own effects are kept, as in a rewind."""
    return _restore(draft, body.content, limits, _keep_effects)


def _fork(draft: Draft, body: b.Forked, limits: Limits) -> Misfit:
    try:
        process_key(body.parent_id)
        if body.rerun_of is not None:
            process_key(body.rerun_of)
    except SeekpointError as exc:
        return "illegal_content", exc.message
    if body.effects not in EFFECT_POLICIES:
        return "illegal_content", f"no effects are {body.effects[:40]}"
    before = draft.agent
    if body.agent is not None:
        draft.agent = AgentRun(body.agent[:200], body.version[:200], body.definition[:200], body.input)
    misfit = _restore(draft, body.content, limits)
    if misfit is None:
        draft.lineage = Lineage(
            body.parent_id, body.parent_seq, effects=body.effects, reason=body.reason and body.reason[:200],
            rerun_of=body.rerun_of, model=body.model and body.model[:200], seq_base=draft.lineage.seq_base,
        )  # fmt: skip
    else:
        draft.agent = before
    return misfit


def _restore(
    draft: Draft, content: str, limits: Limits, adjust: Callable[[Draft, Draft], None] | None = None
) -> Misfit:
    """Restore the fields of ``content_hash`` only: never epoch, owner, seq, offsets or ids."""
    restored = Draft()
    try:
        restore_content(restored, orjson.loads(content))
        check_texts(restored, limits)
        if adjust is not None:
            adjust(draft, restored)
        width = content_width(_with_kept_fields(restored, draft))
    except (LookupError, TypeError, ValueError, AttributeError, SeekpointError):
        return _NO_CONTENT
    misfit = too_big(width, limits)
    if misfit is None:
        if restored.lifecycle is not draft.lifecycle:
            draft.lifecycle_us = draft.updated_us
        for name in _RESTORED:
            setattr(draft, name, getattr(restored, name))
        draft.content_bytes = width
        newest = max((call.seq for call in draft.calls.values()), default=0)
        if newest > draft.call_seq:  # calls of another process: what this one does from here on comes after them
            draft.lineage = replace(draft.lineage, seq_base=newest - draft.seq)
    return misfit


_RESTORED = tuple(one.name for one in FIELDS.fields if one.restored)
_KEPT = tuple(one.name for one in FIELDS.fields if one.form.width is not None and not one.restored)
"""The fields that count towards the size of the content and are not restored."""


def _with_kept_fields(restored: Draft, draft: Draft) -> Draft:
    """Copy the fields that are not restored into ``restored``, so that the size of the whole can be computed."""
    for name in _KEPT:
        setattr(restored, name, getattr(draft, name))
    return restored


def _keep_effects(draft: Draft, restored: Draft) -> None:
    """Keep all effects in a rewind: it does not undo them in the outside world, and none may be fired twice.

    Unsettled effects become inherited. Effects from after the target seq lose their position. An effect from after it
    that was compensated is forgotten with its compensation: nothing of it is left outside. Forgotten calls with an
    idempotency key are counted, so that the next call under their key gets a new one.
    """
    restored.forgotten = dict(draft.forgotten)
    turns_lost = draft.turn > restored.turn
    if turns_lost:
        _forget(
            restored, f"{restored.turn + 1}/"
        )  # all calls of this turn and of later ones, whether or not they are known here
    undone = {
        key for key, call in draft.calls.items() if key not in restored.calls and is_compensated(key, draft.calls)
    }
    undone |= {UNDO + key for key in undone}
    for key, call in draft.calls.items():
        if key in undone:
            _forget(restored, key)
        elif call.kind == "effect":
            status = "inherited" if call.status in STANDING else call.status
            stands = restored.calls.get(key)  # with the position that the restored calls leave for it
            restored.calls.put(key, replace(call, status=status, position=0 if stands is None else stands.position))
        elif key not in restored.calls and call.kind in _KEYED and not (turns_lost and turn_of(key) > restored.turn):
            _forget(restored, key)


def _keep_all_but_conversation(draft: Draft, restored: Draft) -> None:
    """Keep everything but the conversation. A frame counts its messages from the beginning, as far as they are left."""
    for name in _RESTORED:
        if name != "conversation":
            setattr(restored, name, getattr(draft, name))
    for name in ("start_frame", "turn_frame"):
        frame = getattr(draft, name)
        if frame is not None and frame.messages > len(restored.conversation):
            setattr(restored, name, replace(frame, messages=len(restored.conversation)))


def _forget(restored: Draft, key: str) -> None:
    restored.forgotten[key] = restored.forgotten.get(key, 0) + 1


_KEYED = frozenset({"step", "decision"})
"""The kinds of calls whose idempotency key was passed to the outside."""


def check_texts(draft: Draft, limits: Limits) -> None:
    """Check a state from an untrusted text: its dynamic values, and the numbers of its calls.

    Raises as ``check`` does, and ``ValueError``.
    """
    for text in FIELDS.texts_of(draft):
        check(text, limits)
    if any((call.position | call.attempt) >> 63 or call.seq >> 62 for call in draft.calls.values()):
        raise ValueError("a call has a number out of range")


def _batch(draft: Draft, body: b.ContentBatch, limits: Limits) -> Misfit:
    """Change context and conversation at once, all or none."""
    try:
        removed, items = deleted_keys(body), orjson.loads(body.messages)
        if type(items) is not list:
            raise ValueError("the messages are not a list")
        messages = [_parse_message(item) for item in items]
    except (ValueError, TypeError):
        return _NO_CONTENT
    if body.cleared:
        removed |= draft.values_json.keys()
    removed -= body.values.keys()
    misfit = _change_values(draft, body.values, removed, limits, sum(map(message_width, messages)))
    if misfit is None:
        for message in messages:
            draft.conversation = draft.conversation.append(message)
    return misfit


def deleted_keys(body: b.ContentBatch) -> set[str]:
    """Return the keys that ``body`` deletes. Raises ``ValueError`` or ``TypeError`` for a malformed list."""
    keys = orjson.loads(body.deleted)
    if type(keys) is not list or any(type(key) is not str for key in keys):
        raise ValueError("the deleted keys are not a list of texts")
    return set(keys)


def _parse_message(item: Any) -> b.MessageSaid:
    if type(item) is not list or not 1 <= len(item) <= 6 or type(item[0]) is not str:
        raise ValueError("a message is a list of role, text, parts, tool calls, tool call id and name")
    if any(field is not None and type(field) is not str for field in item):
        raise ValueError("the fields of a message are texts")
    return b.MessageSaid(*item)


def _record_error(draft: Draft, body: b.ErrorRecorded, limits: Limits) -> Misfit:
    """Store the newest error, shortened for lists of processes; only the journal has its traceback."""
    seq, where = draft.seq + 1, body.where and body.where[:_WHERE_CHARACTERS_MAX]
    draft.failure = Failure(seq, body.type[:_TYPE_CHARACTERS_MAX], body.message[:_ERROR_CHARACTERS_MAX], where)
    return None


_TYPE_CHARACTERS_MAX, _ERROR_CHARACTERS_MAX, _WHERE_CHARACTERS_MAX = 200, 1_000, 1_000


CONTENT_RULES: Mapping[type[b.Body], Rule] = {
    b.ContextUpdated: _update,
    b.ContextUpdatedMany: _update_many,
    b.ContextDeleted: _delete,
    b.ContextPatched: _patch,
    b.ContextCleared: _clear,
    b.MessageSaid: _append_message,
    b.LifecycleChanged: _change_lifecycle,
    b.InvocationTriggered: _trigger,
    b.InvocationStarted: _start,
    b.InvocationEnded: _end,
    b.ErrorRecorded: _record_error,
    b.Rewound: _rewind,
    b.Forked: _fork,
    b.ParentAnswered: _no_change,
    b.Promoted: _promote,
    b.ContentBatch: _batch,
}
