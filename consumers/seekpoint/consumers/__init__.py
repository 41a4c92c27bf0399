"""Reading a journal: recovery, the scan below it, dead letters, heartbeats, the projector and its view."""

from typing import TYPE_CHECKING, Any

from seekpoint.consumers.deadletters import DeadLetter, DeadLetters
from seekpoint.consumers.history import Logged
from seekpoint.consumers.recoverer import Recoverer
from seekpoint.consumers.recovery import Recovery
from seekpoint.consumers.report import Recovered, Report
from seekpoint.consumers.tiers import Tier
from seekpoint.consumers.verification import Verification

if TYPE_CHECKING:
    from seekpoint.consumers.projector import Projector
    from seekpoint.consumers.view import View

__all__ = [
    "DeadLetter",
    "DeadLetters",
    "Logged",
    "Projector",
    "Recovered",
    "Recoverer",
    "Recovery",
    "Report",
    "Tier",
    "Verification",
    "View",
]

# A node that starts needs neither, and each costs it milliseconds between a crash and the next step.
_LATER = {"Projector": "seekpoint.consumers.projector", "View": "seekpoint.consumers.view"}


def __getattr__(name: str) -> Any:
    """``Projector`` and ``View``, loaded when first asked for."""
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_LATER[name]), name)
