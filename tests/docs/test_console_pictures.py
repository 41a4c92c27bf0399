"""The pictures of the web console in the README and on the pages."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from _console_pictures import FOLDER, PICTURES, Picture

ROOT = FOLDER.parent.parent
_NAMED = re.compile(r"[\w./-]*pictures/([\w-]+)\.png")


def named(page: Path) -> dict[str, Path]:
    """Return the pictures that a page names, with the files that it means."""
    return {found[1]: (page.parent / found[0]).resolve() for found in _NAMED.finditer(page.read_text())}


def test_each_picture_of_a_page_is_one_of_the_scripts() -> None:
    """And each that the script takes is on a page."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    found = {name: path for page in pages for name, path in named(page).items()}
    assert found == {one.name: FOLDER / f"{one.name}.png" for one in PICTURES}
    assert {path.stem for path in FOLDER.glob("*.png")} == set(found)
    assert "console-timeline" in named(ROOT / "README.md")


@pytest.mark.parametrize("picture", PICTURES, ids=lambda one: one.name)
def test_a_picture_is_small(picture: Picture) -> None:
    """It is a PNG with a palette, of less than 150 KiB."""
    content = (FOLDER / f"{picture.name}.png").read_bytes()
    assert content.startswith(b"\x89PNG\r\n\x1a\n")
    assert content[25] == 3
    assert len(content) < 150 * 1024
