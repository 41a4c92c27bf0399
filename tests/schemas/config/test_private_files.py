"""Private files, in places where other users may have created something before."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import pytest

from seekpoint.schemas.config.private_files import (
    free_lock,
    open_private,
    private_directory,
    private_tree,
    take_lock,
    write_private,
)

WRITE = os.O_RDWR | os.O_CREAT


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def loose() -> Any:
    """Set a umask that gives all rights to everybody."""
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """Return a file of the user that an attacker wants to be overwritten."""
    path = tmp_path / "victim"
    path.write_text("precious")
    return path


@pytest.mark.usefixtures("loose")
def test_new_and_existing_files_become_private(tmp_path: Path) -> None:
    """The umask does not matter, and an existing file loses its wider rights."""
    os.close(open_private(tmp_path / "a", WRITE))
    write_private(tmp_path / "b", "text")
    private_directory(tmp_path / "folder")
    (tmp_path / "old").write_text("kept")
    (tmp_path / "old-folder").mkdir()
    os.close(open_private(tmp_path / "old", WRITE))
    private_directory(tmp_path / "old-folder")
    assert {name: mode(tmp_path / name) for name in ("a", "b", "old")} == dict.fromkeys(("a", "b", "old"), 0o600)
    assert mode(tmp_path / "folder") == mode(tmp_path / "old-folder") == 0o700
    assert (tmp_path / "old").read_text() == "kept"


@pytest.mark.parametrize("flags", [os.O_RDONLY, os.O_WRONLY | os.O_APPEND | os.O_CREAT, WRITE])
def test_a_named_pipe_is_refused_without_blocking(tmp_path: Path, flags: int) -> None:
    """Nothing has opened its other end."""
    os.mkfifo(tmp_path / "pipe", 0o600)
    with pytest.raises(OSError, match=r"no file|No such device"):
        open_private(tmp_path / "pipe", flags)


def test_no_link_is_followed(tmp_path: Path, victim: Path) -> None:
    """Links to a file, to a folder and to nothing are refused."""
    link, nowhere, folder = tmp_path / "link", tmp_path / "nowhere", tmp_path / "folder"
    link.symlink_to(victim)
    nowhere.symlink_to(tmp_path / "not-yet")
    folder.symlink_to(tmp_path)
    for each in (link, nowhere):
        with pytest.raises(OSError, match="symbolic link"):
            open_private(each, WRITE)
    with pytest.raises(OSError, match="symbolic link"):
        private_directory(folder)
    assert not (tmp_path / "not-yet").exists()
    assert victim.read_text() == "precious"


def test_a_link_is_replaced_and_not_written_through(tmp_path: Path, victim: Path) -> None:
    """This holds for the name of the file and for the name of the temporary file."""
    for name in ("state", "state.new"):
        (tmp_path / name).symlink_to(victim)
    write_private(tmp_path / "state", "mine", sync=True)
    assert (tmp_path / "state").read_text() == "mine"
    assert not (tmp_path / "state").is_symlink()
    assert victim.read_text() == "precious"


def test_a_file_with_a_second_hard_link_is_not_written(tmp_path: Path, victim: Path) -> None:
    """A hard link is as dangerous as a symbolic one."""
    os.link(victim, tmp_path / "log")
    with pytest.raises(OSError, match="hard link"):
        open_private(tmp_path / "log", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    with pytest.raises(OSError, match="no file"):
        open_private("/dev/null", os.O_RDWR)


def test_a_file_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """That user could read it, or change it later."""
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(PermissionError, match="another user"):
        open_private(tmp_path / "file", WRITE)
    with pytest.raises(PermissionError, match="another user"):
        private_directory(tmp_path)


def test_a_private_tree_has_no_links_and_no_open_folders(tmp_path: Path, victim: Path) -> None:
    """This holds at any depth."""
    deep = tmp_path / "tree" / "a" / "b"
    deep.mkdir(parents=True)
    (deep / "file").write_text("")
    private_tree(tmp_path / "tree")
    assert [mode(each) for each in (deep, deep.parent, deep.parent.parent)] == [0o700] * 3
    (deep / "link").symlink_to(victim)
    with pytest.raises(OSError, match="symbolic link") as caught:
        private_tree(tmp_path / "tree")
    assert caught.value.filename == str(deep / "link")


def test_a_lock_has_one_holder_at_a_time(tmp_path: Path) -> None:
    """Two descriptors of one file are two holders."""
    first, second = (open_private(tmp_path / "lock", WRITE) for _ in range(2))
    assert take_lock(first)
    assert not take_lock(second)
    free_lock(first)
    assert take_lock(second)
    os.close(first)
    os.close(second)
