"""How all tests are imported in half of the time."""

from __future__ import annotations

import gc
from collections.abc import Generator

import pytest

__all__ = ["QuickCollection"]


class QuickCollection:
    """A plugin: import the tests while the garbage collector stands still, then hide them from it.

    They stay until the process ends, and each worker of ``scripts/test`` imports all of them. The collector would look
    at the growing heap again and again meanwhile, and at all of it each time that a test asks for a collection.
    """

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_collection(self) -> Generator[None, object, object]:
        """Collect the tests."""
        gc.disable()
        try:
            return (yield)
        finally:
            gc.freeze()
            gc.enable()
