"""The texts of exceptions for logs, notes and journals, without the secrets of the settings."""

from __future__ import annotations

import traceback

from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.errors import SeekpointError

__all__ = ["TEXT_CHARACTERS_MAX", "error_line", "full_message", "message_of", "traceback_of"]

TEXT_CHARACTERS_MAX = 4_000
"""What is written of a text that an exception made: it must fit into an entry, whatever it is."""


def full_message(error: BaseException) -> str:
    """Return what an exception says, secrets included; the empty text if its ``__str__`` raises."""
    try:
        return error.message if isinstance(error, SeekpointError) else str(error)
    except Exception:  # a __str__ of the user's
        return ""


def message_of(error: BaseException, settings: Settings) -> str:
    """Return what an exception says, fit for an entry, whatever its ``__str__`` does."""
    return settings.excerpt(full_message(error), TEXT_CHARACTERS_MAX)


def error_line(error: BaseException, settings: Settings, characters_max: int = TEXT_CHARACTERS_MAX) -> str:
    """Return ``CLASS: message`` for logs, reasons and notes."""
    return settings.excerpt(f"{type(error).__name__}: {full_message(error)}", characters_max)


def traceback_of(error: BaseException, settings: Settings, characters_max: int = TEXT_CHARACTERS_MAX) -> str:
    """Return the traceback with all causes: its end, where it is long. That is where the error is."""
    try:
        text = "".join(traceback.format_exception(error))
    except Exception:  # a __str__ of the user's
        text = "".join(traceback.format_tb(error.__traceback__))
    return settings.scrub(text)[-characters_max:].encode("utf-8", "replace").decode()
