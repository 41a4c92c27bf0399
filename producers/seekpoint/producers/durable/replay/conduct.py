"""How a process runs: how much content it journals, and how strictly a replay compares code with the history."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any

from seekpoint.schemas.errors import InvalidSetting
from seekpoint.schemas.frozen_struct import FrozenStruct

if TYPE_CHECKING:
    from seekpoint.producers.durable.steps.agent import Agent


class ReplayMode(StrEnum):
    """The consequences of a request that differs from the history."""

    STRICT = "strict"
    """Raise ``ReplayDivergence``; execute nothing."""
    PERMISSIVE = "permissive"
    """Give the nth equal request the nth recorded answer; execute and record a request that has none."""


class Detail(StrEnum):
    """The part of its content that a process journals, besides claims, calls, outcomes, signals and lifecycle."""

    FULL = "full"
    """Every change, when it is made."""
    CHECKPOINT = "checkpoint"
    """One entry with all changes at the end of a turn, of an invocation and of the run."""
    NONE = "none"
    """No content: it lives in the memory of the run, and a replay makes it again."""


class RunOptions(FrozenStruct, frozen=True, kw_only=True):
    """The options of one opening of a process."""

    agent: Agent | None = None
    """The agent whose code runs; None if a program writes without one."""
    replay: ReplayMode = ReplayMode.STRICT
    detail: Detail = Detail.FULL
    spawned_by: str | None = None
    """The process whose child this one is, if it begins now."""


def conduct_of(agent: Agent | None, replay: str, detail: str, spawned_by: str | None = None) -> RunOptions:
    """Return the options for the given names. Raise ``InvalidSetting`` for an unknown name."""
    known: dict[str, Any] = {}
    for name, kind, given in (("replay", ReplayMode, replay), ("detail", Detail, detail)):
        try:
            known[name] = kind(given)
        except ValueError:
            raise InvalidSetting(f"no such {name}", found=repr(given)[:80], known=[*map(str, kind)]) from None
    return RunOptions(agent=agent, spawned_by=spawned_by, **known)


PLAIN = RunOptions()
"""No agent, strict replay, all content journaled."""
