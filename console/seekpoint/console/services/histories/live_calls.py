"""The calls of one process as they happen: its entries are followed, and its calls computed anew when it went on."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from seekpoint.console.services.histories.process_scan import entries_of

if TYPE_CHECKING:
    from seekpoint.console.services.arguments.target import CommandTarget
    from seekpoint.producers.durable.replay.call_records import CallRecord
    from seekpoint.schemas.bodies.entry import Entry
    from seekpoint.schemas.state.process_state import State

_PAUSE_S = 0.1
_SHARE_MAX = 0.25
"""The most of the time that is spent on computing the calls of a process with many entries."""


class LiveCalls(NamedTuple):
    """A process and its calls at a moment."""

    state: State
    calls: list[CallRecord]
    is_over: bool
    """The run has ended, and does not go on by itself."""


def live_calls(target: CommandTarget, process_id: str) -> Iterator[LiveCalls | None]:
    """Yield the calls as of now, and whenever the process went on; None where nothing is new. End with the run.

    Blocks. Raises ``UnknownProcess``, and ``JournalGap`` where the beginning of the history was trimmed.
    """
    from seekpoint.consumers.recovery.process_history import history
    from seekpoint.producers.durable.replay.recorded_run import Admission
    from seekpoint.producers.history.inherited_calls import calls_of
    from seekpoint.producers.runs.run_outcomes import is_over

    target.recoverer.recover(process_id)
    others: dict[str, list[Entry]] = {}
    own: list[Entry] = []

    def read(name: str) -> list[Entry]:
        if name == process_id:
            return own
        if name not in others:  # a parent, or a fork that was promoted: what is taken of it does not change
            others[name] = entries_of(target, name)
        return others[name]

    limits = target.log.limits
    admission, has_news, due = Admission(limits), True, 0.0
    for batch in history(target.recoverer, process_id, follow=True):
        before = len(own)
        own += admission.applied(batch)
        has_news = has_news or len(own) > before
        if batch and time.monotonic() < due:
            continue
        if has_news:
            began = time.monotonic()
            found = LiveCalls(admission.draft.snapshot(), calls_of(read, process_id, limits), is_over(admission.draft))
            due = time.monotonic() + (time.monotonic() - began) / _SHARE_MAX
            has_news = False
            yield found
            if found.is_over and not batch:
                return
            has_news = found.is_over  # what follows at once is read before it ends
        else:
            yield None
        if not batch:
            time.sleep(_PAUSE_S)
