"""Read the name of a process at a moment: ``case-17``, or ``case-17@42`` after its seq 42."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

__all__ = ["named_moment"]


async def named_moment(name: str, is_known: Callable[[str], Awaitable[bool]]) -> tuple[str, int | None]:
    """Return process id and seq; None as of now. A process whose own id looks like that has precedence."""
    process_id, at, seq = name.rpartition("@")
    if not (at and process_id and seq.isascii() and seq.isdigit()) or await is_known(name):
        return name, None
    return process_id, int(seq)
