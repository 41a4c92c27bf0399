"""Declare tools: a name, a description, a struct of arguments, and a function that returns a document."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeAlias

import msgspec
from msgspec import Meta

from seekpoint.schemas.frozen_struct import FrozenStruct

if TYPE_CHECKING:
    from seekpoint.console.services.arguments.target import CommandTarget

Document: TypeAlias = dict[str, Any]

_INT_MAX = 2**63 - 1


def whole(minimum: int, description: str) -> Meta:
    """Describe a whole number that the log, and JSON in most programs, can count to."""
    return Meta(ge=minimum, le=_INT_MAX, description=description)


ProcessId = Annotated[
    str, Meta(min_length=1, max_length=200, description="The id of the process, from list_processes.")
]
Limit = Annotated[int, Meta(ge=1, le=500, description="At most so many.")]
Skip = Annotated[int, whole(0, "Leave out so many at the beginning: `next` of the answer before.")]


class Arguments(FrozenStruct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The arguments that every tool takes."""

    path: Annotated[
        str,
        Meta(
            description="A JSON Pointer, such as /context/cart. Only this part of the result is returned. Use it"
            " with the paths in `cut`: they name what was too long."
        ),
    ] = ""
    start: Annotated[
        int,
        whole(0, "With path: begin at this character of a text, or at this item of a list."),
    ] = 0


class ToolFailed(Exception):
    """A tool cannot answer. The fields are those of an error of ``--json``."""

    def __init__(self, code: str, message: str, advice: str, facts: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.advice = advice
        self.facts = dict(facts or {})


class PagedList(NamedTuple):
    """A list in a result, and for each of its items what the page behind it begins with."""

    name: str
    cursors: Sequence[Any]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call of a tool: the journal, and what the reader of the result should know about it."""

    target: CommandTarget
    modules: tuple[str, ...]
    """The modules whose agents a replay check may run."""
    notes: list[str] = field(default_factory=list)
    pages: list[PagedList] = field(default_factory=list)
    """The list of the result, if it may be shortened to what fits."""

    def page(self, name: str, items: list[Document], cursors: Sequence[Any], *, has_more: bool) -> Document:
        """Return a page of a list. ``cursors``: for each item, what the page behind it begins with.

        If the page is too long, its last items are left out, and ``next`` begins with the first of them.
        """
        self.pages.append(PagedList(name, cursors))
        return {name: items, "next": cursors[-1] if has_more and items else None}

    def note(self, text: str) -> None:
        """Add a sentence to the result, such as why the log was read instead of the view."""
        self.notes.append(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A tool. ``answer`` blocks and runs in a thread; ``run`` is a coroutine function instead."""

    name: str
    title: str
    description: str
    arguments: type[Arguments]
    answer: Callable[[ToolCall, Any], Document] | None = None
    run: Callable[[ToolCall, Any], Awaitable[Document]] | None = None


def input_schema(arguments: type[Arguments]) -> Document:
    """Return the JSON Schema of a tool's arguments. No argument is shown as null: it is left out."""
    (_, components) = msgspec.json.schema_components([arguments])
    schema = components[arguments.__name__]
    properties = {name: _plain(one) for name, one in schema["properties"].items()}
    common = {name: properties.pop(name) for name in Arguments.__struct_fields__}
    return {
        "type": "object",
        "properties": {**properties, **common},
        "required": schema.get("required", []),
        "additionalProperties": False,
    }


def _plain(schema: Mapping[str, Any]) -> Document:
    """Return the schema of an argument without null, for models that fill in every alternative they see."""
    found = dict(schema)
    alternatives = [one for one in found.pop("anyOf", []) if one.get("type") != "null"]
    if len(alternatives) == 1:
        found = {**alternatives[0], **found}
    if found.get("default", ...) is None:
        del found["default"]
    return found
