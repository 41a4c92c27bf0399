"""Files that are written: what is there already stays, and what the system says is said in our words."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from seekpoint.schemas.errors import ReplayRefused

__all__ = ["beside", "refuse_existing", "unwritable", "writing"]


def refuse_existing(path: Path, *, overwrite: bool) -> None:
    """Raise ``ReplayRefused`` for a file that is there, unless it may be replaced: it may be the only copy."""
    if not overwrite and path.exists():
        hint = "name another file, or replace this one: --overwrite"
        raise ReplayRefused("there is a file of this name", path=str(path), hint=hint)


@contextmanager
def writing(what: str, path: Path) -> Iterator[None]:
    """Raises ``ReplayRefused`` with the path, if the system refuses (no such folder, no space, no right)."""
    try:
        yield
    except OSError as exc:
        raise unwritable(what, path, exc) from exc


def unwritable(what: str, path: Path, error: OSError) -> ReplayRefused:
    """The same, for who writes so often that a ``with`` around it costs."""
    return ReplayRefused(f"{what} cannot be written: {error.strerror}", path=str(path))


def beside(path: Path) -> Path:
    """What a file is called until it is whole."""
    return path.with_name(path.name + ".part")
