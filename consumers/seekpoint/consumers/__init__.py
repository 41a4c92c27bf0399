"""Reading a journal: recovery, the scan below it, dead letters, heartbeats."""

from seekpoint.consumers.recoverer import Recoverer
from seekpoint.consumers.report import Recovered, Report
from seekpoint.consumers.tiers import Tier

__all__ = ["Recovered", "Recoverer", "Report", "Tier"]
