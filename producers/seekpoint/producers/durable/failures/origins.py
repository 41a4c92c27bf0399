"""Find the line of the user's own code that an exception came from."""

from __future__ import annotations

import linecache
import os
from traceback import walk_tb
from types import FrameType, TracebackType

from seekpoint.producers.durable.failures.failed_calls import recorded_text
from seekpoint.producers.durable.failures.recorded_failures import error_name, recorded_message
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.errors import InputMisfit, SeekpointError
from seekpoint.schemas.state.state_parts import Failure

_LINE_CHARACTERS_MAX = 200
_MESSAGE_CHARACTERS_MAX = 1_000
"""The longest message that a state keeps."""


def failure_origin(error: BaseException, before: Failure | None, settings: Settings) -> str | None:
    """Return file, line, function and source line of the newest frame that is not a library's; None without a frame.

    Without such a frame, return the newest library's, but of an input that does not fit the agent none. For a failure
    rebuilt from its record, return the origin that ``before`` has if that is the same failure.
    """
    text = recorded_text(error)
    if before is not None and text is not None and error_name(error, settings) == before.type:
        message = recorded_message(text)[:_MESSAGE_CHARACTERS_MAX]
        if before.message == message or (isinstance(error, SeekpointError) and before.message.startswith(message)):
            return before.where  # a SeekpointError's recorded message continues with its facts
    return None if isinstance(error, InputMisfit) else _origin(error)


def frames_from_own_code(error: BaseException) -> TracebackType | None:
    """Return the frames from the user's own code on: what called that is Seekpoint's, in every run. None if none is."""
    frames = error.__traceback__
    while frames is not None and _is_library(frames.tb_frame):
        frames = frames.tb_next
    return frames


def _origin(error: BaseException) -> str | None:
    frames = [*walk_tb(error.__traceback__)]
    own = [one for one in frames if not _is_library(one[0])]
    if not frames:
        return None
    frame, line = (own or frames)[-1]
    name = frame.f_code.co_filename
    code = linecache.getline(name, line, frame.f_globals).strip()
    place = f"{_shown(name)}:{line}, in {frame.f_code.co_qualname}"
    return f"{place}: {code[:_LINE_CHARACTERS_MAX]}" if code else place


def _is_library(frame: FrameType) -> bool:
    module, name = frame.f_globals.get("__name__", ""), frame.f_code.co_filename
    if module.partition(".")[0] == "seekpoint" or name.startswith("<frozen"):
        return True
    return "site-packages" in name or "dist-packages" in name or name.startswith(_STANDARD)


_STANDARD = os.path.dirname(os.__file__) + os.sep  # the standard library; sysconfig takes 2 ms to import


def _shown(name: str) -> str:
    """Return the path relative to the working directory, if it is below that."""
    here = os.getcwd() + os.sep
    return name[len(here) :] if name.startswith(here) else name
