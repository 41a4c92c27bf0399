"""The demo: run agent nodes on a real Kafka, kill one, let the others take over its work, and check the result.

``run(Options(), Story())`` is what ``seekpoint demo`` does.
"""

from seekpoint.console.demo.conductor import DemoOptions, run
from seekpoint.console.demo.outcome import Outcome
from seekpoint.console.demo.story import Story

__all__ = ["DemoOptions", "Outcome", "Story", "run"]
