"""Suggest the process or the journal that a mistyped name may have meant."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from seekpoint.console.services.arguments.completion import ids_in_view
from seekpoint.console.services.arguments.target import CommandTarget
from seekpoint.schemas.errors import JournalMismatch, SeekpointError, UnknownProcess
from seekpoint.schemas.values.near_names import did_you_mean

_PAGE_SIZE = 500


def suggest_name(target: CommandTarget, error: Exception) -> None:
    """Put the most similar process id on the first page of the view, or the most similar journal, into the hint."""
    if isinstance(error, UnknownProcess) and error.process_id is not None:
        error.hint = did_you_mean(error.process_id, _names(_ids(target)), error.hint)
    elif isinstance(error, JournalMismatch) and error.journal is not None and "is not there" in error.message:
        error.hint = did_you_mean(error.journal, _names(_journals(target)), error.hint)


def _ids(target: CommandTarget) -> Iterator[str]:
    yield from ids_in_view(target, "", _PAGE_SIZE)


def _journals(target: CommandTarget) -> Iterator[str]:
    from seekpoint.compose.topic_admin import TopicAdmin

    yield from TopicAdmin(target.require_kafka()).journals()


def _names(found: Iterable[str]) -> list[str]:
    try:
        return list(found)
    except SeekpointError:  # the error is useful without a suggestion
        return []
