"""``python -m seekpoint.console`` is ``seekpoint``."""

import sys

from seekpoint.console.entry_point import main

if __name__ == "__main__":
    sys.exit(main())
