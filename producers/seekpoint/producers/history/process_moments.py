"""Read the name of a process at a moment: ``case-17``, or ``case-17@42`` after its seq 42."""

from __future__ import annotations

from collections.abc import Awaitable, Callable


async def named_moment(name: str, is_known: Callable[[str], Awaitable[bool]]) -> tuple[str, int | None]:
    """Return process id and seq; None as of now. A process whose own id looks like that has precedence."""
    found = moment_in(name)
    return (name, None) if found is None or await is_known(name) else found


def moment_in(name: str) -> tuple[str, int] | None:
    """Return the process id and the seq of ``PROCESS_ID@SEQ``; None for a name of another form.

    >>> moment_in("case-17@42"), moment_in("case-17"), moment_in("@42")
    (('case-17', 42), None, None)
    """
    process_id, _, seq = name.rpartition("@")
    return (process_id, int(seq)) if process_id and seq.isascii() and seq.isdigit() else None
