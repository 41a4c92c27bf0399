"""Read a journal: recovery, dead letters, the projector and its view, and replays into staging."""

from typing import TYPE_CHECKING

from seekpoint.schemas.late_names import late_names

if TYPE_CHECKING:
    from seekpoint.consumers import staging
    from seekpoint.consumers.projector.projector import Projector
    from seekpoint.consumers.reactors.reactor import Reaction, Reactor, reactor
    from seekpoint.consumers.reactors.reactor_service import ReactorService
    from seekpoint.consumers.recovery.dead_letters import DeadLetter, DeadLetters
    from seekpoint.consumers.recovery.process_history import Logged
    from seekpoint.consumers.recovery.recoverer import Recoverer
    from seekpoint.consumers.recovery.recovery import Recovery
    from seekpoint.consumers.recovery.recovery_report import Recovered, Report
    from seekpoint.consumers.recovery.tiers import Tier
    from seekpoint.consumers.recovery.verification import Verification
    from seekpoint.consumers.staging import Replay
    from seekpoint.consumers.view_browser import View
else:  # loaded at first use
    __getattr__, __dir__ = late_names(
        __name__,
        {
            "DeadLetter": "seekpoint.consumers.recovery.dead_letters",
            "DeadLetters": "seekpoint.consumers.recovery.dead_letters",
            "Logged": "seekpoint.consumers.recovery.process_history",
            "Projector": "seekpoint.consumers.projector.projector",
            "Reaction": "seekpoint.consumers.reactors.reactor",
            "Reactor": "seekpoint.consumers.reactors.reactor",
            "ReactorService": "seekpoint.consumers.reactors.reactor_service",
            "Recovered": "seekpoint.consumers.recovery.recovery_report",
            "Recoverer": "seekpoint.consumers.recovery.recoverer",
            "Recovery": "seekpoint.consumers.recovery.recovery",
            "Replay": "seekpoint.consumers.staging",
            "Report": "seekpoint.consumers.recovery.recovery_report",
            "Tier": "seekpoint.consumers.recovery.tiers",
            "Verification": "seekpoint.consumers.recovery.verification",
            "View": "seekpoint.consumers.view_browser",
            "reactor": "seekpoint.consumers.reactors.reactor",
            "staging": "seekpoint.consumers.staging",
        },
    )

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
