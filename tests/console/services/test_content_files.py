"""Files with content of a journal, which a command writes where somebody says."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from seekpoint.console.services.content_files import write_content
from seekpoint.schemas.errors import Refused


@pytest.mark.parametrize("overwrite", [False, True])
def test_only_its_owner_can_read_it(tmp_path: Path, overwrite: bool) -> None:
    """Whatever the umask allows, and also where it replaces a file that others could read."""
    path = tmp_path / "scan.pdf"
    if overwrite:
        path.write_bytes(b"an older and longer content")
        path.chmod(0o644)
    before = os.umask(0)
    try:
        write_content(path, b"content", overwrite=overwrite)
    finally:
        os.umask(before)
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"content", 0o600)


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("link", [os.symlink, os.link], ids=["symbolic", "hard"])
def test_it_is_never_written_through_a_link(tmp_path: Path, link: object, overwrite: bool) -> None:
    """Another user of the folder would choose the file that is overwritten, or read the content."""
    path, other = tmp_path / "scan.pdf", tmp_path / "other"
    other.write_bytes(b"of somebody")
    link(other, path)  # type: ignore[operator]
    with pytest.raises(Refused, match="file") as caught:
        write_content(path, b"content", overwrite=overwrite)
    assert (other.read_bytes(), caught.value.file) == (b"of somebody", str(path))


def test_a_file_that_is_there_stays(tmp_path: Path) -> None:
    """Unless it is to be overwritten."""
    path = tmp_path / "scan.pdf"
    path.write_bytes(b"mine")
    with pytest.raises(Refused, match="the file exists"):
        write_content(path, b"content", overwrite=False)
    assert path.read_bytes() == b"mine"
    with pytest.raises(Refused, match="cannot be written"):
        write_content(tmp_path / "none" / "scan.pdf", b"content", overwrite=False)
