"""Check that a process can be redriven, resumed, suspended or cancelled as it is now. Pure: by its state alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from seekpoint.schemas.state.process_state import State


def refuse_finished(process_id: str, state: State) -> None:
    """Raise ``ProcessFinished`` for a process that takes no more input."""
    from seekpoint.schemas.errors import ProcessFinished

    if state.finished:
        raise ProcessFinished("the process is finished: it takes no more input", process_id=process_id)


def refuse_running(process_id: str, state: State) -> None:
    """Raise ``Refused`` for a process that nobody suspended."""
    from seekpoint.schemas.errors import Refused
    from seekpoint.schemas.state.lifecycle import Lifecycle

    if not state.is_on_hold and state.lifecycle is not Lifecycle.SUSPENDED:
        raise Refused(
            "the process is not suspended, nothing was sent", process_id=process_id,
            hint="seekpoint state PROCESS_ID shows what it waits for",
        )  # fmt: skip


def refuse_on_hold(process_id: str, state: State) -> None:
    """Raise ``Refused`` for a process that is suspended already."""
    from seekpoint.schemas.errors import Refused

    if state.is_on_hold:
        raise Refused(
            "the process is already suspended, nothing was sent", process_id=process_id,
            hint="to let it go on: seekpoint resume PROCESS_ID",
        )  # fmt: skip


def is_asked_to_stop(state: State) -> bool:
    """Return whether somebody cancelled the process. What nobody has run since has the request in its mailbox."""
    return state.cancelled is not None or any(one.kind == "cancel_requested" for one in state.mailbox.values())


def refuse_cancelled(process_id: str, state: State) -> None:
    """Raise ``Refused`` for a process that was asked to stop before, also if it has not read that yet."""
    from seekpoint.schemas.errors import Refused

    if is_asked_to_stop(state):
        raise Refused(
            "the process is already cancelled, nothing was sent", process_id=process_id,
            lifecycle=str(state.lifecycle), hint="seekpoint state PROCESS_ID shows what it still compensates",
        )  # fmt: skip
