"""Tools about the journal as a whole: open gates and dead letters."""

from __future__ import annotations

from itertools import islice
from typing import Annotated

from msgspec import Meta, to_builtins

from seekpoint.console.mcp.tool_declarations import (
    Arguments,
    Document,
    Limit,
    ProcessId,
    Skip,
    Tool,
    ToolCall,
    ToolFailed,
)


class _ListGates(Arguments, frozen=True, kw_only=True, forbid_unknown_fields=True):
    process_id: Annotated[ProcessId, Meta(description="Only the gates of this process.")] | None = None
    limit: Limit = 50
    skip: Skip = 0


def _list_gates(call: ToolCall, given: _ListGates) -> Document:
    from seekpoint.console.render.gate_rows import gates_of
    from seekpoint.console.render.listing import open_states

    states = open_states(call.target, given.process_id, lambda one: "gate" in one.waits_for, tell=call.note)
    found = (facts for name, state in states for facts in gates_of(name, state))
    shown = list(islice(found, given.skip, given.skip + given.limit))
    return call.page("gates", shown, _skips(given.skip, shown), has_more=next(found, None) is not None)


def _skips(skip: int, shown: list[Document]) -> range:
    return range(skip + 1, skip + len(shown) + 1)


class _ListDeadLetters(Arguments, frozen=True, kw_only=True, forbid_unknown_fields=True):
    limit: Limit = 50
    skip: Skip = 0


def _list_dead_letters(call: ToolCall, given: _ListDeadLetters) -> Document:
    from seekpoint.console.services.facts.dead_letter_facts import key_text

    letters = call.target.dead_letters.stream()
    shown = [
        {
            "place": one.place,
            "key": key_text(one.key),
            "bytes": None if one.value is None else len(one.value),
            "error": one.error,
            "seen_at": one.seen_at,
        }
        for one in islice(letters, given.skip, given.skip + given.limit)
    ]
    return call.page("letters", shown, _skips(given.skip, shown), has_more=next(letters, None) is not None)


class _ShowDeadLetter(Arguments, frozen=True, kw_only=True, forbid_unknown_fields=True):
    place: Annotated[str, Meta(min_length=3, description="TOPIC:PARTITION:OFFSET, from list_dead_letters.")]


def _show_dead_letter(call: ToolCall, given: _ShowDeadLetter) -> Document:
    from seekpoint.console.services.facts.dead_letter_facts import letter_facts, place_in, readable_part

    place = place_in(given.place, call.target.settings.topic_name("journal"))
    if place is None:
        raise ToolFailed(
            "InvalidArgument", f"{given.place!r} is no place", "TOPIC:PARTITION:OFFSET, or PARTITION:OFFSET"
        )
    letter = call.target.dead_letters.get(place)
    if letter is None:
        raise ToolFailed("UnknownDeadLetter", f"there is no dead letter {place}", "list_dead_letters lists them")
    return {**letter_facts(letter), "readable": to_builtins(readable_part(call.target, letter))}


JOURNAL_TOOLS = (
    Tool(
        name="list_gates", title="List open gates", arguments=_ListGates, answer=_list_gates,
        description="List the gates that processes wait for: questions to a person, each with its prompt and its"
        " deadline. A gate cannot be answered with these tools; a person does that with `seekpoint"
        " approve` or `seekpoint deny`.",
    ),
    Tool(
        name="list_dead_letters", title="List dead letters", arguments=_ListDeadLetters, answer=_list_dead_letters,
        description="List the records of the journal that are no valid entries, and why: undecodable bytes, a"
        " wrong key, a forged entry. Readers leave them out.",
    ),
    Tool(
        name="show_dead_letter", title="Show a dead letter", arguments=_ShowDeadLetter, answer=_show_dead_letter,
        description="Show one dead letter: its bytes in base64, the error, and the fields that can be read of it.",
    ),
)  # fmt: skip
