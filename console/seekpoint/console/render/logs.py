"""Show the library's log records on stderr: warnings, and with ``--debug`` all records."""

from __future__ import annotations

import logging

from seekpoint.console.render.command_errors import is_debug
from seekpoint.console.render.output import clean, say, warn


def show_logs(*names: str) -> None:
    """Show the warnings of these loggers, by default of the library. Calling it again changes nothing."""
    for name in names or ("seekpoint",):
        logger = logging.getLogger(name)
        if not any(isinstance(handler, _StderrHandler) for handler in logger.handlers):
            logger.addHandler(_StderrHandler())
        logger.setLevel(logging.DEBUG if is_debug() else logging.WARNING)


class _StderrHandler(logging.Handler):
    """A handler that prints one line per record. The Kafka client's messages need ``--debug``."""

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if is_debug():
            say(f"{record.levelname.lower()} {record.name}: {clean(text)}")
        elif record.levelno < logging.WARNING:
            say(clean(text))
        elif "[rdkafka#" not in text:
            warn(text)
