"""The calls that a history remembers, found by their places and by their requests. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from seekpoint.producers.durable.replay.scopes import BRANCH, PARENTS, parent_scope
from seekpoint.schemas.state.calls import UNDO

if TYPE_CHECKING:
    from seekpoint.schemas.state.calls import Call

OVER = frozenset({"succeeded", "failed"})
_ASKS_AGAIN = frozenset({"step", "decision"})


class RecordIndex:
    """The records of one run, by place and by request. ``read`` has the keys that the run has asked for.

    ``aside`` are the keys of the records at position 0. In a strict run, a request finds only those.
    """

    def __init__(
        self, records: Mapping[str, Call], read: Collection[str], aside: Collection[str], *, strict: bool
    ) -> None:
        self._records = records
        self._read = read
        self._aside = aside
        self._strict = strict
        self._by_request: dict[tuple[str, str], list[str]] | None = None

    # --- by place
    @cached_property
    def by_scope(self) -> dict[str, dict[int, str]]:
        """The keys of the records by scope and position."""
        found: dict[str, dict[int, str]] = {}
        for key, call in self._records.items():
            if call.position:
                found.setdefault(parent_scope(key), {})[call.position] = key
        return found

    def at(self, scope: str, position: int) -> str | None:
        """Return the key of the record at ``position`` in ``scope``."""
        return self.by_scope.get(scope, {}).get(position)

    def tasks_that_begin(self, parent: str, kind: str, suffix: str, digest: str) -> list[str]:
        """Return the scopes of the recorded tasks that ``parent`` started and whose first call is this one."""
        tasks = self._tasks.get((parent, suffix), ())
        return [scope for scope in tasks if self.begins(scope, kind, suffix, digest)]

    @cached_property
    def _tasks(self) -> dict[tuple[str, str], list[str]]:
        """The scopes of recorded tasks, by the scope whose code started them and the end of their first call's key."""
        found: dict[tuple[str, str], list[tuple[int, str]]] = {}
        for scope, keys in self.by_scope.items():
            number = scope[:-1].rpartition("/")[2]
            if number.startswith(BRANCH) and number[1:].isdigit() and 1 in keys:
                parent = scope[: -len(number) - 1]
                found.setdefault((parent, keys[1][len(scope) :]), []).append((int(number[1:]), scope))
        return {place: [scope for _, scope in sorted(scopes)] for place, scopes in found.items()}

    def begins(self, prefix: str, kind: str, suffix: str, digest: str) -> bool:
        """Return whether this call is the first one of the scope ``prefix``."""
        record = self._records.get(prefix + suffix)
        return record is not None and record.position == 1 and record.kind == kind and record.digest == digest

    def has_unread(self, prefix: str) -> bool:
        """Return whether the run has not asked for a record right in the scope ``prefix``."""
        return any(key not in self._read for key in self.by_scope.get(prefix, {}).values())

    @cached_property
    def children(self) -> dict[str, str]:
        """The digests of the recorded calls that spawned a child, by the ids of the children."""
        return {call.facts["child_id"]: call.digest for call in self._records.values() if call.kind == "child"}

    @cached_property
    def inside_bodies(self) -> dict[str, list[str]]:
        """The keys of the calls that were made in bodies of calls, by the scope of the outermost body."""
        found: dict[str, list[str]] = {}
        for key in self._records:
            end = key.find("/")
            while end >= 0 and key[:end] not in self._records:
                end = key.find("/", end + 1)
            if end >= 0:
                found.setdefault(key[: end + 1], []).append(key)
        return found

    # --- by request
    def done_instead(self, key: str) -> str | None:
        """Return the key of a recorded effect of this name that may have been done and that no call has asked for yet.

        A call with another request would do it a second time.
        """
        same = self._effects.get(name_in(key), ())
        return next(
            (other for other in same if other not in self._read and may_have_been_done(self._records[other])), None
        )

    @cached_property
    def _effects(self) -> dict[str, list[str]]:
        """The keys of the effects that the code made, by their names."""
        found: dict[str, list[str]] = {}
        for key, call in self._records.items():
            if call.kind == "effect" and not key.startswith(UNDO):
                found.setdefault(name_in(key), []).append(key)
        return found

    def answer(self, key: str, kind: str, digest: str) -> str | None:
        """Return the key of the next recorded call with the same request; without a digest, with the same name."""
        if not digest:
            for one in (key, PARENTS + key):
                record = self._records.get(one)
                if record is not None and record.kind == kind and one not in self._read:
                    return one
            return None
        if self._by_request is None:
            self._by_request = self._requests()
        left = self._by_request.get((kind, digest))
        while left:
            if (found := left.pop(0)) not in self._read:
                return found
        return None

    def _requests(self) -> dict[tuple[str, str], list[str]]:
        """Return the keys by (kind, digest), in program order as far as the history shows it."""
        began: dict[str, int] = {}
        for key, call in self._records.items():
            scope = parent_scope(key)
            began[scope] = min(began.get(scope, call.seq), call.seq)
        ordered = sorted(
            (began[parent_scope(key)], call.position, call.seq, key) for key, call in self._records.items()
        )
        requests: dict[tuple[str, str], list[str]] = {}
        for *_, key in ordered:
            call = self._records[key]
            if not self._strict or key in self._aside:
                requests.setdefault((call.kind, call.digest), []).append(key)
        return requests


def made_again(records: Mapping[str, Call], key: str) -> str:
    """Return the key of the call that unchanged code makes again where it made ``key``.

    That is the outermost call around ``key`` whose body does not run again, or runs in a further attempt, which may
    take another way; else ``key`` itself.
    """
    again = around = key
    while around := parent_scope(around)[:-1]:
        record = records.get(around)
        if record is not None and not runs_again(record):
            again = around
    return again


def runs_again(record: Call) -> bool:
    """Return whether the body of the call runs again and has to make its recorded calls: in its first attempt."""
    is_over = record.status in OVER or record.attempt > 1 or record.error is not None
    return record.kind in _ASKS_AGAIN and not is_over


def name_in(key: str) -> str:
    """Return the name in a key, or the whole last part of a key that the code gave."""
    return key.rpartition("/")[2].partition(":")[0].rstrip(BRANCH)


def may_have_been_done(record: Call) -> bool:
    """Return whether ``record`` is an effect that has, or may have, changed something outside."""
    if record.kind != "effect" or (record.status == "failed" and is_known_undone(record)):
        return False
    return record.facts.get("semantics") != "observe_only"


def is_known_undone(record: Call) -> bool:
    """Return whether the failure of ``record`` says that nothing was done."""
    from seekpoint.producers.durable.failures.recorded_failures import is_undone

    return is_undone(record.error or "{}")
