"""Unpack the archives of tests/adapters/sdists.txt, and run the tests in them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

__all__ = ["deselected", "passed_in_suite", "unpack_suite"]

FOLDER = Path(__file__).parent


def unpack_suite(name: str, folder: Path) -> Path:
    """Unpack the archive ``name`` (``NAME-VERSION``), fetched by scripts/test, into ``folder``; return its own."""
    archive = Path(sys.prefix) / "suites" / f"{name}.tar.gz"
    assert archive.exists(), "scripts/test fetches it: see tests/adapters/sdists.txt"
    with tarfile.open(archive) as packed:
        # Python has the filter from 3.11.4 on. The archives are pinned by their hashes.
        packed.extraction_filter = getattr(tarfile, "data_filter", lambda member, path: member)
        packed.extractall(folder)
    return folder / name


def deselected(file: Path) -> list[str]:
    """Return the tests that a file lists, without its comments."""
    return [line for line in file.read_text().splitlines() if line and not line.startswith("#")]


def passed_in_suite(
    sources: Path,
    plugin: str,
    files: Iterable[str],
    mode: str,
    *,
    path: Sequence[Path],
    left_out: Iterable[str] = (),
    options: Sequence[str] = (),
    timeout_s: float = 900,
    environ: Mapping[str, str],
) -> int:
    """Run a suite's tests in a program of their own, and return how many have passed. A failure or an error fails.

    ``plugin`` puts our class in the place of the suite's, in the way that ``mode`` says; ``path`` has its folder.
    """
    words = [word for name in left_out for word in ("--deselect", f"tests/{name}")]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", plugin, "-p", "no:cacheprovider", "-q", "--tb=short", *options,
         *words, *(f"tests/{file}" for file in files)],
        cwd=sources, capture_output=True, text=True, timeout=timeout_s, check=False,
        env={**os.environ, **environ, "SUITE_MODE": mode, "PYTHONPATH": os.pathsep.join(map(str, [*path, FOLDER]))},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    found = re.search(r"(\d+) passed", done.stdout)
    assert found is not None, done.stdout
    return int(found[1])
