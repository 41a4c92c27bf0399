"""The table of a state's calls: looked up at once, copied at once, written on by whoever made the copy.

A projector makes a copy of a state a batch and an owner one a step; each has to cost the same however many calls the
state remembers.
"""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, KeysView, Mapping, ValuesView
from math import isqrt
from typing import Any, overload

from seekpoint.schemas.state.calls import UNSETTLED, Call, call_of, turn_of


class Calls(Mapping[str, Call]):
    """The calls by key; read-only. ``draft`` gives a copy to write on at once, however many there are.

    Kept apart by turn, so that the end of a turn costs what the turn has; and each turn's in two layers, so that the
    first write on a copy costs the square root of what there is.
    """

    __slots__ = ("_layers", "_owns_unsettled", "_unsettled")

    _layers: dict[int, _Layers]
    _unsettled: dict[str, Call]
    """The calls without an outcome, and the effects that a person has to settle: few, however many calls there are."""
    _owns_unsettled: bool
    """Whether no other table has the same ``_unsettled``, so that it may be written on."""

    def __init__(self, calls: Mapping[str, Call] | None = None) -> None:
        """Copy ``calls``."""
        apart: dict[int, dict[str, Call]] = {}
        for key, call in {} if calls is None else calls.items():
            apart.setdefault(turn_of(key), {})[key] = call
        self._layers = {turn: _Layers(some) for turn, some in apart.items()}
        self._index_unsettled()

    @property
    def unsettled(self) -> Mapping[str, Call]:
        """Return the calls without an outcome and the effects that a person has to settle, by key, without looking at
        the other calls. Do not write on the result."""
        return self._unsettled

    def _index_unsettled(self) -> None:
        self._unsettled = {key: call for key, call in self._whole().items() if call.status in _UNSETTLED}
        self._owns_unsettled = True

    @overload
    def get(self, key: str, /) -> Call | None: ...
    @overload
    def get(self, key: str, /, default: Any) -> Any: ...
    def get(self, key: str, /, default: Any = None) -> Any:
        """Return the call ``key``, or ``default``."""
        layers = self._layers.get(turn_of(key) if "/" in key else 0)
        if layers is None:
            return default
        return layers.new.get(key) or layers.old.get(key, default)

    def items(self) -> ItemsView[str, Call]:
        """Return all keys and calls as of now."""
        return self._whole().items()

    def keys(self) -> KeysView[str]:
        """Return all keys as of now."""
        return self._whole().keys()

    def values(self) -> ValuesView[Call]:
        """Return all calls as of now."""
        return self._whole().values()

    def copy(self) -> dict[str, Call]:
        """Return all calls as a new dict."""
        return self._whole().copy()

    def of_turn(self, turn: int) -> dict[str, Call]:
        """Return the calls of one turn; turn 0 has the calls outside of turns. Do not write on the result."""
        layers = self._layers.get(turn)
        return {} if layers is None else layers.whole()

    def draft(self) -> CallsDraft:
        """Return a copy to write on. Writes on the copy do not change these calls, nor the other way round."""
        copy = _new(CallsDraft)
        layers = self._layers
        copy._layers = {turn: one.share() for turn, one in layers.items()} if layers else {}
        copy._unsettled = self._unsettled
        copy._owns_unsettled = self._owns_unsettled = False
        return copy

    def window(self) -> Calls:
        """Return a read-only view of these calls."""
        seen = _new(Calls)
        seen._layers = self._layers
        seen._unsettled = self._unsettled
        seen._owns_unsettled = self._owns_unsettled = False
        return seen

    def _whole(self) -> dict[str, Call]:
        if len(self._layers) == 1:
            return next(iter(self._layers.values())).whole()
        whole: dict[str, Call] = {}
        for layers in self._layers.values():
            whole |= layers.whole()
        return whole

    def __getitem__(self, key: str) -> Call:
        call = self.get(key)
        if call is None:
            raise KeyError(key)
        return call

    def __contains__(self, key: object) -> bool:
        return type(key) is str and self.get(key) is not None

    def __iter__(self) -> Iterator[str]:
        return iter(self._whole())

    def __len__(self) -> int:
        return sum(map(len, self._layers.values())) if self._layers else 0

    def __bool__(self) -> bool:
        return bool(self._layers)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._whole()!r})"


class CallsDraft(Calls):
    """Calls that are being written on. Only the fold holds them."""

    __slots__ = ()

    @classmethod
    def of_rows(cls, rows: Mapping[str, Any]) -> CallsDraft:
        """Return the calls in ``rows`` (see ``call_row``). Raises as ``call_of`` does."""
        draft = cls()
        main = {key: call_of(row) for key, row in rows.items() if "/" not in key}
        if main:
            draft._layers[0] = _Layers(main)
        if len(main) < len(rows):
            for key, row in rows.items():
                if "/" in key:
                    draft.put(key, call_of(row))
        draft._index_unsettled()
        return draft

    def put(self, key: str, call: Call) -> None:
        """Set the call ``key``."""
        turn = turn_of(key) if "/" in key else 0
        layers = self._layers.get(turn)
        if layers is None:
            layers = self._layers[turn] = _Layers({})
        layers.put(key, call)
        if call.status in _UNSETTLED or key in self._unsettled:
            self._put_unsettled(key, call)

    def end_turn(self, turn: int, stays: Mapping[str, Call]) -> None:
        """Drop the calls of ``turn`` but those that stay."""
        self._layers.pop(turn, None)
        if stays:
            self._layers[turn] = _Layers(dict(stays))
        if self._unsettled:
            self._unsettled = {
                key: call for key, call in self._unsettled.items() if turn_of(key) != turn or key in stays
            }
            self._owns_unsettled = True

    def _put_unsettled(self, key: str, call: Call) -> None:
        if not self._owns_unsettled:
            self._unsettled, self._owns_unsettled = self._unsettled.copy(), True
        if call.status in _UNSETTLED:
            self._unsettled[key] = call
        else:
            del self._unsettled[key]


_new = object.__new__
_UNSETTLED = frozenset({"started", *UNSETTLED})


class _Layers:
    """``old``, which may be large; while it is shared, ``new`` on top of it, which stays small and is copied.

    Who owns ``old`` writes on it and has nothing on top of it.
    """

    __slots__ = ("_added", "new", "old", "owns_new", "owns_old")

    def __init__(self, calls: dict[str, Call]) -> None:
        self.old = calls
        self.new: dict[str, Call] = {}
        self.owns_old = self.owns_new = True
        self._added = 0

    def share(self) -> _Layers:
        self.owns_old = self.owns_new = False
        copy: _Layers = _new(_Layers)
        copy.old, copy.new, copy._added = self.old, self.new, self._added
        copy.owns_old = copy.owns_new = False
        return copy

    def put(self, key: str, call: Call) -> None:
        if self.owns_old:
            self.old[key] = call
            return
        if not self.owns_new:
            self.new = self.new.copy()
            self.owns_new = True
        self._added += key not in self.new and key not in self.old
        self.new[key] = call
        if len(self.new) > _ROOM_MIN + 2 * isqrt(len(self.old)):
            self.old, self.new = self.whole(), {}
            self.owns_old, self._added = True, 0

    def whole(self) -> dict[str, Call]:
        return {**self.old, **self.new} if self.new else self.old

    def __len__(self) -> int:
        return len(self.old) + self._added


_ROOM_MIN = 64
