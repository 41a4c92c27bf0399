"""How a process is run: what its writes become, how strictly its code is held to its history."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any

from seekpoint.schemas.errors import InvalidSetting
from seekpoint.schemas.frozen_struct import FrozenStruct

if TYPE_CHECKING:
    from seekpoint.producers.durable.steps.agent import Agent

__all__ = ["PLAIN", "Detail", "ReplayMode", "RunOptions", "conduct_of"]


class ReplayMode(StrEnum):
    """What happens where code asks something else than its history says."""

    STRICT = "strict"
    """``ReplayDivergence``: nothing is run."""
    PERMISSIVE = "permissive"
    """The nth equal request gets the nth answer from anywhere in the history; what has none runs, and is noted."""


class Detail(StrEnum):
    """How much of its content a process journals. Claims, calls, outcomes, signals and lifecycle always are."""

    FULL = "full"
    """Every change, as it is made."""
    CHECKPOINT = "checkpoint"
    """One entry with all changes at the end of a turn or an invocation, and at the end."""
    NONE = "none"
    """No content: it lives in the memory of the run, and code that runs again makes it again."""


class RunOptions(FrozenStruct, frozen=True, kw_only=True):
    """How one opening of a process is run."""

    agent: Agent | None = None
    """None: no agent's code runs; who opened it writes as he likes."""
    replay: ReplayMode = ReplayMode.STRICT
    detail: Detail = Detail.FULL


def conduct_of(agent: Agent | None, replay: str, detail: str) -> RunOptions:
    """How to run it, by the words for it. ``InvalidSetting`` for words that are none."""
    known: dict[str, Any] = {}
    for name, kind, given in (("replay", ReplayMode, replay), ("detail", Detail, detail)):
        words = [*map(str, kind)]
        if given not in words:
            raise InvalidSetting(f"no such {name}", found=repr(given)[:80], known=words)
        known[name] = kind(given)
    return RunOptions(agent=agent, **known)


PLAIN = RunOptions()
"""No agent, strict, everything journaled."""
