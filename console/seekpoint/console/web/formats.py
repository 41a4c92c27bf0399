"""Times, spans and amounts as the pages show them. Pure."""

from __future__ import annotations

import re
from datetime import UTC, datetime

_STATUS_CLASSES = {
    "failed": "bad", "degraded": "bad", "running": "good", "starting": "good", "finished": "done", "stopped": "done",
    "awaiting": "wait", "suspended": "wait", "stopping": "wait", "created": "quiet",
}  # fmt: skip


def moment(us: int) -> str:
    """Return microseconds since 1970 as ISO 8601 in UTC with milliseconds.

    >>> moment(1_790_000_000_500_000)
    '2026-09-21T14:13:20.500Z'
    """
    try:
        found = datetime.fromtimestamp(us / 1_000_000, UTC)
    except (OverflowError, ValueError, OSError):  # written with a broken clock
        return f"{us} µs"
    return found.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def short_time(iso: str) -> str:
    """Return an ISO time as a table shows it: month, day and time of day, in UTC.

    >>> short_time("2026-09-21T14:13:20+00:00")
    '09-21 14:13:20'
    """
    return iso[5:19].replace("T", " ") if len(iso) >= 19 else iso


def span_text(us: float) -> str:
    """Return a duration in the unit that fits.

    >>> [span_text(us) for us in (800, 45_300, 2_500_000, 75_000_000, 8_000_000_000, 200_000_000_000)]
    ['0.8 ms', '45 ms', '2.5 s', '1 min 15 s', '2 h 13 min', '2 d 7 h']
    """
    if us < 10_000:
        return f"{us / 1000:.1f} ms"
    if us < 1_000_000:
        return f"{us / 1000:.0f} ms"
    seconds = us / 1_000_000
    if seconds < 60:
        return f"{seconds:.1f} s"
    for size, unit, part, part_unit in ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "min"), (60, "min", 1, "s")):
        if seconds >= size:
            return f"{seconds // size:.0f} {unit} {seconds % size // part:.0f} {part_unit}"
    return f"{seconds:.0f} s"


def amount(text: str | None) -> str:
    """Return a decimal amount of USD with at most four places.

    >>> amount("0.0123456"), amount("12"), amount(None)
    ('0.0123', '12.00', '–')
    """
    if text is None:
        return "–"
    try:
        value = float(text)
    except ValueError:
        return text
    return f"{value:.4f}" if 0 < abs(value) < 1 else f"{value:,.2f}"


def short_error(text: str) -> str:
    """Return an error without the module of its class.

    >>> short_error("shop.errors.NoRoom: full, see a.b: c"), short_error("builtins:ValueError: x")
    ('NoRoom: full, see a.b: c', 'ValueError: x')
    """
    return re.sub(r"^[\w.:]*[.:](?=\w+: )", "", text)


def status_class(status: str) -> str:
    """Return the class of CSS for a lifecycle."""
    return _STATUS_CLASSES.get(status, "quiet")


def job_class(state: str) -> str:
    """Return the class of CSS for the state of a job."""
    return {"failed": "bad", "finished": "good", "stopped": "done"}.get(state, "wait")


def call_class(status: str) -> str:
    """Return the class of CSS for the status of a call or the outcome of an attempt."""
    return _CALL_CLASSES.get(status, "quiet")


_CALL_CLASSES = {
    "failed": "bad", "stuck": "bad", "unknown": "bad", "timed_out": "bad", "denied": "bad",
    "succeeded": "good", "inherited": "good", "approved": "good", "done": "good",
    "started": "wait", "pending": "wait", "retry": "wait", "revoked": "done",
}  # fmt: skip
