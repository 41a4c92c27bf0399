"""Answer the call of a tool: check the arguments, run it, bound the result, mask secrets, and tell errors."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import anyio
import anyio.to_thread
import msgspec
import orjson
import typer

from seekpoint.console.mcp.bounded import bounded, part_at
from seekpoint.console.mcp.journal_tools import JOURNAL_TOOLS
from seekpoint.console.mcp.process_tools import PROCESS_TOOLS
from seekpoint.console.mcp.replay_tool import REPLAY_TOOLS
from seekpoint.console.mcp.tool_declarations import Document, PagedList, Tool, ToolCall, ToolFailed, input_schema
from seekpoint.console.render.command_errors import error_facts
from seekpoint.console.render.json_numbers import with_json_numbers
from seekpoint.schemas.errors import SeekpointError
from seekpoint.schemas.frozen_struct import built

if TYPE_CHECKING:
    from seekpoint.console.mcp.tool_declarations import Arguments
    from seekpoint.console.services.arguments.target import CommandTarget

TOOLS: Mapping[str, Tool] = {one.name: one for one in (*PROCESS_TOOLS, *JOURNAL_TOOLS, *REPLAY_TOOLS)}
BYTES_MAX = 40_000
"""The most bytes of a result, about ten thousand tokens."""
_FRAME_BYTES = 2_000
"""Room beside the document, for its notes and for what was cut of it."""
_CUTS_MAX = 12
_NOTES_MAX = 20
_READS_MAX = 4
_ITEMS_MIN = 4
_HOW_TO_READ_ON = "some values are too long: to read one, add its `path` (and `start`) to the same arguments"
_ERROR_CHARACTERS_MAX = 4_000

_logger = logging.getLogger("seekpoint.console")


class ToolAnswer(NamedTuple):
    """The answer to one call of a tool."""

    document: Document
    is_error: bool


class Answerer:
    """Answers calls of tools on one journal. At most four of them read at once."""

    def __init__(self, target: CommandTarget, modules: Iterable[str] = (), *, bytes_max: int = BYTES_MAX) -> None:
        """Read through ``target``; replay checks run the agents of ``modules``."""
        self._target, self._modules = target, tuple(modules)
        self._bytes_max = bytes_max
        self._reads = anyio.CapacityLimiter(_READS_MAX)

    @property
    def is_reading(self) -> bool:
        """Whether a thread still reads the journal, perhaps for a call that was cancelled."""
        return self._reads.borrowed_tokens > 0

    async def answer(self, tool: Tool, given: Mapping[str, Any]) -> ToolAnswer:
        """Return the result of a call, or its error: what went wrong, and what to do next."""
        call = ToolCall(self._target, self._modules)
        try:
            arguments = _arguments(tool, given)
            document = await self._run(tool, call, arguments)
            return ToolAnswer(self._bounded(call, arguments, document), is_error=False)
        except Exception as error:
            return ToolAnswer({"error": with_json_numbers(self._told(error))}, is_error=True)

    async def _run(self, tool: Tool, call: ToolCall, arguments: Arguments) -> Document:
        if tool.run is not None:
            return await tool.run(call, arguments)
        assert tool.answer is not None
        return await anyio.to_thread.run_sync(tool.answer, call, arguments, abandon_on_cancel=True, limiter=self._reads)

    def _bounded(self, call: ToolCall, arguments: Arguments, document: Document) -> Document:
        scrubbed = self._target.settings.scrub_value(document)
        room = self._bytes_max - _FRAME_BYTES
        for page in call.pages:
            scrubbed = _fitting(scrubbed, page, room)
        value = part_at(scrubbed, arguments.path)
        shown, cuts = bounded(value, room, path=arguments.path, start=arguments.start if arguments.path else 0)
        found: Document = {"path": arguments.path, "value": shown} if arguments.path else shown
        if cuts:
            found = {
                **found,
                "cut": [one.to_dict() for one in cuts[:_CUTS_MAX]],
                "cut_in_all": len(cuts),
                "advice": _HOW_TO_READ_ON,
            }
        if call.notes:
            found = {**found, "notes": [self._target.scrub(one) for one in call.notes[:_NOTES_MAX]]}
        return found

    def _told(self, error: Exception) -> Document:
        scrub = self._target.scrub
        if isinstance(error, SeekpointError):
            return error_facts(error, scrub)
        if isinstance(error, typer.BadParameter):
            return _error("InvalidArgument", scrub(error.message), "correct the argument and call again")
        if isinstance(error, ToolFailed):
            facts = self._target.settings.scrub_value(error.facts)
            return _error(error.code, scrub(error.message), scrub(error.advice)) | {"facts": facts}
        _logger.error("a tool failed", exc_info=error)
        text = scrub(f"unexpected {type(error).__name__}: {error}")
        return _error("Unexpected", text, "please report it with what the server wrote to standard error")


def _fitting(document: Document, page: PagedList, bytes_max: int) -> Document:
    """Return the document with as many items of its list as fit, at least one.

    An item counts as a quarter of the room at most: what is longer is cut inside.
    """
    items, size = document[page.name], 0
    for number, item in enumerate(items):
        size += min(len(orjson.dumps(item)), bytes_max // _ITEMS_MIN)
        if size > bytes_max and number:
            found = {**document, page.name: items[:number], "next": page.cursors[number - 1]}
            return found | ({"has_more": True} if "has_more" in found else {})
    return document


def _arguments(tool: Tool, given: Mapping[str, Any]) -> Arguments:
    """Return the checked arguments. An argument that is null counts as left out. Raises ``ToolFailed``."""
    kept = {name: value for name, value in given.items() if value is not None}
    try:
        found = msgspec.convert(kept, built(tool.arguments))
    except msgspec.ValidationError as exc:
        names = ", ".join(input_schema(tool.arguments)["properties"])
        raise ToolFailed("InvalidArgument", str(exc), f"{tool.name} takes {names}; see its input schema") from None
    if isinstance(process_id := getattr(found, "process_id", None), str):
        from seekpoint.schemas.values.process_ids import named_process_key

        named_process_key(process_id)
    return found


def _error(code: str, message: str, advice: str) -> Document:
    return {"code": code, "message": message[:_ERROR_CHARACTERS_MAX], "advice": advice, "facts": {}}
