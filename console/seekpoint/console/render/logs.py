"""What the library logs, as talk on stderr: warnings, and with ``--debug`` everything."""

from __future__ import annotations

import logging

from seekpoint.console.render.command_errors import is_debug
from seekpoint.console.render.output import clean, say, warn

__all__ = ["show_logs"]


def show_logs(*names: str) -> None:
    """From here on the warnings of these loggers (none: of the library) are shown; again is fine."""
    for name in names or ("seekpoint",):
        logger = logging.getLogger(name)
        if not any(isinstance(handler, _Talk) for handler in logger.handlers):
            logger.addHandler(_Talk())
        logger.setLevel(logging.DEBUG if is_debug() else logging.WARNING)


class _Talk(logging.Handler):
    """One line a record. The Kafka client's own messages need ``--debug``: its failures come as errors anyway."""

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if is_debug():
            say(f"{record.levelname.lower()} {record.name}: {clean(text)}")
        elif "[rdkafka#" not in text:
            warn(text)
