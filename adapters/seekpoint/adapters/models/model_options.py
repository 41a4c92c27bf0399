"""Declare the options that all wrapped clients have."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, TypedDict

from seekpoint import Retry, Usage


class ModelOptions(TypedDict, total=False):
    """The options of each decision that a wrapped client makes; ``process.decide`` explains them."""

    retry: Retry | None
    timeout: float | timedelta | None
    usage: Callable[[Any], Usage | None] | Usage | None
    policy: str | None
    estimate: Mapping[str, Any] | None
