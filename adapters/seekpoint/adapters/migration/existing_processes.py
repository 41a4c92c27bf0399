"""Compare an import with what the journal has already: a list that only grows lacks its end, or differs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from seekpoint import Node, State
from seekpoint.errors import Refused

T = TypeVar("T")
_HINT = "import it under another prefix: --prefix NAME"


async def existing_state(
    node: Node | None, process_id: str, name: str, is_own: Callable[[Mapping[str, str]], bool]
) -> State | None:
    """Return the state of the process; None if it does not exist, or was deleted.

    ``is_own`` is asked about the values of its context. Raises ``Refused`` if the process is somebody else's.
    """
    if node is None:
        return None
    found = await node.recover(process_id, missing_ok=True)
    if not found.known or found.state.is_deleted:
        return None
    state = found.state
    if state.agent is not None or len(state.conversation) or (state.values_json and not is_own(state.values_json)):
        raise Refused(
            "the process exists and was not made by this adapter", process_id=process_id, name=name, hint=_HINT
        )
    return state


def remaining(mine: Sequence[T], theirs: Sequence[T], process_id: str, name: str) -> tuple[Sequence[T], bool]:
    """Return what the journal lacks of a source's list, and whether the journal has gone on alone.

    Raises ``Refused`` if one of them does not begin with the other.
    """
    shared = min(len(mine), len(theirs))
    for place in range(shared):
        if mine[place] != theirs[place]:
            raise other_content(f"it differs from number {place + 1:,} on", process_id, name)
    return theirs[shared:], len(mine) > shared


def other_content(why: str, process_id: str, name: str) -> Refused:
    """Return the error for a process that has another history than the source."""
    return Refused(f"the process exists with other content: {why}", process_id=process_id, name=name, hint=_HINT)
