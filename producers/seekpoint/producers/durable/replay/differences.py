"""What a call is asked otherwise than in its history: the first difference, told where two digests say little.

A state keeps a digest of what a call was asked; the journal keeps all of it, in the entry that began the call. So it is
read only where the two differ, and as far as it was not trimmed.
"""

from __future__ import annotations

from collections.abc import Coroutine, Iterable, Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from seekpoint.producers.durable.decisions.prompts import first_difference
from seekpoint.schemas import bodies as b
from seekpoint.schemas.state.calls import NOT_ASKED, write_digest
from seekpoint.schemas.values.json_values import load

if TYPE_CHECKING:
    from seekpoint.producers.durable.session import Session
    from seekpoint.schemas.errors import ReplayDivergence

__all__ = ["add_difference", "changed", "difference_from"]


def changed(session: Session, error: ReplayDivergence, asks: b.Body) -> Coroutine[Any, Any, Any]:
    """What raises ``error``, awaited, and says where ``asks`` (what the code would have journaled) differs.

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
    """Add the fact ``difference`` to an input divergence, from the journal; or how to see what was asked."""
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
    """Where what the code asks first differs from what it asked: ``$.arguments[0]: 1 is now 1.0``.

    None where ``history``, the bodies of the process's entries, does not have it.
    """
    if error.asks is None or error.kind != "input":
        return None
    recorded = next((body for body in history if _is_of(body, error)), None)
    return None if recorded is None else first_difference(_asked(recorded), _asked(error.asks))


def _is_of(body: Any, error: ReplayDivergence) -> bool:
    """Whether ``body`` began the call: a key that a rewind forgot may have asked other things before."""
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
"""What a digest covers, by the entry that has it. A content write's covers all of it but what runs differ in."""

_KINDS: Mapping[type[b.Body], tuple[type[b.Body], ...]] = {b.StepStarted: (b.StepStarted, b.StepEnded)}


def _asked(body: Any) -> dict[str, Any]:
    """What ``body`` says was asked, as values."""
    types = {one.name: str(one.type) for one in fields(body)}
    names = _ASKED.get(type(body)) or tuple(name for name in types if name not in NOT_ASKED)
    found = {name: _value(getattr(body, name), types[name]) for name in names}
    given = found.get("arguments")
    return found if not isinstance(given, dict) else {**found, **given}  # with options, it names both


def _value(value: Any, declared: str) -> Any:
    if value is None or "Json" not in declared:
        return value
    return {name: load(text) for name, text in value.items()} if isinstance(value, Mapping) else load(value)
