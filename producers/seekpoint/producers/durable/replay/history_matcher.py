"""Give each call its place in the program's order, and find its record in the history. Pure.

    position   the number of a call in its scope: 1, 2, 3, … in program order, whatever its name
    key        ``[turn/][scope/]name:ordinal``, ``[turn/][scope/]explicit`` or, of a content write, ``…#position``
    scope      main code ``""``, the body of another call ``lookup:1/``, a task of its own ``~2/``, a turn ``7/``.
               ``asyncio.wait_for`` makes a task in some versions of Python: its calls keep the scope of their records
    record     the state's record of the call; None for a call that is made for the first time

In a strict run, a call must have the position, the kind and the request of its record. Otherwise the matcher raises
``ReplayDivergence``, then and for every later call. In a permissive run, the nth equal request gets the nth recorded
answer, whatever its position. A request without one is executed, and the journal records the divergence. A record at
position 0 (of an earlier divergence, an effect that a rewind left, a later call of a fork's parent) answers an equal
request; no code has to make it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING

from seekpoint.producers.durable.replay.call_digest import Difference
from seekpoint.producers.durable.replay.completion_order import CompletionOrder
from seekpoint.producers.durable.replay.effects_left import EffectsLeft
from seekpoint.producers.durable.replay.record_index import OVER, RecordIndex
from seekpoint.producers.durable.replay.recorded_scopes import RecordedScopes, Request
from seekpoint.producers.durable.replay.scopes import (
    BRANCH,
    WRITE,
    CallPlace,
    Scope,
    escaped_key,
    escaped_name,
    parent_scope,
)
from seekpoint.schemas.errors import EffectHeld, Refused, ReplayDivergence
from seekpoint.schemas.state.calls import is_open_to_requests, turn_of

if TYPE_CHECKING:
    from seekpoint.producers.durable.branches.recorded_answers import RecordedAnswers
    from seekpoint.producers.durable.replay.further_attempts import FurtherAttempt
    from seekpoint.schemas.state.calls import Call

__all__ = ["CallPlace", "Difference", "HistoryMatcher"]


_place = tuple.__new__  # half the time of the named tuple's own


class HistoryMatcher(RecordedScopes):
    """The places of the calls of one run of one process's code. ``records`` are the calls remembered when it began."""

    def __init__(
        self,
        process_id: str,
        records: Mapping[str, Call],
        *,
        strict: bool = True,
        seq_base: int = 0,
        task: asyncio.Task[object] | None = None,
        on_difference: Callable[[Difference], object] | None = None,
    ) -> None:
        super().__init__(process_id, records, task)
        self.strict = strict
        self.divergence: ReplayDivergence | EffectHeld | None = None
        self.turn = 0
        """The turn the main code is in; 0 before the first one."""
        self._seq_base = seq_base
        self._on_difference = on_difference
        self._read: set[str] = set()
        self._ended: set[str] = set()
        self._aside = {key for key, call in records.items() if call.position == 0}
        self._made_inside: dict[str, list[str]] = {}
        """The keys of the calls that this run has made in bodies, by the scope of the outermost body."""
        self.noted = set[str]()
        """The records at no position whose answers are noted in the journal."""
        self._left = len(records) - len(self._aside)
        self.order = CompletionOrder(records if strict else {}, self._read)
        """Decides when recorded answers are released."""
        self._has_tasks = self.order.has_tasks
        self._answers: RecordedAnswers | None = None
        self._index = RecordIndex(records, self._read, self._aside, strict=strict)
        self.effects = EffectsLeft(records if strict else {}, self._read, self._ended, self.bodies_again)
        """The recorded effects that unchanged code has to make before a first one begins."""
        self._patches: dict[str, bool] = {}

    # --- places
    def place(self, kind: str, name: str, digest: str = "", key: str | None = None) -> CallPlace:
        """Take the next place of the scope this code runs in. Call it synchronously, in program order.

        Raises ``ReplayDivergence``, and ``Refused`` for a key used before in its scope.
        """
        scope = self._scope()
        if scope.prefix is None or (self._has_tasks and self._left):
            scope = self._recorded_scope(scope, Request(kind, name, key, digest))
        if key is None:
            escaped = escaped_name(name)
            ordinal = scope.ordinals.get(name, 0) + 1
            scope.ordinals[name] = ordinal
            return self._placed(scope, kind, f"{escaped}:{ordinal}", digest)
        return self._placed(scope, kind, escaped_key(key), digest)

    def place_write(self, digest: str) -> CallPlace:
        """Return the place of a content write, whose key is its position.

        Raise ``Refused`` inside the body of another call: a replay does not run the body, so it would not write.
        """
        scope = self.check_not_in_body()
        if scope.prefix is None or (self._has_tasks and self._left):
            scope = self._recorded_scope(scope, Request("write", None, None, digest))
        return self._placed(scope, "write", f"{WRITE}{scope.position + 1}", digest)

    def _placed(self, scope: Scope, kind: str, suffix: str, digest: str) -> CallPlace:
        if self.divergence is not None:
            raise self.divergence
        key = f"{scope.prefix}{suffix}"
        if key in scope.keys:
            raise Refused(
                "the key was used before in this scope: one key names one call",
                process_id=self.process_id, key=key, hint="leave key= out, or make it unique",
            )  # fmt: skip
        scope.keys.add(key)
        position = scope.position = scope.position + 1
        if scope.body is not None:
            self._made_inside.setdefault(scope.body, []).append(key)
        if scope.again is not None:
            return self._again(scope, scope.again, key, position, kind, digest)
        if not self.records:
            return _place(CallPlace, (key, position, None, scope))
        if not self.strict:
            return self._permissive(scope, key, position, kind, digest)
        record = self.records.get(key)
        # The common case first: a hundred thousand remembered calls are to be found in a second.
        if record is None or record.position != position or record.digest != digest or record.kind != kind:
            if record is not None and record.position == position and is_open_to_requests(record, kind):
                self._take(key)
                return _place(CallPlace, (key, position, record, scope))
            difference = self._difference(scope, key, position, kind, digest, record) if self._left or record else None
            if difference is not None:
                raise self._diverged(difference)
            if record is None:
                found = self._index.answer(key, kind, digest) if self._aside else None
                return CallPlace(key, position, None, scope) if found is None else self._found(found, scope)
        self._take(key)
        return _place(CallPlace, (key, position, record, scope))

    def _take(self, key: str) -> None:
        if key not in self._read:
            self._read.add(key)
            self._left -= key not in self._aside
            self.effects.left.pop(key, None)
            self.order.look_again()

    def _found(self, key: str, scope: Scope) -> CallPlace:
        """Return the place of a record that answers a call of another key or position: under its own."""
        self._take(key)
        record = self.records[key]
        return CallPlace(key, record.position, record, scope)

    # --- explicit branches
    def recorded_answers(self, scope: Scope) -> deque[tuple[int, str]]:
        """Return (seq, key) of what the history answers to ``scope`` and to its branches, in log order."""
        if not self.strict or scope.again is not None:
            return deque()
        if self._answers is None:
            from seekpoint.producers.durable.branches.recorded_answers import RecordedAnswers

            self._answers = RecordedAnswers(self.records)
        return self._answers.of(scope.prefix or "")

    def nobody_asks_for(self, key: str) -> ReplayDivergence:
        """Return the error for a recorded answer that no branch asks for."""
        record = self.records[key]
        return self._diverged(Difference(key, record.position, "order", key, "nothing", self.entry_seq(record)))

    # --- strict
    def _difference(
        self, scope: Scope, key: str, position: int, kind: str, digest: str, record: Call | None
    ) -> Difference | None:
        if record is None:
            stood = self._index.at(scope.prefix or "", position)
            return stood and self._other(stood, position, key)  # type: ignore[return-value]  # a text is never empty
        if record.position not in (position, 0):
            stood = self._index.at(scope.prefix or "", position)
            return Difference(
                key,
                position,
                "order",
                stood or f"nothing at {position}",
                f"{key} of {record.position}",
                self.entry_seq(record),
            )
        if record.kind != kind:
            return Difference(key, position, "type", record.kind, kind, self.entry_seq(record))
        if record.digest != digest:
            reason = "prompt" if kind == "decision" else "input"
            return Difference(key, position, reason, record.digest, digest, self.entry_seq(record))
        return None

    def _other(self, stood: str, position: int, key: str) -> Difference:
        return Difference(key, position, "order", stood, key, self.entry_seq(self.records[stood]))

    def entry_seq(self, record: Call) -> int:
        """Return the seq of the entry; of an inherited call, the parent's."""
        return record.seq - self._seq_base if record.seq > self._seq_base else record.seq

    def _diverged(self, difference: Difference) -> ReplayDivergence:
        """Return the error for ``difference``; every later call raises it too."""
        self.divergence = difference.error(self.process_id)
        self.order.give_up()
        return self.divergence

    # --- further attempts
    def _again(self, scope: Scope, again: FurtherAttempt, key: str, position: int, kind: str, digest: str) -> CallPlace:
        """Return the place of a call in a further attempt of a body, which repeats failed calls only.

        A repeated call gets a key of its own (``bad:1~``), so the recorded failure stays. An effect that is recorded
        here, and answers no other call of the body, must not have another request: ``ReplayDivergence``.
        """
        other, first = None, key
        while key in again.records:
            if again.answers(key, kind, digest):
                return self._answered_again(scope, again, key)
            if kind == "effect" and again.records[key].digest != digest and again.has_other(key):
                other = other or key
            self._take_if_known(key)
            key += BRANCH
        if (found := again.elsewhere(kind, digest)) is not None:
            return self._answered_again(scope, again, found)
        if other is not None:
            record = again.records[other]
            difference = Difference(first, position, "input", record.digest, digest, self.entry_seq(record))
            if self.strict:
                raise self._diverged(difference)
            if self._on_difference is not None:
                self._on_difference(difference)
        return CallPlace(key, position, None, scope)

    def _answered_again(self, scope: Scope, again: FurtherAttempt, key: str) -> CallPlace:
        again.claim(key)
        self._take_if_known(key)
        record = again.record(key)
        return CallPlace(key, record.position, record, scope)

    def _take_if_known(self, key: str) -> None:
        if key in self.records:
            self._take(key)

    def keys_inside(self, body: str) -> Collection[str]:
        """Return the keys of all calls that the outermost body ``body`` has made so far, in earlier attempts too."""
        return [*self._index.inside_bodies.get(body, ()), *self._made_inside.get(body, ())]

    @property
    def recorded_children(self) -> dict[str, str]:
        """The digests of the recorded calls that spawned a child, by the ids of the children."""
        return self._index.children

    # --- permissive
    def _permissive(self, scope: Scope, key: str, position: int, kind: str, digest: str) -> CallPlace:
        found = self._index.answer(key, kind, digest)
        if found is not None:
            return self._found(found, scope)
        record = self.records.get(key)
        if record is not None and key not in self._read and is_open_to_requests(record, kind):
            return self._found(key, scope)
        if kind == "effect" and (done := self._index.done_instead(key)) is not None:
            was = self.records[done]
            raise self._diverged(Difference(key, position, "input", was.digest, digest, self.entry_seq(was)))
        if (self._left or record is not None) and self._on_difference is not None:
            strict = self._difference(scope, key, position, kind, digest, record)
            self._on_difference(strict or Difference(key, position, "order", f"nothing at {position}", key))
        while key in self.records:  # it stays what it is, under its key
            key += BRANCH
        return CallPlace(key, position, None, scope)

    # --- bodies
    def ended(self, place: CallPlace) -> None:
        """Record that the body of ``place`` has ended in this run: the code makes no more calls inside it."""
        if place.scope.body is None:
            self._made_inside.pop(f"{place.key}/", None)
        if place.record is not None:
            self._ended.add(place.key)
            self.effects.forget_inside(place)

    def holds(self, place: CallPlace) -> bool:
        """Return whether an effect that begins at ``place`` has to wait for recorded ones."""
        return self.strict and bool(self.effects.before(place))

    def diverge(self, place: CallPlace, key: str, digest: str) -> ReplayDivergence:
        """Return the error for an effect at ``place`` that would begin although the code did not make ``key`` again."""
        record = self.effects.record_of(key, place)
        where = place.key, place.position, "order", key, place.key
        if key not in self.effects.left:  # of an earlier attempt of the body
            where = key, place.position, "input", record.digest, digest
        return self._diverged(Difference(*where, self.entry_seq(record)))

    def held(self, place: CallPlace, key: str) -> EffectHeld:
        """Return the error for an effect at ``place`` that waited too long for ``key``; every later call raises it."""
        self.divergence = EffectHeld(
            "an effect was not begun: the code has not made one again that the history has",
            process_id=self.process_id, key=place.key, seq=self.entry_seq(self.effects.record_of(key, place)),
            missing=key,
        )  # fmt: skip
        self.order.give_up()
        return self.divergence

    # --- what was not asked
    @property
    def asked_keys(self) -> Collection[str]:
        """The keys of the recorded calls that this run has made."""
        return self._read

    @property
    def asked_aside(self) -> set[str]:
        """The keys of the records at no position that have answered a call of this run."""
        return self._read & self._aside if self._aside else self._aside

    @property
    def is_replaying(self) -> bool:
        """Whether this run has not made all recorded calls yet."""
        return self._left > 0

    def unread(self, prefix: str = "") -> list[str]:
        """Return the keys under ``prefix`` of recorded calls that this run has not made, in no order."""
        if not self._left:
            return []
        return [
            key
            for key in self.records
            if key not in self._read
            and key not in self._aside
            and key.startswith(prefix)
            and not self._is_inside_an_ended_call(key)
        ]

    def _is_inside_an_ended_call(self, key: str) -> bool:
        """Return whether the call lies in one that has ended, or in a compensation, which the code need not make."""
        while key := parent_scope(key)[:-1]:
            record = self.records.get(key)
            if record is None:
                continue
            if record.status in OVER or key in self._ended if key in self._read else key in self._aside:
                return True
        return False

    def check_read(self, prefix: str = "") -> None:
        """Raise ``ReplayDivergence`` (``length``) if this run has not made a recorded call under ``prefix``."""
        if self.divergence is not None:
            raise self.divergence
        left = self.unread(prefix)
        if left and self.strict:
            key = min(left, key=lambda one: self.records[one].seq)
            record = self.records[key]
            raise self._diverged(Difference(key, record.position, "length", key, "the end", self.entry_seq(record)))

    # --- turns
    def begin_turn(self, number: int) -> None:
        """Count the calls that the main code makes from now on as those of turn ``number``."""
        if self.turn:  # what was started before the turns may go on
            self.main.closed = True
        self.turn = number
        self.main = Scope(self, f"{number}/", task=self.main.task)
        self._patches.clear()

    def unread_before_turns(self) -> list[str]:
        """Return the keys of recorded calls before the turns that this run has not made."""
        return [key for key in self.unread() if not turn_of(key)]

    def check_before_turns(self) -> None:
        """Raise ``ReplayDivergence`` if this run has not made all recorded calls before the turns."""
        if self._left and self.strict:
            left = self.unread_before_turns()
            if left:
                self.check_read(min(left, key=lambda one: self.records[one].seq))

    # --- patches
    def patched(self, change: str, marked: Collection[str]) -> tuple[bool, str | None]:
        """Return whether the code after ``change`` may run here, and the marker to write first, if one is due.

        A turn's marker is ``N/change`` and counts for it and all later ones; the code before the turns has its own.
        """
        change = escaped_name(change)
        if change not in self._patches:
            scope = self._scope()
            known = any(_applies(mark, change, self.turn) for mark in marked)
            if not known and self._left and self._index.has_unread(scope.prefix or ""):
                self._patches[change] = False
            else:
                self._patches[change] = True
                return True, None if known else f"{self.turn}/{change}" if self.turn else change
        return self._patches[change], None


def _applies(mark: str, change: str, turn: int) -> bool:
    if mark == change:
        return turn == 0
    number, slash, name = mark.partition("/")
    return bool(slash) and name == change and number.isdigit() and 0 < int(number) <= turn
