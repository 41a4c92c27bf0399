"""Where an exception came from: the line of the user's own code, as one line of text."""

from __future__ import annotations

import linecache
import os
import sysconfig
from traceback import walk_tb
from types import FrameType

from seekpoint.producers.durable.failures.failed_calls import remembered_as
from seekpoint.producers.durable.failures.recorded_failures import error_name, message_in
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.errors import SeekpointError, StepFailed
from seekpoint.schemas.state.state_parts import Failure

__all__ = ["origin_again", "origin_of"]

_LINE_CHARACTERS_MAX = 200
_MESSAGE_CHARACTERS_MAX = 1_000
"""What a state keeps of a message."""


def origin_of(error: BaseException) -> str | None:
    """Return file, line, function and source line of the newest frame that is not a library's; None without a frame.

    An exception that only libraries raised is where the newest of them raised it. A failure that stands for another
    exception (``StepFailed``) is where that was raised.
    """
    if isinstance(error, StepFailed) and error.__cause__ is not None and error.__cause__.__traceback__ is not None:
        error = error.__cause__
    frames = [*walk_tb(error.__traceback__)]
    own = [one for one in frames if not _is_library(one[0])]
    if not frames:
        return None
    frame, line = (own or frames)[-1]
    name = frame.f_code.co_filename
    code = linecache.getline(name, line, frame.f_globals).strip()
    told = f"{_shown(name)}:{line}, in {frame.f_code.co_qualname}"
    return f"{told}: {code[:_LINE_CHARACTERS_MAX]}" if code else told


def origin_again(error: BaseException, before: Failure | None, settings: Settings) -> str | None:
    """Return the same; for a failure that is only remembered, what ``before`` has if that is the same failure."""
    text = remembered_as(error)
    if before is not None and text is not None and error_name(error, settings) == before.type:
        said = message_in(text)[:_MESSAGE_CHARACTERS_MAX]
        if before.message == said or (isinstance(error, SeekpointError) and before.message.startswith(said)):
            return before.where  # the message of one of Seekpoint's has its facts behind it
    return origin_of(error)


def _is_library(frame: FrameType) -> bool:
    module, name = frame.f_globals.get("__name__", ""), frame.f_code.co_filename
    if module.partition(".")[0] == "seekpoint" or name.startswith("<frozen"):
        return True
    return "site-packages" in name or "dist-packages" in name or name.startswith(_STANDARD)


_STANDARD = sysconfig.get_path("stdlib") + os.sep


def _shown(name: str) -> str:
    """Cut the working directory off, below which the user's own code mostly lies."""
    here = os.getcwd() + os.sep
    return name[len(here) :] if name.startswith(here) else name
