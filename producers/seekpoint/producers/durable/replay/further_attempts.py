"""What a further attempt of a body keeps of the earlier attempts. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from seekpoint.producers.durable.replay.record_index import OVER, is_known_undone, may_have_been_done, name_in
from seekpoint.producers.durable.replay.scopes import parent_scope

if TYPE_CHECKING:
    from seekpoint.schemas.state.calls import Call


class FurtherAttempt:
    """A further attempt of the body ``prefix``: each call of an earlier attempt answers one equal request.

    ``records`` are the calls remembered when it began, ``keys`` returns the keys of those that are inside the body.
    What failed up to ``below_seq`` is repeated. ``around`` is the attempt of a body around this one.
    """

    def __init__(
        self, prefix: str, records: Mapping[str, Call], below_seq: int, keys: Callable[[], Collection[str]],
        around: FurtherAttempt | None,
    ) -> None:  # fmt: skip
        self.records = records
        self._prefix = prefix
        self._below_seq = below_seq
        self._keys = keys
        self._around = around
        self._claimed: set[str] = set()

    def claim(self, key: str) -> None:
        """Let the call ``key`` of an earlier attempt answer no further request."""
        self._claimed.add(key)
        if self._around is not None:
            self._around.claim(key)

    def answers(self, key: str, kind: str, digest: str) -> bool:
        """Return whether the call ``key`` of an earlier attempt answers this request.

        A failed effect is repeated only if it is known that nothing was done: with another key, the outside system
        could not recognise the second request.
        """
        record = self.records.get(key)
        if record is None or record.kind != kind or record.digest != digest or key in self._claimed:
            return False
        is_final = record.status != "failed" or record.seq > self._below_seq
        return is_final or (record.kind == "effect" and not is_known_undone(record))

    def elsewhere(self, kind: str, digest: str) -> str | None:
        """Return the key of the first call that answers this request, wherever in the bodies it was made."""
        keys = self._by_request.get((kind, digest), ()) if digest else ()
        free = (key for key in keys if not self._is_inside_answered(key))
        found = next((key for key in free if self.answers(key, kind, digest)), None)
        return self._around.elsewhere(kind, digest) if found is None and self._around is not None else found

    def record(self, key: str) -> Call:
        """Return the record of a call that this attempt, or one around it, remembers."""
        record = self.records.get(key)
        if record is None:
            assert self._around is not None
            return self._around.record(key)
        return record

    def has_other(self, key: str) -> bool:
        """Return whether ``key`` is an effect of an earlier attempt that may have been done, and answered nothing."""
        record = self.records.get(key)
        return record is not None and key not in self._claimed and may_have_been_done(record)

    def others(self, key: str) -> list[str]:
        """Return the keys of the other effects with the name in ``key``: the body may still ask for them."""
        same = self._effects.get(name_in(key), ())
        left = [one for one in same if self.has_other(one) and not self._is_inside_answered(one)]
        return left if self._around is None else [*left, *self._around.others(key)]

    def _is_inside_answered(self, key: str) -> bool:
        """Return whether the call lies in one that has answered: its body does not run again."""
        while len(key := parent_scope(key)[:-1]) > len(self._prefix):
            if key in self._claimed and self.records[key].status in OVER:
                return True
        return False

    @cached_property
    def _inside(self) -> list[str]:
        """The keys of the remembered calls inside the body, in the order in which they ended."""
        keys = [key for key in self._keys() if key.startswith(self._prefix) and key in self.records]
        return sorted(set(keys), key=lambda key: self.records[key].seq)

    @cached_property
    def _by_request(self) -> dict[tuple[str, str], list[str]]:
        found: dict[tuple[str, str], list[str]] = {}
        for key in self._inside:
            found.setdefault((self.records[key].kind, self.records[key].digest), []).append(key)
        return found

    @cached_property
    def _effects(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for key in self._inside:
            if self.records[key].kind == "effect":
                found.setdefault(name_in(key), []).append(key)
        return found
