"""Know the recorded effects that unchanged code has to make again before a first one may begin. Pure.

An effect that has a record under another key than the code asks for would be made twice, with two idempotency keys.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from seekpoint.producers.durable.replay.record_index import OVER, made_again, may_have_been_done, runs_again
from seekpoint.producers.durable.replay.scopes import parent_scope

if TYPE_CHECKING:
    from seekpoint.producers.durable.replay.scopes import CallPlace
    from seekpoint.schemas.state.calls import Call


class EffectsLeft:
    """The recorded effects that the code has not made again yet. ``read`` has the calls that it has made, ``ended``
    those whose bodies ended in this run, ``bodies_again`` the scopes of bodies that run and make their calls again."""

    def __init__(
        self, records: Mapping[str, Call], read: Collection[str], ended: Collection[str],
        bodies_again: Collection[str | None],
    ) -> None:  # fmt: skip
        self._records = records
        self._read = read
        self._ended = ended
        self._bodies_again = bodies_again
        self.left: dict[str, list[str]] = {}
        """The effects by the call that the code makes again for them: the effect itself, or a call around it."""
        for effect in [key for key, call in records.items() if call.kind == "effect" and call.position]:
            key = made_again(records, effect)
            if records[key].position and may_have_been_done(records[effect]):
                self.left.setdefault(key, []).append(effect)

    def forget_inside(self, place: CallPlace) -> None:
        """Expect no more that the body of ``place`` makes its recorded effects: it failed, or runs no more."""
        if self.left and place.record is not None and place.record.status not in OVER:
            for key in [key for key in self.left if key.startswith(f"{place.key}/")]:
                del self.left[key]

    def before(self, place: CallPlace) -> Collection[str]:
        """Return the calls that the code has to make again before the effect at ``place`` may begin.

        In a further attempt of a body these are also the effects of its name that have answered nothing yet.
        """
        again = place.scope.again
        others = () if again is None else again.others(place.key)
        return [*self.left, *others] if others else self.left.keys()

    def to_come(self, place: CallPlace, *, in_branches: bool) -> Collection[str]:
        """Return those of ``before`` that the body of another call in doubt may make still.

        With explicit branches that is also a body that has not begun yet.
        """
        return [key for key in self.before(place) if self._may_come(key, place.key, in_branches)]

    def _may_come(self, key: str, held: str, in_branches: bool) -> bool:
        while key := parent_scope(key)[:-1]:
            is_open = in_branches and key in self._read and key not in self._ended and runs_again(self._records[key])
            if (is_open or f"{key}/" in self._bodies_again) and not held.startswith(f"{key}/"):
                return True
        return False

    def record_of(self, key: str, place: CallPlace) -> Call:
        """Return the record of a call that ``before`` of ``place`` names."""
        return self._records.get(key) or place.scope.again.record(key)  # type: ignore[union-attr]

    def is_moved(self, key: str, digest: str) -> bool:
        """Return whether the call ``key`` has made an effect with this request, so that another scope asks for it."""
        return any(self._records[effect].digest == digest for effect in self.left.get(key, ()))
