"""The files of ``templates/``: each is used, each that is named is there, and their folders stay small."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from seekpoint.console.web import rendering

WEB = Path(rendering.__file__).parent
FOLDER = WEB / "templates"
FILES = {file.relative_to(FOLDER).as_posix(): file for file in FOLDER.rglob("*") if file.is_file()}
MOST = 20
_NAME = re.compile(r'f?"([\w{}/]+\.html)"')


def test_each_template_that_is_named_is_there_and_each_is_named() -> None:
    """Modules name pages and parts; templates name what they extend, include and import."""
    sources = [*WEB.rglob("*.py"), *FILES.values()]
    named = {name for source in sources for name in _NAME.findall(source.read_text())}
    patterns = [re.compile(re.sub(r"\{\w+\}", r"\\w+", name)) for name in named]
    assert {name for name in FILES if not any(one.fullmatch(name) for one in patterns)} == set()
    assert [one.pattern for one in patterns if not any(one.fullmatch(name) for name in FILES)] == []


def test_a_folder_of_templates_stays_small() -> None:
    """A reader finds a page in the folder that is named after what it shows."""
    counted = Counter(file.parent.name for file in FILES.values())
    assert {name: count for name, count in counted.items() if count > MOST} == {}
