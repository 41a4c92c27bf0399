"""Kills ``seekpoint import`` with -9 at random moments, and repeats it until it ends."""

from __future__ import annotations

import os
import random
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

__all__ = ["KilledImport", "import_with_kills"]

_LIMIT_S = 60.0
_TOO_EARLY_MAX = 20


@dataclass
class KilledImport:
    """An import that was killed and repeated."""

    kills: int
    """How many programs were killed after they had begun to write, and before they ended."""
    report: Any


def import_with_kills(words: Sequence[str], journal: Path, *, kills: int, seed: int) -> KilledImport:
    """Run the command with ``--json``; kill it ``kills`` times, each time some bytes of the journal later.

    If it ends before, the journal is removed, and the import begins anew.
    """
    chance, done, too_early = random.Random(seed), 0, 0
    command = ["seekpoint", "import", *words, "--json", "--journal-url", f"sqlite:///{journal}"]
    while done < kills:
        program = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        try:
            if _has_written(program, journal, chance.randint(1, 60_000)):
                time.sleep(chance.uniform(0.0, 0.02))
                done += program.poll() is None
        finally:
            program.kill()
            program.communicate()
        if program.returncode == 0:  # it was faster than its killer
            too_early += 1
            assert too_early < _TOO_EARLY_MAX, "the import ends before it can be killed: give it more to do"
            for path in (journal, Path(f"{journal}-wal"), Path(f"{journal}-shm")):
                path.unlink(missing_ok=True)
    last = subprocess.run(command, stdout=subprocess.PIPE, timeout=_LIMIT_S, check=False)
    return KilledImport(done, orjson.loads(last.stdout))


def _has_written(program: subprocess.Popen[bytes], journal: Path, more: int) -> bool:
    """Wait until the journal has grown by ``more`` bytes; return whether the program still runs."""
    before, deadline = _size(journal), time.monotonic() + _LIMIT_S
    while program.poll() is None:
        if _size(journal) >= before + more:
            return True
        assert time.monotonic() < deadline, "the import does not get on"
        time.sleep(0.001)
    return False


def _size(journal: Path) -> int:
    return sum(os.path.getsize(path) for path in (journal, Path(f"{journal}-wal")) if path.exists())
