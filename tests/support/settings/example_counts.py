"""How many examples a law is tried with: fewer where every push waits for them, all in the script for long tests."""

from __future__ import annotations

import os

__all__ = ["examples"]


def examples(most: int) -> int:
    """Return ``most`` under scripts/faults, which sets HYPOTHESIS_EXAMPLES, and a quarter of it elsewhere."""
    return most if os.environ.get("HYPOTHESIS_EXAMPLES") == "all" else max(1, most // 4)
