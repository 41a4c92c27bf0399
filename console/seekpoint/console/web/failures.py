"""Turn errors into statuses and answers of the API. No traceback and no secret leaves the server."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from seekpoint.schemas import errors
from seekpoint.schemas.errors import SeekpointError
from seekpoint.schemas.frozen_struct import FrozenStruct

_logger = logging.getLogger("seekpoint.console")

_STATUSES: dict[type[SeekpointError], int] = {
    errors.UnknownProcess: 404,
    errors.UnknownAttachment: 404,
    errors.UnknownPoint: 404,
    errors.InvalidName: 400,
    errors.InvalidOption: 400,
    errors.UnserializableValue: 400,
    errors.Refused: 409,
    errors.JournalGap: 410,
    errors.OperatorRequired: 409,
    errors.HandleLost: 409,
    errors.Retryable: 503,
}


class ApiError(FrozenStruct, frozen=True, kw_only=True):
    """An error as the API tells it: what went wrong, where, and what to do next."""

    code: str
    """The class of the error."""
    message: str
    advice: str = ""
    facts: dict[str, Any] = msgspec.field(default_factory=dict)


class ErrorAnswer(FrozenStruct, frozen=True, kw_only=True):
    """The answer of a call that failed."""

    error: ApiError


class BadRequest(Exception):
    """A request that the console does not take, with its status."""

    def __init__(
        self, status: int, code: str, message: str, advice: str = "", facts: dict[str, Any] | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.answer = ApiError(code=code, message=message, advice=advice, facts=facts or {})


def failure_of(error: Exception, scrub: Callable[[str], str]) -> tuple[int, ApiError]:
    """Return the status and the answer for an error. Log one that is not foreseen, without the secrets of settings."""
    if isinstance(error, BadRequest):
        return error.status, error.answer
    if isinstance(error, SeekpointError):
        facts = {name: plain_text(value, scrub) for name, value in error.facts.items()}
        status = next((_STATUSES[base] for base in type(error).__mro__ if base in _STATUSES), 409)
        return status, ApiError(
            code=type(error).__name__, message=scrub(error.message), advice=scrub(error.hint), facts=facts
        )
    log_unexpected(error, scrub)
    return 500, ApiError(
        code="Unexpected", message=f"unexpected {type(error).__name__}", advice="see the console's log"
    )


def log_unexpected(error: Exception, scrub: Callable[[str], str]) -> None:
    """Log an error that nobody foresaw: its class and its place, with ``--debug`` all of it. It may quote content."""
    place = traceback.extract_tb(error.__traceback__)[-1:]
    where = f" at {Path(place[0].filename).name}:{place[0].lineno}" if place else ""
    _logger.error("unexpected %s%s", type(error).__name__, where)
    _logger.debug("%s", scrub("".join(traceback.format_exception(error))))


def plain_text(value: Any, scrub: Callable[[str], str]) -> Any:
    """Return plain data for JSON, with every text scrubbed and no text that UTF-8 cannot carry."""
    if value is None or isinstance(value, bool | int | float):
        return value
    return scrub(str(value)).encode("utf-8", "backslashreplace").decode()
