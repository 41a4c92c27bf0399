"""Reading a journal: recovery, the scan below it, dead letters, heartbeats, the projector and its view."""

from typing import TYPE_CHECKING, Any

from seekpoint.consumers.recovery.dead_letters import DeadLetter, DeadLetters
from seekpoint.consumers.recovery.process_history import Logged
from seekpoint.consumers.recovery.recoverer import Recoverer
from seekpoint.consumers.recovery.recovery import Recovery
from seekpoint.consumers.recovery.recovery_report import Recovered, Report
from seekpoint.consumers.recovery.tiers import Tier
from seekpoint.consumers.recovery.verification import Verification

if TYPE_CHECKING:
    from seekpoint.consumers import staging
    from seekpoint.consumers.projector.projector import Projector
    from seekpoint.consumers.staging import Replay
    from seekpoint.consumers.view.view_browser import View

__all__ = [
    "DeadLetter",
    "DeadLetters",
    "Logged",
    "Projector",
    "Recovered",
    "Recoverer",
    "Recovery",
    "Replay",
    "Report",
    "Tier",
    "Verification",
    "View",
    "staging",
]

# A node that starts needs none of these, and each costs it milliseconds between a crash and the next step.
_LATER = {
    "Projector": "seekpoint.consumers.projector.projector",
    "Replay": "seekpoint.consumers.staging",
    "View": "seekpoint.consumers.view.view_browser",
    "staging": "seekpoint.consumers.staging",
}


def __getattr__(name: str) -> Any:
    """``Projector``, ``View``, ``Replay`` and ``staging``, loaded when first asked for."""
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    module = import_module(_LATER[name])
    return module if module.__name__.endswith(f".{name}") else getattr(module, name)


def __dir__() -> list[str]:
    """Also what is not loaded yet: completion and ``help`` show the whole door."""
    return sorted({*globals(), *__all__})
