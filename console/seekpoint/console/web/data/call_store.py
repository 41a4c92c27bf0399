"""The calls of one process in memory: long inputs and outputs are cut there, and read again when somebody asks."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from seekpoint.console.web.json_texts import short_json
from seekpoint.schemas.values.decimal_arithmetic import exact_sum

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from seekpoint.producers.durable.replay.call_records import CallRecord
    from seekpoint.schemas.bodies.entry import Entry
    from seekpoint.schemas.config.limits import Limits

_CALL_BYTES = 1_000
"""What a call with its first attempt takes in memory besides its values, roughly."""
_VALUE_FACTOR = 2
"""A value takes about so many times the bytes of its JSON."""
_WHOLE_BYTES_MAX = 2_000
"""A call is cut if one of its entries is longer."""
_CUT_CHARACTERS = 400
_CUT_KINDS = frozenset({"step", "effect", "gate", "child", "sample", "timer"})
"""Decisions share messages with each other, and a receipt's output is in somebody else's entry: these stay whole."""


class CutText(str):
    """The beginning of a value as JSON; the whole value is in the log."""


class CallStore:
    """Collects the calls of a process from its entries. The bytes that it takes are estimated."""

    def __init__(self, read: Callable[[str], Sequence[Entry]], process_id: str, limits: Limits, *, cuts: bool) -> None:
        from seekpoint.producers.history.inherited_calls import GrowingCalls

        self._growing = GrowingCalls(read, process_id, limits)
        self._cuts = cuts
        self._numbers: dict[int, int] = {}
        self._offsets: dict[int, list[int]] = {}
        """Of calls with a long entry, or under way: the entries about them."""
        self._sizes: dict[int, int] = {}
        """Of the same calls: the bytes of these entries."""
        self._is_long: set[int] = set()
        self._costs: dict[int, Decimal] = {}
        self._cost: Decimal | None = None
        self.bytes = 0

    @property
    def found(self) -> list[CallRecord]:
        """Return the calls so far, in the order in which they began."""
        return self._growing.found

    @property
    def cost_usd(self) -> str | None:
        """Return the cost of all calls in USD, as a decimal text; None if no cost is known."""
        return None if self._cost is None else format(self._cost, "f")

    def take(self, offset: int, entry: Entry, size: int, *, takes_calls: bool) -> list[tuple[int, CallRecord, bool]]:
        """Read the next applied entry. Return the calls that it began or is about: number, call, whether it is new."""
        known = len(self.found)
        one = self._growing.take(entry, takes_calls=takes_calls)
        new = range(known, len(self.found))
        touched = [(number, self.found[number], True) for number in new]
        for number in new:
            self._numbers[id(self.found[number])] = number
            self.bytes += _CALL_BYTES
        if one is not None:
            number = self._numbers[id(one)]
            self._note(number, one, offset, size)
            if number < known:
                touched.append((number, one, False))
        if len(new) > 1:  # inherited ones
            self.bytes += sum(_VALUE_FACTOR * _size(call) for _, call, _ in touched)
        for number, call, _ in touched:
            if call.last.cost_usd is not None:
                self._count_cost(number, call)
        return touched

    def _note(self, number: int, call: CallRecord, offset: int, size: int) -> None:
        offsets = self._offsets.setdefault(number, [])
        offsets.append(offset)
        self._sizes[number] = self._sizes.get(number, 0) + size
        self.bytes += _VALUE_FACTOR * size
        if size > _WHOLE_BYTES_MAX:
            self._is_long.add(number)
        if call.last.outcome is None or call.status in ("started", "pending"):
            return
        counted = self._sizes.pop(number)
        if number not in self._is_long:
            del self._offsets[number]
        elif self._cuts and call.kind in _CUT_KINDS:
            call.input, call.output = _cut(call.input), _cut(call.output)
            self.bytes += _VALUE_FACTOR * (_size(call) - counted)

    def _count_cost(self, number: int, call: CallRecord) -> None:
        cost, before = call.cost_usd, self._costs.get(number)
        if cost is not None and cost != before:
            self._costs[number] = cost
            sums = [self._cost or Decimal(0), cost, *([] if before is None else [-before])]
            self._cost = exact_sum(sums)

    def whole(self, number: int, read_at: Callable[[Sequence[int]], Iterable[Entry]]) -> CallRecord:
        """Return a call with its whole input and output. ``read_at`` reads the entries at offsets. Raises ``KeyError``.

        ``KeyError``: the log does not have its entries any more.
        """
        from seekpoint.producers.durable.replay.call_records import asked

        call = self.found[number]
        if not isinstance(call.input, CutText) and not isinstance(call.output, CutText):
            return call
        found = asked(read_at(self._offsets[number]))
        if not found:
            raise KeyError(call.key)
        return replace(
            call,
            input=found[-1].input if isinstance(call.input, CutText) else call.input,
            output=found[-1].output if isinstance(call.output, CutText) else call.output,
        )


def _cut(value: Any) -> Any:
    text = short_json(value, _CUT_CHARACTERS)
    return CutText(text) if len(text) > _CUT_CHARACTERS else value


def _size(call: CallRecord) -> int:
    import orjson

    return len(orjson.dumps([call.input, call.output]))
