"""Content that is not journaled change by change: it is buffered, and journaled as one entry or not at all.

The agent reads every change at once. A replay repeats the changes that were lost with a machine: the frame that it
begins with is the content of the last entry.
"""

from __future__ import annotations

from typing import Any

import orjson

from seekpoint.producers.durable.replay.conduct import Detail
from seekpoint.producers.durable.replay.replayed_content import ReplayedContent
from seekpoint.schemas import bodies as b
from seekpoint.schemas.errors import IllegalTransition, LimitExceeded

_CONTENT = (
    b.ContextUpdated,
    b.ContextUpdatedMany,
    b.ContextDeleted,
    b.ContextPatched,
    b.ContextCleared,
    b.MessageSaid,
    b.ContentBatch,
)
_LEFT_OUT = (*_CONTENT, b.Custom, b.InvocationTriggered, b.InvocationStarted, b.InvocationEnded)
"""The bodies that ``Detail.NONE`` does not journal: all but lifecycle and errors."""


class WriteBuffer:
    """The changes of one opening of a process since its last content entry."""

    def __init__(self, view: ReplayedContent, detail: Detail) -> None:
        self.view = view
        self._detail = detail
        self._kinds = _CONTENT if detail is Detail.CHECKPOINT else _LEFT_OUT
        self._values: dict[str, b.Json] = {}
        self._deleted: dict[str, None] = {}
        self._cleared = False
        self._messages: list[list[str | None]] = []

    def takes(self, body: b.Body) -> bool:
        """Whether ``body`` is buffered."""
        return isinstance(body, self._kinds)

    def write(self, body: Any) -> None:
        """Buffer a change. Raise what an append would raise: ``LimitExceeded``, ``IllegalTransition``."""
        misfit = self.view.write(body)
        if misfit is not None:
            raise (LimitExceeded if misfit[0] == "state_limit" else IllegalTransition)(misfit[1])
        if self._detail is Detail.CHECKPOINT:
            self._note(body)

    def _note(self, body: Any) -> None:
        if isinstance(body, b.MessageSaid):
            said = [body.role, body.content, body.parts, body.tool_calls, body.tool_call_id, body.name]
            self._messages.append(said)
        elif isinstance(body, b.ContextCleared):
            self._values, self._deleted, self._cleared = {}, {}, True
        else:
            for key in _touched(body):
                self._note_value(key)

    def _note_value(self, key: str) -> None:
        text = self.view.text_of(key)
        if text is None:
            self._values.pop(key, None)
            self._deleted[key] = None
        else:
            self._deleted.pop(key, None)
            self._values[key] = text

    def batch(self) -> b.ContentBatch | None:
        """Return the changes as one entry for the caller to append; None if there are none."""
        if not (self._values or self._deleted or self._cleared or self._messages):
            return None
        body = b.ContentBatch(
            cleared=self._cleared,
            values=self._values,
            deleted=orjson.dumps([*self._deleted]).decode(),
            messages=orjson.dumps(self._messages).decode(),
        )
        self._values, self._deleted, self._cleared, self._messages = {}, {}, False, []
        return body


def _touched(body: Any) -> list[str]:
    if isinstance(body, b.ContextUpdatedMany):
        return [*body.values]
    if isinstance(body, b.ContentBatch):  # of ``Process.change``: context only
        return [*body.values, *orjson.loads(body.deleted)]
    if isinstance(body, b.ContextPatched):
        return [*orjson.loads(body.patch)]
    return [body.key]
