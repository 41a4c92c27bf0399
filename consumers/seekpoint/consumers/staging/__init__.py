"""Staging replay: a topic's records into a staging topic or a file; masked, slowed down, renamed, or as they are.

>>> from seekpoint.consumers.staging import MemoryTopic, Plan, Replay, Selection
"""

from seekpoint.consumers.staging.capture import CaptureFile
from seekpoint.consumers.staging.capture_target import CaptureTarget
from seekpoint.consumers.staging.mask_rules import MaskRules
from seekpoint.consumers.staging.memory_topic import MemoryTopic
from seekpoint.consumers.staging.pace import Pace
from seekpoint.consumers.staging.partitioning import Partitions
from seekpoint.consumers.staging.plan import Plan
from seekpoint.consumers.staging.replay import Replay
from seekpoint.consumers.staging.report import ReplayReport
from seekpoint.consumers.staging.selection import Selection, parse_offsets

__all__ = [
    "CaptureFile",
    "CaptureTarget",
    "MaskRules",
    "MemoryTopic",
    "Pace",
    "Partitions",
    "Plan",
    "Replay",
    "ReplayReport",
    "Selection",
    "parse_offsets",
]
