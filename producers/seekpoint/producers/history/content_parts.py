"""The parts of a process's content that a promotion merges: each context value, the conversation, the calls. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from seekpoint.schemas.state.process_state import FIELDS
from seekpoint.schemas.state.state_table import Section

if TYPE_CHECKING:
    from collections.abc import Mapping

    from seekpoint.schemas.state.process_state import Draft, State

CALLS, CONVERSATION, CONTEXT = "calls", "conversation", "context."
"""The names of the parts. A context value is the part ``context.KEY``."""
_OF_CALLS = tuple(one.name for one in FIELDS.fields if one.restored and one.name not in ("values_json", "conversation"))
_OTHERS = {"context", "conversation", *(image.key for _, image in FIELDS.images(Section.CONTENT))}
"""The keys of content that do not belong to the calls; images are what a fork does not inherit."""


def changed_parts(base: State, state: State) -> set[str]:
    """Return the parts that differ from the base."""
    keys = {f"{CONTEXT}{key}" for key in {*base.values_json, *state.values_json}}
    return {part for part in (*keys, CONVERSATION, CALLS) if part_of(base, part) != part_of(state, part)}


def part_of(state: State, part: str) -> Any:
    """Return a part as a value that can be compared."""
    if part == CONVERSATION:
        return [*state.conversation.bodies()]
    if part == CALLS:
        return calls_in(FIELDS.content_of(state))
    return state.values_json.get(part.removeprefix(CONTEXT))


def calls_in(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return what of the content belongs to the calls: also turns, lifecycle, invocations, patches."""
    return {key: value for key, value in content.items() if key not in _OTHERS}


def take_part(draft: Draft, fork: State, part: str) -> None:
    """Replace a part of ``draft`` by the fork's."""
    if part == CONVERSATION:
        draft.conversation = fork.conversation
    elif part == CALLS:
        taken = fork.thaw()
        for name in _OF_CALLS:
            setattr(draft, name, getattr(taken, name))
    else:
        key = part.removeprefix(CONTEXT)
        draft.values_json.pop(key, None)
        if (text := fork.values_json.get(key)) is not None:
            draft.values_json[key] = text
