"""Staging replay: copy the records of a topic to a staging topic or a file, unchanged or masked, renamed and paced.

>>> from seekpoint.consumers.staging import MemoryTopic, Plan, Replay, Selection
"""

from seekpoint.consumers.staging.capture.capture_file import CaptureFile
from seekpoint.consumers.staging.capture.capture_target import CaptureTarget
from seekpoint.consumers.staging.copy.memory_topic import MemoryTopic
from seekpoint.consumers.staging.copy.pace import Pace
from seekpoint.consumers.staging.copy.partitioning import Partitions
from seekpoint.consumers.staging.copy.selection import Selection, parse_offsets
from seekpoint.consumers.staging.masks.mask_rules import MaskRules
from seekpoint.consumers.staging.replay_plan import Plan
from seekpoint.consumers.staging.replay_report import ReplayReport
from seekpoint.consumers.staging.staging_replay import Replay

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
