"""Folds of your own: the names of ``seekpoint.schemas.folds``."""

from seekpoint.schemas.folds import *
from seekpoint.schemas.folds import __all__ as __all__
