"""What a command says of an error, and what it exits with. A traceback only for who asks for it."""

from __future__ import annotations

import errno
import os
import re
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING

from seekpoint.console.exit_codes import EXIT_FAULT
from seekpoint.console.render.output import fail, say

if TYPE_CHECKING:
    from seekpoint.schemas.errors import SeekpointError

__all__ = [
    "DEBUG_VARIABLE",
    "is_debug",
    "report",
    "set_debug",
]

DEBUG_VARIABLE = "SEEKPOINT_DEBUG"

_NO_ROOM = {errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC)}

_asked = False


def set_debug(asked: bool) -> None:
    """Remember whether ``--debug`` was given."""
    global _asked
    _asked = asked


def is_debug() -> bool:
    """Whether tracebacks and the clients' own messages are wanted: ``--debug``, or ``SEEKPOINT_DEBUG=1``."""
    return _asked or os.environ.get(DEBUG_VARIABLE, "") not in ("", "0")


def report(error: Exception, scrub: Callable[[str], str] = str) -> int:
    """Say what went wrong in one line, ``scrub`` taking secrets out; the exit code."""
    from seekpoint.console.error_exit_codes import exit_code_of
    from seekpoint.schemas.errors import SeekpointError

    if is_debug():
        for line in scrub("".join(traceback.format_exception(error))).splitlines():
            say(line)
    if isinstance(error, SeekpointError):
        fail(scrub(_line(error)))
        return exit_code_of(type(error))
    if isinstance(error, OSError) and error.errno in _NO_ROOM:
        fail(scrub(f"cannot write: {error}; what was written before is not whole"))
        return EXIT_FAULT
    text = str(error) or "without a message"
    wanted = "" if is_debug() else "; please report it, with what --debug shows"
    fail(scrub(f"unexpected {type(error).__name__}: {text}{wanted}"))
    return EXIT_FAULT


def _line(error: SeekpointError) -> str:
    """The error in one line, its next command ready to be copied."""
    process_id = error.facts.get("process_id")
    if not isinstance(process_id, str):
        return str(error)
    from shlex import quote

    facts = str(error).removesuffix(error.hint)
    return facts + re.sub(r"\bID\b", lambda _: quote(process_id), error.hint)
