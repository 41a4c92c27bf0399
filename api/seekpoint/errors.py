"""Every error that Seekpoint raises: the names of ``seekpoint.schemas.errors``."""

from seekpoint.schemas.errors import *
from seekpoint.schemas.errors import __all__ as __all__
