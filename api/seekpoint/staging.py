"""Replay into staging: the names of ``seekpoint.consumers.staging``."""

from seekpoint.consumers.staging import *
from seekpoint.consumers.staging import __all__ as __all__
