"""Test agents: the names of ``seekpoint.producers.testing``."""

from seekpoint.producers.testing import *
from seekpoint.producers.testing import __all__ as __all__
