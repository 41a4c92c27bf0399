"""Read a journal: recovery, dead letters, the projector and its view, and replays into staging."""

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
    from seekpoint.consumers.reactors.reaction import Reaction, Reactor, reactor
    from seekpoint.consumers.reactors.reactor_service import ReactorService
    from seekpoint.consumers.staging import Replay
    from seekpoint.consumers.view.view_browser import View

__all__ = [
    "DeadLetter",
    "DeadLetters",
    "Logged",
    "Projector",
    "Reaction",
    "Reactor",
    "ReactorService",
    "Recovered",
    "Recoverer",
    "Recovery",
    "Replay",
    "Report",
    "Tier",
    "Verification",
    "View",
    "reactor",
    "staging",
]

# A starting node needs none of these, and each import delays the first step after a crash by milliseconds.
_LATER = {
    "Projector": "seekpoint.consumers.projector.projector",
    "Reaction": "seekpoint.consumers.reactors.reaction",
    "Reactor": "seekpoint.consumers.reactors.reaction",
    "ReactorService": "seekpoint.consumers.reactors.reactor_service",
    "reactor": "seekpoint.consumers.reactors.reaction",
    "Replay": "seekpoint.consumers.staging",
    "View": "seekpoint.consumers.view.view_browser",
    "staging": "seekpoint.consumers.staging",
}


def __getattr__(name: str) -> Any:
    """Load ``Projector``, ``View``, ``Replay`` or ``staging`` on first use."""
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    module = import_module(_LATER[name])
    return module if module.__name__.endswith(f".{name}") else getattr(module, name)


def __dir__() -> list[str]:
    """Return all public names, so that completion and ``help`` also show those that are not loaded yet."""
    return sorted({*globals(), *__all__})
