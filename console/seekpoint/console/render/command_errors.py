"""Report the error of a command in one line. A traceback is shown only with ``--debug``."""

from __future__ import annotations

import errno
import os
import re
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from seekpoint.console.exit_codes import EXIT_FAULT
from seekpoint.console.render.output import fail, pasted, say

if TYPE_CHECKING:
    from seekpoint.schemas.errors import SeekpointError

DEBUG_VARIABLE = "SEEKPOINT_DEBUG"

_NO_ROOM = {errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC)}

_is_requested = False


def set_debug(is_requested: bool) -> None:
    """Remember whether ``--debug`` was given."""
    global _is_requested
    _is_requested = is_requested


def is_debug() -> bool:
    """Whether to show tracebacks and the Kafka client's messages: ``--debug`` or ``SEEKPOINT_DEBUG=1``."""
    return _is_requested or os.environ.get(DEBUG_VARIABLE, "") not in ("", "0")


def report(error: Exception, scrub: Callable[[str], str] = str) -> int:
    """Print an error in one line, after ``scrub`` has removed secrets, and return the exit code."""
    from seekpoint.console.error_exit_codes import exit_code_of
    from seekpoint.schemas.errors import SeekpointError

    if is_debug():
        for line in scrub("".join(traceback.format_exception(error))).splitlines():
            say(line)
    if isinstance(error, SeekpointError):
        facts = error_facts(error, scrub)
        fail(scrub(_line(error)), code=facts.pop("code"), about=facts)
        return exit_code_of(type(error))
    if isinstance(error, OSError) and error.errno in _NO_ROOM:
        fail(scrub(f"cannot write: {error}; the output is incomplete"), code="CannotWrite")
        return EXIT_FAULT
    text = str(error) or "without a message"
    request = "" if is_debug() else "; please report it with the output of --debug"
    fail(scrub(f"unexpected {type(error).__name__}: {text}{request}"), code="Unexpected")
    return EXIT_FAULT


def error_facts(error: SeekpointError, scrub: Callable[[str], str] = str) -> dict[str, Any]:
    """Return an error as ``--json`` prints it, without secrets: ``code``, ``message``, ``advice`` and ``facts``."""
    about = {"message": error.message, "advice": _advice(error), "facts": error.facts}
    return {"code": type(error).__name__, **_scrubbed(about, scrub)}


def _line(error: SeekpointError) -> str:
    """Return the error in one line, with the process id filled into the command that it suggests."""
    facts = str(error).removesuffix(error.hint)
    return facts + _advice(error)


def _advice(error: SeekpointError) -> str:
    """Return the hint with the process id in the commands that it suggests."""
    process_id: object = error.process_id  # an error of another node is not checked
    if not isinstance(process_id, str):
        return error.hint
    return re.sub(r"\bPROCESS_ID\b", lambda _: pasted(process_id), error.hint)


def _scrubbed(value: Any, scrub: Callable[[str], str]) -> Any:
    """Return plain data for JSON, with every text scrubbed."""
    if isinstance(value, dict):
        return {str(name): _scrubbed(one, scrub) for name, one in value.items()}
    return value if value is None or isinstance(value, bool | int | float) else scrub(str(value))
