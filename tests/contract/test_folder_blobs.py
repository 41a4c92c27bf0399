"""A folder keeps the promises of a blob store."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

import pytest

from blob_store_contract import DIGEST, FOLDER, BlobStoreContract
from seekpoint.consumers.blobs.folder_blobs import FolderBlobs
from seekpoint.schemas.errors import BlobStoreUnavailable


@pytest.fixture
def store(tmp_path: Path) -> FolderBlobs:
    """An empty one."""
    (tmp_path / "blobs").mkdir()
    return FolderBlobs(tmp_path / "blobs")


class TestFolderBlobs(BlobStoreContract):
    """Inherited."""


def test_a_file_is_private_and_whole(store: FolderBlobs, tmp_path: Path) -> None:
    """No reader sees a part of it, and nothing is left of a write that failed."""
    store.put(FOLDER, DIGEST, b"bytes")
    [file] = [one for one in (tmp_path / "blobs").rglob("*") if one.is_file()]
    assert file.name == DIGEST
    assert file.stat().st_mode & 0o077 == 0


def test_a_write_that_fails_leaves_nothing(store: FolderBlobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk, for example."""

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(BlobStoreUnavailable, match="No space left"):
        store.put(FOLDER, DIGEST, b"bytes")
    assert [one for one in (tmp_path / "blobs").rglob("*") if one.is_file()] == []
    monkeypatch.undo()
    assert store.get(FOLDER, DIGEST) is None


def test_an_erasure_goes_on_where_its_folder_is_made_again(store: FolderBlobs, monkeypatch: pytest.MonkeyPatch) -> None:
    """``shutil.rmtree`` takes a folder that was replaced between its two looks for a link."""
    failures = [OSError("Cannot call rmtree on a symbolic link"), OSError(errno.ENOTEMPTY, "Directory not empty")]
    rmtree = shutil.rmtree

    def replaced_meanwhile(path: Path) -> None:
        if failures:
            raise failures.pop()
        rmtree(path)

    monkeypatch.setattr(shutil, "rmtree", replaced_meanwhile)
    store.put(FOLDER, DIGEST, b"bytes")
    assert store.erase(FOLDER) == 1
    assert (failures, store.names(FOLDER)) == ([], [])


def test_a_put_makes_its_folder_again_when_another_call_erases_it(
    store: FolderBlobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``mkdir`` raises ``FileExistsError`` when the folder was there, and was erased before it could look."""
    failures: list[OSError] = [FileExistsError(17, "File exists"), FileNotFoundError(2, "No such file")] * 10
    mkdir = Path.mkdir

    def erased_meanwhile(path: Path, mode: int = 0o777, parents: bool = False, exist_ok: bool = False) -> None:
        if failures:
            raise failures.pop()
        mkdir(path, mode, parents, exist_ok)

    monkeypatch.setattr(Path, "mkdir", erased_meanwhile)
    store.put(FOLDER, DIGEST, b"bytes")
    assert (store.get(FOLDER, DIGEST), failures) == (b"bytes", [])


def test_a_folder_that_is_gone_is_no_empty_store(tmp_path: Path) -> None:
    """A file system that is not mounted must not look as if the bytes were lost."""
    with pytest.raises(BlobStoreUnavailable, match="not there"):
        FolderBlobs(tmp_path / "nothing").get(FOLDER, DIGEST)
    with pytest.raises(BlobStoreUnavailable, match="not there"):
        FolderBlobs(tmp_path / "nothing").names(FOLDER)


def test_nothing_is_left_of_a_process(store: FolderBlobs, tmp_path: Path) -> None:
    """Its own folder goes with the last one in it."""
    for number in range(2):
        store.put(f"{FOLDER}/{number}", DIGEST, b"bytes")
    store.erase(f"{FOLDER}/0")
    assert store.get(f"{FOLDER}/1", DIGEST) == b"bytes"
    store.erase(f"{FOLDER}/1")
    assert [*(tmp_path / "blobs").iterdir()] == []
