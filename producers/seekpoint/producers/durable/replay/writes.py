"""Content writes of an agent's code. They are calls with records, so a replay writes nothing twice.

Outside an agent (``async with node.open(id)``) a write is not a call: it is appended each time.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

from seekpoint.producers.durable.replay.history_matcher import CallPlace, HistoryMatcher
from seekpoint.producers.durable.session import Acknowledged
from seekpoint.schemas import bodies as b
from seekpoint.schemas.config.limits import Limits
from seekpoint.schemas.errors import ReplayDivergence
from seekpoint.schemas.state.calls import Call, turn_of, write_digest
from seekpoint.schemas.state.process_state import State

if TYPE_CHECKING:
    from seekpoint.producers.durable.replay.replayed_content import ReplayedContent
    from seekpoint.schemas.state.calls import Frame

Append: TypeAlias = Callable[[b.Body], Coroutine[Any, Any, Acknowledged]]
"""Writes an entry, and returns where it is."""


class Writes:
    """The content writes of one run of an agent's code."""

    def __init__(
        self,
        matcher: HistoryMatcher,
        live: State,
        limits: Limits,
        append: Append,
        in_order: Callable[..., Coroutine[Any, Any, Acknowledged]],
    ) -> None:
        self._matcher = matcher
        self._limits = limits
        self._append = append
        self._in_order = in_order
        self._left = {key for key, call in matcher.records.items() if call.kind == "write" and call.position}
        self._turns = live.turn
        self._turn_frame = live.turn_frame
        self._live = live
        self.view: ReplayedContent | None = None
        if self._left or self._turns or self._turn_frame is not None:
            self.view = self._content_from(live.start_frame)

    def write(self, body: Any, append: Append | None = None) -> Coroutine[Any, Any, Acknowledged]:
        """Take a place; write ``body`` unless the history has that write. ``append`` says how, if not as usual."""
        place = self._matcher.place_write(write_digest(body))
        if place.record is not None:
            return self._again(place, place.record, body)
        return self._in_order(place, self._now, body, place.key, append or self._append)

    async def _now(self, body: Any, key: str, append: Append) -> Acknowledged:
        done = await append(replace(body, call=key))
        if self.view is not None:
            self.view.write(body)
        return done

    def _again(self, place: CallPlace, record: Call, body: b.Body) -> Coroutine[Any, Any, Acknowledged]:
        """Apply the recorded write when the code makes it: the code may read the content next."""
        misfit, seq = self.view and self.view.write(body), self._matcher.entry_seq(record)
        if misfit:
            raise ReplayDivergence(
                f"a write no longer fits where it was made: {misfit[1]}", kind="input", key=place.key, seq=seq,
                process_id=self._matcher.process_id,
            )  # fmt: skip
        self._left.discard(place.key)
        self._settle()
        return self._in_order(place, _done, Acknowledged(seq, -1))  # where the entry lies is not kept

    def begin_turn(self, number: int) -> None:
        """Begin turn ``number``: from here on the content is based on the frame of the turn."""
        resumed, self._turn_frame = self._turn_frame, None
        if self.view is not None and not self._left_in(number):
            self.view = None
        elif self.view is not None and resumed is not None:
            self.view = self._content_from(resumed)
        self._turns = 0

    def _content_from(self, frame: Frame | None) -> ReplayedContent:
        from seekpoint.producers.durable.replay.replayed_content import ReplayedContent

        return ReplayedContent(self._live, frame, self._limits)

    def _left_in(self, turn: int) -> bool:
        return any(turn_of(key) == turn for key in self._left)

    def _settle(self) -> None:
        if not self._left and not self._turns and self._turn_frame is None:
            self.view = None


async def _done(done: Acknowledged) -> Acknowledged:
    return done
