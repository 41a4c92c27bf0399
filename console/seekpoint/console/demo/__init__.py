"""The demo: a fleet of agent nodes on a real Kafka, one of them killed, its work taken over, and a check of it all.

``run(Options(), Story())`` is what ``seekpoint demo`` does.
"""

from seekpoint.console.demo.conductor import DemoOptions, run
from seekpoint.console.demo.outcome import Outcome
from seekpoint.console.demo.story import Story

__all__ = ["DemoOptions", "Outcome", "Story", "run"]
