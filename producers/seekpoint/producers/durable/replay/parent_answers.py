"""Note which records of its parent have answered the calls of a fork: the answers leave no entries of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from seekpoint.producers.durable.replay.scopes import PARENTS
from seekpoint.schemas import bodies as b
from seekpoint.schemas.values.json_values import dump

if TYPE_CHECKING:
    from seekpoint.producers.durable.durable_process import DurableProcess


def note_parent_answers(process: DurableProcess) -> None:
    """Journal the keys, in the parent, of the calls that have answered since the last note."""
    matcher = process.matcher
    answered = matcher.asked_aside - matcher.noted
    keys = [key for key in answered if key.startswith(PARENTS)]
    if keys:
        matcher.noted |= answered
        keys.sort(key=lambda key: matcher.records[key].seq)
        process.send(b.ParentAnswered(dump([key.removeprefix(PARENTS) for key in keys], process.limits)))
