"""The texts of exceptions for logs, notes and journals, without the secrets of the settings."""

from __future__ import annotations

import traceback
from types import TracebackType

from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.errors import SeekpointError

TEXT_CHARACTERS_MAX = 4_000
"""The length to which the text of an exception is cut, so that it fits into an entry."""


def full_message(error: BaseException) -> str:
    """Return the message of an exception, secrets included; the empty text if its ``__str__`` raises."""
    try:
        return error.message if isinstance(error, SeekpointError) else str(error)
    except Exception:  # from a user's __str__
        return ""


def message_of(error: BaseException, settings: Settings) -> str:
    """Return the message of an exception without secrets, short enough for an entry, even if its ``__str__`` raises."""
    return settings.excerpt(full_message(error), TEXT_CHARACTERS_MAX)


def error_line(error: BaseException, settings: Settings, characters_max: int = TEXT_CHARACTERS_MAX) -> str:
    """Return ``CLASS: message`` without secrets, for logs, reasons and notes."""
    return settings.excerpt(f"{type(error).__name__}: {full_message(error)}", characters_max)


def traceback_of(
    error: BaseException,
    settings: Settings,
    characters_max: int = TEXT_CHARACTERS_MAX,
    frames: TracebackType | None = None,
) -> str:
    """Return the traceback with all causes, without secrets. Of a long one, return the end, which has the error.

    ``frames`` is the part of the error's frames that is wanted: all of them, if none.
    """
    frames = frames or error.__traceback__
    try:
        text = "".join(traceback.format_exception(type(error), error, frames))
    except Exception:  # from a user's __str__
        text = "".join(traceback.format_tb(frames))
    return settings.scrub(text)[-characters_max:].encode("utf-8", "replace").decode()
