"""The garbage collector while tests are imported, and while they run."""

from __future__ import annotations

import gc

WAS_ENABLED = gc.isenabled()
"""As this file was imported."""


def test_the_collector_stands_still_only_while_tests_are_imported() -> None:
    """It does not look at what was imported then."""
    assert not WAS_ENABLED
    assert gc.isenabled()
    assert gc.get_freeze_count() > 100_000
