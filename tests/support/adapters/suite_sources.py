"""The archives of tests/adapters/sdists.txt, unpacked."""

from __future__ import annotations

import sys
import tarfile
from pathlib import Path

__all__ = ["unpack_suite"]


def unpack_suite(name: str, folder: Path) -> Path:
    """Unpack the archive ``name`` (``NAME-VERSION``), fetched by scripts/test, into ``folder``; return its own."""
    archive = Path(sys.prefix) / "suites" / f"{name}.tar.gz"
    assert archive.exists(), "scripts/test fetches it: see tests/adapters/sdists.txt"
    with tarfile.open(archive) as packed:
        # Python has the filter from 3.11.4 on. The archives are pinned by their hashes.
        packed.extraction_filter = getattr(tarfile, "data_filter", lambda member, path: member)
        packed.extractall(folder)
    return folder / name
