"""Compare two processes, or two moments, without a node: both histories are read from the log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from seekpoint.console.services.arguments.target import CommandTarget
    from seekpoint.producers.history.comparing import ProcessDiff


def process_diff(target: CommandTarget, left: str, right: str) -> ProcessDiff:
    """Return what differs; each side is ``PROCESS_ID``, as of now, or ``PROCESS_ID@SEQ``, after that seq. Blocks.

    Raises ``UnknownProcess``, ``Refused`` for a seq that is not there, and ``JournalGap``.
    """
    from seekpoint.consumers.recovery.process_history import whole_history
    from seekpoint.producers.history.comparing import compare

    (one_id, one_seq), (other_id, other_seq) = _moment(target, left), _moment(target, right)
    one = whole_history(target.recoverer, one_id)
    other = one if other_id == one_id else whole_history(target.recoverer, other_id)
    return compare(one, other, one_seq, other_seq, target.log.limits)


def diff_facts(found: ProcessDiff) -> dict[str, Any]:
    """Return what differs as JSON data. A number that is too large for it is written as the journal has it."""
    from msgspec import to_builtins

    from seekpoint.console.render.json_numbers import with_json_numbers

    facts: dict[str, Any] = with_json_numbers(to_builtins(found))
    return facts


def _moment(target: CommandTarget, name: str) -> tuple[str, int | None]:
    from seekpoint.producers.history.history_points import moment_in

    found = moment_in(name)
    if found is None or target.recoverer.recover(name, missing_ok=True).known:
        return name, None
    return found
