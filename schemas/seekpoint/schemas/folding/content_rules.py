"""The rules of the fold for the content of a process: context, conversation, lifecycle, invocations, lineage.

Each rule gives None when the body fits, else (reason, detail): its seq counts, the body is not applied, the process
is degraded. The writer asks the same questions before it sends.
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
from seekpoint.schemas.state.calls import UNSETTLED, AgentRun, turn_of
from seekpoint.schemas.state.conversation import message_width
from seekpoint.schemas.state.lifecycle import Lifecycle, may_follow
from seekpoint.schemas.state.process_state import FIELDS, Draft, content_width, restore_content
from seekpoint.schemas.state.state_parts import Failure, InvocationState, Lineage
from seekpoint.schemas.state.state_values import member_width, size_of, text_width
from seekpoint.schemas.values.json_values import check, dump, load, merge_patch

__all__ = ["CONTENT_RULES", "Misfit", "Rule", "check_texts", "deleted_in", "too_big"]

Misfit: TypeAlias = tuple[str, str] | None
Rule: TypeAlias = Callable[[Draft, Any, Limits], Misfit]
"""Applies a body to a draft and gives None; or leaves the draft as it was and says why the body does not fit."""


_NO_CONTENT: Misfit = "illegal_content", "no content of a process, or beyond the limits of one value"
"""Without the words of the library that said so: the detail is part of the state, and readers have other versions."""


def too_big(grown: int, limits: Limits) -> Misfit:
    """The misfit of a state of ``grown`` bytes, if it is one."""
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
    """Set ``changes`` and drop ``removed``, all or none; ``more`` bytes come with them."""
    values = draft.values_json
    grown = draft.content_bytes + more + sum(member_width(key, text) for key, text in changes.items())
    grown -= sum(member_width(key, values[key]) for key in (*changes, *removed) if key in values)
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


def _say(draft: Draft, body: b.MessageSaid, limits: Limits) -> Misfit:
    grown = draft.content_bytes + message_width(body)
    if grown > limits.state_bytes:
        return too_big(grown, limits)
    draft.conversation = draft.conversation.append(body if body.call is None else replace(body, call=None))
    draft.content_bytes = grown
    return None


def _change_lifecycle(draft: Draft, body: b.LifecycleChanged, limits: Limits) -> Misfit:
    if not may_follow(draft.lifecycle, body.to):
        return "illegal_transition", f"{draft.lifecycle} does not lead to {body.to[:40]}"
    draft.lifecycle = Lifecycle(body.to)
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


def _rewind(draft: Draft, body: b.Rewound, limits: Limits) -> Misfit:
    misfit = _restore(draft, body.content, limits, _keep_effects)
    if misfit is None:
        draft.lineage = replace(draft.lineage, rewound_to_seq=body.to_seq, rewinds=draft.lineage.rewinds + 1)
    return misfit


def _fork(draft: Draft, body: b.Forked, limits: Limits) -> Misfit:
    try:
        process_key(body.parent_id)
    except SeekpointError as exc:
        return "illegal_content", exc.message
    before = draft.agent
    if body.agent is not None:
        draft.agent = AgentRun(body.agent[:200], body.version[:200], body.definition[:200], body.input)
    misfit = _restore(draft, body.content, limits)
    if misfit is None:
        draft.lineage = Lineage(parent_id=body.parent_id, parent_seq=body.parent_seq)
    else:
        draft.agent = before
    return misfit


def _restore(
    draft: Draft, content: str, limits: Limits, becomes: Callable[[Draft, Draft], None] | None = None
) -> Misfit:
    """Only the fields of ``content_hash`` are restored: never epoch, owner, seq, offsets, ids."""
    restored = Draft()
    try:
        restore_content(restored, orjson.loads(content))
        check_texts(restored, limits)
    except (LookupError, TypeError, ValueError, AttributeError, SeekpointError):
        return _NO_CONTENT
    if becomes is not None:
        becomes(draft, restored)
    misfit = too_big(content_width(_with_owed(restored, draft)), limits)
    if misfit is None:
        for name in _RESTORED:
            setattr(draft, name, getattr(restored, name))
        draft.content_bytes = content_width(draft)
    return misfit


_RESTORED = tuple(one.name for one in FIELDS.fields if one.restored)
_OWED = tuple(one.name for one in FIELDS.fields if one.form.width is not None and not one.restored)
"""The fields that count as content and are not restored."""


def _with_owed(restored: Draft, draft: Draft) -> Draft:
    """Give ``restored`` the fields that it does not restore, so that the size of the whole can be computed."""
    for name in _OWED:
        setattr(restored, name, getattr(draft, name))
    return restored


def _keep_effects(draft: Draft, restored: Draft) -> None:
    """A rewind does not undo what was done outside: effects stay, so that none is ever fired again.

    Those that are not settled are only looked at from now on; those made after the seq that is rewound to stand
    without a place. What else is forgotten is counted: its next idempotency key is another one.
    """
    restored.forgotten = dict(draft.forgotten)
    turns_lost = draft.turn > restored.turn
    if turns_lost:
        _forget(restored, f"{restored.turn + 1}/")  # all of this turn and of those behind it, known here or not
    for key, call in draft.calls.items():
        if call.kind == "effect":
            status = "inherited" if call.status in UNSETTLED else call.status
            position = call.position if key in restored.calls else 0
            restored.calls.put(key, replace(call, status=status, position=position))
        elif key not in restored.calls and call.kind in _KEYED and not (turns_lost and turn_of(key) > restored.turn):
            _forget(restored, key)


def _forget(restored: Draft, key: str) -> None:
    restored.forgotten[key] = restored.forgotten.get(key, 0) + 1


_KEYED = frozenset({"step", "decision"})
"""Calls whose idempotency key others may have seen."""


def check_texts(draft: Draft, limits: Limits) -> None:
    """Look at what came as one text of a stranger's: the dynamic values in it, and the numbers of its calls.

    Raises what ``check`` does, and ``ValueError``.
    """
    for text in FIELDS.texts_of(draft):
        check(text, limits)
    if any((call.position | call.attempt | call.seq) >> 63 for call in draft.calls.values()):
        raise ValueError("numbers that no call has")


def _batch(draft: Draft, body: b.ContentBatch, limits: Limits) -> Misfit:
    """Context and conversation at once, all or none."""
    try:
        gone, messages = deleted_in(body), orjson.loads(body.messages)
        if type(messages) is not list:
            raise ValueError("messages are a list")
        said = [_said_in(message) for message in messages]
    except (ValueError, TypeError):
        return _NO_CONTENT
    if body.cleared:
        gone |= draft.values_json.keys()
    gone -= body.values.keys()
    misfit = _change_values(draft, body.values, gone, limits, sum(map(message_width, said)))
    if misfit is None:
        for one in said:
            draft.conversation = draft.conversation.append(one)
    return misfit


def deleted_in(body: b.ContentBatch) -> set[str]:
    """The keys that ``body`` removes. ``ValueError`` or ``TypeError`` if it names none."""
    keys = orjson.loads(body.deleted)
    if type(keys) is not list or any(type(key) is not str for key in keys):
        raise ValueError("what is removed is a list of keys")
    return set(keys)


def _said_in(message: Any) -> b.MessageSaid:
    if type(message) is not list or not 1 <= len(message) <= 6 or type(message[0]) is not str:
        raise ValueError("a message is a list of role, text, parts, tool calls, tool call id and name")
    for part in message:
        if part is not None and type(part) is not str:
            raise ValueError("the parts of a message are texts")
    return b.MessageSaid(*message)


def _record_error(draft: Draft, body: b.ErrorRecorded, limits: Limits) -> Misfit:
    """Keep the newest error, cut to what a list of processes can bear; its traceback stays in the journal."""
    seq, where = draft.seq + 1, body.where and body.where[:_WHERE_CHARACTERS_MAX]
    draft.failure = Failure(seq, body.type[:_TYPE_CHARACTERS_MAX], body.message[:_ERROR_CHARACTERS_MAX], where)
    return None


_TYPE_CHARACTERS_MAX, _ERROR_CHARACTERS_MAX, _WHERE_CHARACTERS_MAX = 200, 1_000, 1_000


def _nothing(draft: Draft, body: b.Body, limits: Limits) -> Misfit:
    return None


CONTENT_RULES: Mapping[type[b.Body], Rule] = {
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
    b.ErrorRecorded: _record_error,
    b.Custom: _nothing,
    b.Rewound: _rewind,
    b.Forked: _fork,
    b.ContentBatch: _batch,
}
