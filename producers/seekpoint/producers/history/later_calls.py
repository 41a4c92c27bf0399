"""Collect the calls that a process ended after a point of its past, so that a fork answers equal requests. Pure.

The fork gets each such record at position 0, under a key that no code can make (``PARENTS``). A call that was open at
the point gets its later end in its own place.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING

from msgspec.structs import replace

from seekpoint.producers.durable.effects.compensation_names import UNDO
from seekpoint.producers.durable.replay.recorded_run import EndedCall, ended_by
from seekpoint.producers.durable.replay.scopes import BRANCH, PARENTS
from seekpoint.schemas.folding.fold import Verdict, advance

if TYPE_CHECKING:
    from seekpoint.schemas.bodies.entry import Entry
    from seekpoint.schemas.config.limits import Limits
    from seekpoint.schemas.state.calls import Call
    from seekpoint.schemas.state.process_state import Draft, State


def ended_after(past: State, later: Iterable[tuple[int, Entry]], limits: Limits) -> Iterator[EndedCall]:
    """Yield the ends of calls in the entries ``later`` than ``past``, and other outcomes that calls got there."""
    draft = past.thaw()
    for offset, entry in later:
        before = draft.calls
        if advance(draft, offset, entry, limits) is Verdict.APPLIED:
            yield from ended_by(entry, before, draft)


def inherited_ends(state: State) -> Iterator[EndedCall]:
    """Yield the calls with an outcome that a fork began with: some may have got another answer then."""
    for key, call in state.calls.items():
        if call.kind != "write" and not key.startswith(PARENTS):
            yield EndedCall(state.seq, key, call)


def calls_of(ended: Iterable[EndedCall], *, without_undone: bool = False) -> dict[str, Call]:
    """Return the calls that have an outcome, by key, as their ends left them.

    A key that a rewind forgot and the code used again for another request has two records: the later key ends with
    ``~``. Compensations are left out; ``without_undone``: the effects that they undid, too.
    """
    found: dict[str, Call] = {}
    for _, key, call in ended:
        if key.startswith(UNDO):
            if without_undone and call.status == "succeeded":
                _drop_newest(found, key.removeprefix(UNDO))
        elif call.status in ("succeeded", "failed"):
            _put(found, key, call)
    return found


def answered_calls(state: State) -> dict[str, Call]:
    """Return the records of its parents that a fork's content has, by their keys there."""
    calls = state.calls.items()
    return {key.removeprefix(PARENTS): call for key, call in calls if key.startswith(PARENTS)}


def join_calls(*parts: dict[str, Call]) -> dict[str, Call]:
    """Return all calls; the later one of two with the same request, and both under keys of their own if it differs."""
    found: dict[str, Call] = {}
    for part in parts:
        for key, call in part.items():
            _put(found, key, call)
    return found


def _put(found: dict[str, Call], key: str, call: Call) -> None:
    while key in found and found[key].digest != call.digest:
        key += BRANCH
    found[key] = call


def _drop_newest(found: dict[str, Call], key: str) -> None:
    """Drop the newest of the calls that had this key."""
    known = [one for one in found if one == key or (one.startswith(key) and not one[len(key) :].strip(BRANCH))]
    if known:
        del found[max(known, key=lambda one: found[one].seq)]


def put_later_calls(draft: Draft, later: dict[str, Call], kinds: Collection[str]) -> list[str]:
    """Put those of ``later`` that have one of ``kinds`` into ``draft``; return their keys in the parent.

    A failed call other than an effect is left out: the fork makes it again.
    """
    put = []
    for key, call in later.items():
        if call.kind in kinds and (call.status == "succeeded" or call.kind == "effect"):
            open_call = draft.calls.get(key)
            goes_on = open_call is not None and (open_call.kind, open_call.digest) == (call.kind, call.digest)
            draft.calls.put(key if goes_on else PARENTS + key, call if goes_on else replace(call, position=0))
            put.append(key)
    return put
