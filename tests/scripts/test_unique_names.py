"""One word has one meaning: no two files and no two classes have one name. Two adapters may use a name for one role."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable
from functools import cache
from pathlib import Path

CHECKOUT = Path(__file__).parents[2]
ROOTS = ("schemas", "consumers", "producers", "compose", "console")
WITHOUT_A_NAME = {"__init__", "__main__"}


@cache
def names_in(file: Path) -> tuple[str, ...]:
    """Return the name of a file, and those of the classes at its top level."""
    names = [f"file {file.stem}"] if file.stem not in WITHOUT_A_NAME else []
    names += [f"class {node.name}" for node in ast.parse(file.read_text()).body if isinstance(node, ast.ClassDef)]
    return tuple(names)


def repeated(files: Iterable[Path]) -> list[str]:
    """Return the names that occur more than once in some files, each with its files."""
    found: dict[str, list[str]] = defaultdict(list)
    for file in files:
        for name in names_in(file):
            found[name].append(str(file))
    return sorted(f"{name}: {', '.join(sorted(places))}" for name, places in found.items() if len(places) > 1)


def repeated_in(checkout: Path) -> list[str]:
    """Return the names that occur twice in the roots, or in the roots and one adapter."""
    core = [file for root in ROOTS for file in (checkout / root).rglob("*.py")]
    adapters = checkout / "adapters" / "seekpoint" / "adapters"
    shared = core + list(adapters.glob("*.py"))
    found = set(repeated(shared))
    for adapter in adapters.iterdir():
        found.update(repeated(shared + list(adapter.rglob("*.py"))))
    return sorted(found)


def test_each_name_has_one_meaning() -> None:
    """Rename one of the two after its content."""
    assert not (found := repeated_in(CHECKOUT)), "\n".join(found)


def test_a_name_that_occurs_twice_is_reported_with_its_files(tmp_path: Path) -> None:
    """Also one that is private, or in one file twice. Two adapters may share a name, but not with a root."""
    content = {
        "schemas/seekpoint/schemas/a/__init__.py": "",
        "schemas/seekpoint/schemas/a/point.py": "class Point: ...",
        "consumers/seekpoint/consumers/point.py": "class _Kept: ...",
        "producers/seekpoint/producers/writing.py": "class _Kept: ...\nclass Outer:\n    class Point: ...",
        "adapters/seekpoint/adapters/shared.py": "class Call: ...",
        "adapters/seekpoint/adapters/one/runner.py": "class Runner: ...\nclass Twice: ...\nclass Twice: ...",
        "adapters/seekpoint/adapters/two/runner.py": "class Runner: ...\nclass Call: ...\nclass Point: ...",
    }
    for place, text in content.items():
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / place).write_text(text)
    short = [line.replace(f"{tmp_path}/", "").replace("seekpoint/", "") for line in repeated_in(tmp_path)]
    assert short == [
        "class Call: adapters/adapters/shared.py, adapters/adapters/two/runner.py",
        "class Point: adapters/adapters/two/runner.py, schemas/schemas/a/point.py",
        "class Twice: adapters/adapters/one/runner.py, adapters/adapters/one/runner.py",
        "class _Kept: consumers/consumers/point.py, producers/producers/writing.py",
        "file point: consumers/consumers/point.py, schemas/schemas/a/point.py",
    ]
