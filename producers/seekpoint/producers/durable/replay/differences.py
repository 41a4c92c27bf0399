"""Find where the request of a call differs from its record, in words where two digests would say little.

A state keeps a digest of a call's request; the journal keeps the request, in the entry that began the call. The journal
is read only if the digests differ, and as far as it was not trimmed.
"""

from __future__ import annotations

from collections.abc import Coroutine, Iterable, Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from seekpoint.producers.durable.replay.value_differences import first_difference
from seekpoint.schemas import bodies as b
from seekpoint.schemas.state.calls import NOT_ASKED, write_digest
from seekpoint.schemas.values.json_values import load

if TYPE_CHECKING:
    from seekpoint.producers.durable.session import Session
    from seekpoint.schemas.errors import ReplayDivergence


def changed(session: Session, error: ReplayDivergence, asks: b.Body) -> Coroutine[Any, Any, Any]:
    """Return a coroutine that raises ``error`` and says where ``asks``, the entry of the new request, differs.

    Raises it at once where it is not about what was asked.
    """
    if error.kind != "input":
        raise error
    if error.asks is None:  # the first call that differs; every later one is told the same
        error.asks = asks
    return _told(session, error)


async def _told(session: Session, error: ReplayDivergence) -> Any:
    await add_difference(session, error)
    raise error


async def add_difference(session: Session, error: ReplayDivergence) -> None:
    """Add the fact ``difference`` to an input divergence, or a hint how to see the recorded request."""
    if error.asks is None or error.kind != "input" or _is_told(error):
        return
    try:
        kinds = _KINDS.get(type(error.asks), (type(error.asks),))
        found = session.entries(session.process_id, kinds=[kind.KIND for kind in kinds])
        difference = difference_from([one.entry.body async for one in found], error)
    except Exception:  # it says less then, but it says so
        difference = None
    if difference is not None:
        error.difference = difference
    else:
        error.hint += _ELSEWHERE


def _is_told(error: ReplayDivergence) -> bool:
    return error.difference is not None or error.hint.endswith(_ELSEWHERE)


_ELSEWHERE = "; what was asked then: seekpoint steps, or an export from before the last trim"


def difference_from(history: Iterable[b.Body], error: ReplayDivergence) -> str | None:
    """Return where the request first differs from the recorded one: ``$.arguments[0]: 1 is now 1.0``.

    None where ``history``, the bodies of the process's entries, does not have it.
    """
    if error.asks is None or error.kind != "input":
        return None
    recorded = next((body for body in history if _is_of(body, error)), None)
    return None if recorded is None else first_difference(_asked(recorded), _asked(error.asks))


def _is_of(body: Any, error: ReplayDivergence) -> bool:
    """Whether ``body`` began the call. A call that a rewind forgot may have used the same key."""
    expected = error.expected
    if body.call is not None:
        return bool(body.call == error.key) and write_digest(body) == expected
    return getattr(body, "key", None) == error.key and getattr(body, "digest", None) == expected


_ASKED: Mapping[type[b.Body], tuple[str, ...]] = {
    b.StepStarted: ("name", "arguments"),
    b.StepEnded: ("name", "arguments"),
    b.EffectIntended: ("name", "arguments"),
    b.ChildSpawned: ("name", "child_id", "input"),
    b.GateOpened: ("name", "prompt"),
    b.Received: ("name",),
}
"""The fields that a digest covers, by entry. That of a content write covers all fields that runs share."""

_KINDS: Mapping[type[b.Body], tuple[type[b.Body], ...]] = {b.StepStarted: (b.StepStarted, b.StepEnded)}


def _asked(body: Any) -> dict[str, Any]:
    """Return the request in ``body``, as values."""
    types = {one.name: str(one.type) for one in fields(body)}
    names = _ASKED.get(type(body)) or tuple(name for name in types if name not in NOT_ASKED)
    found = {name: _value(getattr(body, name), types[name]) for name in names}
    given = found.get("arguments")
    return found if not isinstance(given, dict) else {**found, **given}  # with options, it names both


def _value(value: Any, declared: str) -> Any:
    if value is None or "Json" not in declared:
        return value
    return {name: load(text) for name, text in value.items()} if isinstance(value, Mapping) else load(value)
