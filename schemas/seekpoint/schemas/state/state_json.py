"""A state as JSON values and back. Reading is strict: what is not exactly of the form was not written by this code.

Dynamic values stay the texts they are: whoever wrote them, they come back letter for letter.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import UUID

from seekpoint.schemas.bodies import MessageSaid
from seekpoint.schemas.bodies.entry import id_text
from seekpoint.schemas.folds import Folded
from seekpoint.schemas.state.call_table import CallsDraft
from seekpoint.schemas.state.calls import UNSETTLED, AgentRun, Call, Frame, Obligation, agent_row, call_of, call_row
from seekpoint.schemas.state.conversation import Conversation
from seekpoint.schemas.state.lifecycle import Lifecycle
from seekpoint.schemas.state.process_budget import Budget
from seekpoint.schemas.state.state_parts import Degraded, Failure, InvocationState, Lineage, mail_item, mail_row
from seekpoint.schemas.state.state_sizes import content_width, mailbox_width

if TYPE_CHECKING:
    from seekpoint.schemas.state.state import Draft

__all__ = [
    "COUNTERS",
    "content_of",
    "counters_of",
    "fold_of",
    "fold_row",
    "folds_of",
    "frame_row",
    "owed_of",
    "ownership_of",
    "restore_content",
    "restore_whole",
]

COUNTERS = (
    "stale_entries",
    "duplicate_entries",
    "forged_entries",
    "abandoned_entries",
    "lost_claims",
    "refused_externals",
)
"""What the fold noticed, counted; in neither hash."""

_Kind = TypeVar("_Kind")


def content_of(state: Draft) -> dict[str, Any]:
    """What a rewind or a fork restores, and ``content_hash`` compares."""
    invocation = state.invocation
    return {
        "context": state.values_json.copy(),
        "conversation": [
            [said.role, said.content, said.parts, said.tool_calls, said.tool_call_id, said.name]
            for said in state.conversation.bodies()
        ],
        "lifecycle": state.lifecycle,
        "invocations": state.invocations,
        "invocation": invocation and [invocation.trigger, invocation.payload_json, invocation.started],
        **_run_of(state),
    }


def _run_of(state: Draft) -> dict[str, Any]:
    """What there is of turns and calls; nothing of a process whose code never asked for any.

    An effect that is not settled is inherited here: that is what a fork gets of it. ``ownership_of`` has the rest.
    """
    run: dict[str, Any] = {}
    if state.calls:
        run["calls"] = {key: call_row(_inherited(call)) for key, call in state.calls.items()}
    if state.turn:
        run["turn"] = state.turn
    if state.patches:
        run["patches"] = list(state.patches)
    if state.start_frame is not None:
        run["frames"] = [frame_row(state.start_frame), frame_row(state.turn_frame)]
    elif state.turn_frame is not None:
        run["frames"] = [None, frame_row(state.turn_frame)]
    return run


def _inherited(call: Call) -> Call:
    if call.kind == "effect" and call.status in UNSETTLED:
        return call._replace(status="inherited", output=None, error=None)
    return call


def frame_row(frame: Frame | None) -> list[Any] | None:
    """What a resume starts from, as a short list."""
    if frame is None:
        return None
    one = frame.invocation
    invocation = one and [one.trigger, one.payload_json, one.started]
    return [dict(frame.values_json), frame.messages, frame.invocations, invocation]


def ownership_of(state: Draft) -> dict[str, Any]:
    """All the rest that ``hash`` compares."""
    return {
        "epoch": state.epoch,
        "owner": id_text(state.owner),
        "owner_node": state.owner_node,
        "owner_boot": state.owner_boot,
        "seq": state.seq,
        "finished": state.finished,
        "result": state.result_json,
        "last_kind": state.last_kind,
        "mailbox": [mail_row(item) for item in state.mailbox.values()],
        "remembered": [one.hex() for one in state.remembered],
        "lineage": asdict(state.lineage),
        "degraded": state.degraded and asdict(state.degraded),
        **owed_of(state),
    }


def owed_of(state: Draft) -> dict[str, Any]:
    """What there is of the agent's run that no fork and no rewind carries."""
    owed: dict[str, Any] = {}
    if state.agent is not None:
        owed["agent"] = agent_row(state.agent)
    unsettled = {
        key: call_row(call) for key, call in state.calls.items() if call.kind == "effect" and call.status in UNSETTLED
    }
    if unsettled:
        owed["effects"] = unsettled
    if state.obligations:
        owed["obligations"] = [[one.key, one.name, one.arguments_json, one.status] for one in state.obligations]
    if state.cancelled is not None:
        owed["cancelled"] = state.cancelled
    if state.budget is not None:
        owed["budget"] = state.budget.to_json()
    if state.forgotten:
        owed["forgotten"] = state.forgotten.copy()
    if (failure := state.failure) is not None:
        owed["failure"] = [failure.seq, failure.type, failure.message, failure.where]
    if state.content_dropped:
        owed["dropped"] = True
    if state.shared_version:
        owed["shared"] = [state.shared_version, state.shared_json]
    return owed


def counters_of(state: Draft) -> dict[str, int]:
    """What neither hash compares, but offsets."""
    return {name: getattr(state, name) for name in COUNTERS}


def folds_of(state: Draft) -> dict[str, Any]:
    """What folds of users made of it, and how many entries they were to see; in neither hash. Nothing of most."""
    if not state.customs:
        return {}
    return {"customs": state.customs, "folds": {name: fold_row(one) for name, one in state.folds.items()}}


def fold_row(one: Folded) -> list[Any]:
    """A fold's result as a short list."""
    return list(one if one.failed_seq is not None else one[:3])


def fold_of(row: Any) -> Folded:
    """What ``fold_row`` gave. Raises as ``restore_content`` does."""
    version, customs, value_json, *failed = _is(list, row)
    seq, failure = failed or (None, None)
    return Folded(
        _is(int, version), _count(customs), _is(str, value_json), _optional(int, seq), _optional(str, failure)
    )


def restore_content(draft: Draft, content: Any) -> None:
    """Put what ``content_of`` gave into ``draft``. ``ValueError``, ``LookupError`` or ``TypeError`` if it is none."""
    _restore_content(draft, content)
    draft.content_bytes = content_width(draft)


def _restore_content(draft: Draft, content: Any) -> None:
    values = _is(dict, _is(dict, content)["context"])
    draft.values_json = {key: _is(str, text) for key, text in values.items()}
    draft.conversation = Conversation(map(_said, _is(list, content["conversation"])))
    draft.lifecycle = Lifecycle(_is(str, content["lifecycle"]))
    draft.invocations = _count(content["invocations"])
    draft.invocation = _invocation(content["invocation"])
    draft.calls = CallsDraft.of_rows(_is(dict, content.get("calls", {})))
    draft.turn = _count(content.get("turn", 0))
    draft.patches = tuple(_is(str, one) for one in _is(list, content.get("patches", [])))
    draft.start_frame, draft.turn_frame = map(_frame, _is(list, content.get("frames", [None, None])))


def restore_whole(draft: Draft, whole: Mapping[str, Any]) -> None:
    """Put content, ownership, offsets and counters of ``whole`` into ``draft``. Raises as ``restore_content`` does."""
    _restore_content(draft, whole["content"])
    _restore_ownership(draft, _is(dict, whole["ownership"]))
    draft.offset = _is(int, whole["offset"])
    draft.first_offset = _optional(int, whole["first_offset"])
    counters = _is(dict, whole["counters"])
    if counters.keys() != set(COUNTERS):
        raise ValueError("other counters than a state has")
    for name, count in counters.items():
        setattr(draft, name, _count(count))
    draft.customs = _count(whole.get("customs", 0))
    draft.folds = {name: fold_of(row) for name, row in _is(dict, whole.get("folds", {})).items()}


def _restore_ownership(draft: Draft, ownership: dict[str, Any]) -> None:
    owner = _optional(str, ownership["owner"])
    draft.owner = None if owner is None else UUID(owner).bytes
    draft.owner_node = _optional(str, ownership["owner_node"])
    draft.owner_boot = _optional(str, ownership["owner_boot"])
    draft.epoch = _count(ownership["epoch"])
    draft.seq = _count(ownership["seq"])
    draft.finished = _is(bool, ownership["finished"])
    draft.result_json = _optional(str, ownership["result"])
    draft.last_kind = _optional(str, ownership["last_kind"])
    items = [mail_item(_is(list, item)) for item in _is(list, ownership["mailbox"])]
    draft.mailbox = {item.id: item for item in items}
    draft.mailbox_bytes = mailbox_width(draft)
    draft.remembered = dict.fromkeys(_id(one) for one in _is(list, ownership["remembered"]))
    draft.lineage = _lineage(**_is(dict, ownership["lineage"]))
    draft.degraded = _degraded(ownership["degraded"])
    _restore_owed(draft, ownership)
    draft.content_bytes = content_width(draft)


def _restore_owed(draft: Draft, ownership: dict[str, Any]) -> None:
    agent, shared = ownership.get("agent"), ownership.get("shared")
    draft.agent = None if agent is None else AgentRun(*(_is(str, part) for part in _is(list, agent)))
    for key, row in _is(dict, ownership.get("effects", {})).items():
        draft.calls.put(key, call_of(row))
    owed = [_is(list, one) for one in _is(list, ownership.get("obligations", []))]
    draft.obligations = tuple(Obligation(*(_is(str, part) for part in one)) for one in owed)
    draft.cancelled = _optional(str, ownership.get("cancelled"))
    draft.failure = _failure(ownership.get("failure"))
    draft.content_dropped = _is(bool, ownership.get("dropped", False))
    budget = ownership.get("budget")
    draft.budget = None if budget is None else Budget.from_json(_is(dict, budget))
    draft.forgotten = {key: _count(times) for key, times in _is(dict, ownership.get("forgotten", {})).items()}
    if shared is not None:
        version, text = _is(list, shared)
        draft.shared_version, draft.shared_json = _count(version), _optional(str, text)


def _is(kind: type[_Kind], value: Any) -> _Kind:
    if type(value) is not kind:
        raise TypeError(f"{kind.__name__} is wanted, not {type(value).__name__}")
    return value


def _count(value: Any) -> int:
    """A number that the fold counts up by one: one that is no count would leave 64 bits, and the state its JSON."""
    if type(value) is not int or value >> _COUNT_BITS:
        raise ValueError("no count")
    return value


_COUNT_BITS = 62


def _optional(kind: type[_Kind], value: Any) -> _Kind | None:
    return None if value is None else _is(kind, value)


def _id(value: Any) -> bytes:
    found = bytes.fromhex(_is(str, value))
    if len(found) != 16:
        raise ValueError("an id has 16 bytes")
    return found


def _said(message: Any) -> MessageSaid:
    role, *rest = _is(list, message)
    if len(rest) != 5:
        raise ValueError("a message has six parts")
    return MessageSaid(_is(str, role), *(_optional(str, part) for part in rest))


def _invocation(found: Any) -> InvocationState | None:
    if found is None:
        return None
    trigger, payload_json, started = _is(list, found)
    return InvocationState(_is(str, trigger), _is(str, payload_json), _is(bool, started))


def _frame(found: Any) -> Frame | None:
    if found is None:
        return None
    values, messages, invocations, invocation = _is(list, found)
    texts = {key: _is(str, text) for key, text in _is(dict, values).items()}
    return Frame(texts, _count(messages), _count(invocations), _invocation(invocation))


def _lineage(parent_id: Any, parent_seq: Any, rewound_to_seq: Any, rewinds: Any) -> Lineage:
    return Lineage(
        _optional(str, parent_id), _optional(int, parent_seq), _optional(int, rewound_to_seq), _count(rewinds)
    )


def _failure(found: Any) -> Failure | None:
    if found is None:
        return None
    seq, kind, message, where = _is(list, found)
    return Failure(_is(int, seq), _is(str, kind), _is(str, message), _optional(str, where))


def _degraded(found: Any, depth: int = 1) -> Degraded | None:
    if found is None:
        return None
    if depth > 2:
        raise ValueError("what came before a gap was no gap")
    reason, expected, seq = (_is(dict, found)[name] for name in ("reason", "expected_seq", "found_seq"))
    earlier = _degraded(found["earlier"], depth + 1)
    return Degraded(_is(str, reason), _is(int, expected), _is(int, seq), _is(str, found["detail"]), earlier)
