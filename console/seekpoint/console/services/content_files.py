"""Files with content of a journal, at paths that people name."""

from __future__ import annotations

import os
from pathlib import Path


def write_content(path: Path, data: bytes, *, overwrite: bool) -> None:
    """Write a file that only its owner can read, never through a link. Raises ``Refused``."""
    from seekpoint.schemas.config.private_files import open_private
    from seekpoint.schemas.errors import Refused

    try:
        descriptor = open_private(path, os.O_WRONLY | os.O_CREAT | (0 if overwrite else os.O_EXCL))
        with os.fdopen(descriptor, "wb") as file:
            file.truncate()
            file.write(data)
    except FileExistsError as exc:
        raise Refused(
            "the file exists, or is no ordinary file", file=str(path), hint="name another one, or give --overwrite"
        ) from exc
    except OSError as exc:
        raise Refused(f"the file cannot be written: {exc.strerror}", file=str(path)) from exc
