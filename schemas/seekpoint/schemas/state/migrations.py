"""States of older folds, made states of this one: a step from each fold version to the next, and no other way.

Whoever raises ``FOLD_VERSION`` adds the step from the version before, and keeps the golden file of the release that
wrote it: checkpoints of every fold there ever was are read for ever.

    @step(1)
    def with_budgets(whole: dict[str, Any]) -> dict[str, Any]:
        return {**whole, "budget": None}

A step that cannot be made from a state alone raises ``ValueError``: then the state is folded anew from the log.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson

from seekpoint.schemas.errors import NewerFormat

FOLD_VERSION = 2
"""Raised whenever the same entries give another state; written into every checkpoint. The steps are below.

Whoever raises it raises ``manifest.FORMAT`` too: a newer format in the manifest or in a registered schema is what tells
a reader that states of a newer fold are to be expected.
"""

Step = Callable[[dict[str, Any]], dict[str, Any]]
"""Gets what ``State.to_bytes`` wrote, as JSON values, and gives what the next fold would have written."""

STEPS: dict[int, Step] = {}
"""By the fold version that they lead away from."""


def step(version: int) -> Callable[[Step], Step]:
    """Register the step from ``version`` to the next one."""

    def register(made: Step) -> Step:
        if version in STEPS:
            raise ValueError(f"there is a step from fold version {version}")
        STEPS[version] = made
        return made

    return register


@step(1)
def _same(whole: dict[str, Any]) -> dict[str, Any]:
    """Format 2 only adds fields, and each has a default."""
    return whole


def fold_version_in(state_json: str) -> int:
    """Return the fold version in the text of a state; 0 if it has none."""
    try:
        version = orjson.loads(state_json)["fold_version"]
    except (ValueError, LookupError, TypeError):
        return 0
    return version if type(version) is int else 0


def converted(whole: dict[str, Any], newest: int) -> dict[str, Any]:
    """Return ``whole`` in the form of fold version ``newest``.

    Raises ``NewerFormat`` if it is newer, ``LookupError`` if no step converts it, and what the steps raise.
    """
    version = whole["fold_version"]
    if type(version) is not int:
        raise TypeError("a fold version is a number")
    if version > newest:
        raise NewerFormat("a state of a newer fold than this one", found=version, known=newest)
    while version < newest:
        if version not in STEPS:
            raise LookupError(f"no step leads from fold version {version} to the next")
        version += 1
        whole = {**STEPS[version - 1](whole), "fold_version": version}
    return whole
