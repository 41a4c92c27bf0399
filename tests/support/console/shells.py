"""What a test of the command line runs, and what it gets back."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Protocol

__all__ = ["Ran", "Shell"]


@dataclass(frozen=True)
class Ran:
    """What a command did."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The document it printed."""
        return json.loads(self.out)


class Shell(Protocol):
    """Runs ``seekpoint`` with arguments."""

    def __call__(self, *arguments: str) -> Ran: ...
