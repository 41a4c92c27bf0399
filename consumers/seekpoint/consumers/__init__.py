"""Reading a journal: recovery, the scan below it, dead letters, heartbeats."""

from seekpoint.consumers.deadletters import DeadLetter, DeadLetters
from seekpoint.consumers.history import Logged
from seekpoint.consumers.recoverer import Recoverer
from seekpoint.consumers.recovery import Recovery
from seekpoint.consumers.report import Recovered, Report
from seekpoint.consumers.tiers import Tier
from seekpoint.consumers.verification import Verification
from seekpoint.consumers.view import View

__all__ = [
    "DeadLetter",
    "DeadLetters",
    "Logged",
    "Recovered",
    "Recoverer",
    "Recovery",
    "Report",
    "Tier",
    "Verification",
    "View",
]
