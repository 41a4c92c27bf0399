"""scripts/mutants tells a rule that is tested from one that is not, and never mistakes a broken run for either."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from contextlib import redirect_stdout
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from _mutants import CHECKOUT, Mutant, MutantError, load, main, run_bounded, run_mutants

SOURCE = """
def add(a, b):
    return a + b

def twice(a):
    return a * 2
"""
TESTS = """
from seekpoint.schemas.sums import add

def test_a_sum_counts_both():
    assert add(2, 3) == 5
"""
CONFIG = """
[tool.pytest.ini_options]
addopts = ["--import-mode=importlib"]
markers = ["long", "three_brokers"]
"""
MODULE = "schemas/seekpoint/schemas/sums.py"
CAUGHT = Mutant(
    rule="caught", why="subtracts", file=MODULE, find="a + b", replace="a - b", tests=("tests/test_sums.py",)
)


def plant(tree: Path, tests: str = TESTS) -> Path:
    """A made-up checkout: one module, one test that looks at half of it."""
    package = "schemas/seekpoint/schemas/__init__.py"
    files = {"pyproject.toml": CONFIG, package: "", MODULE: SOURCE, "tests/test_sums.py": tests}
    for name, text in files.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(text)
    return tree


def told_of(tree: Path) -> str:
    """What the runner tells of `CAUGHT` in this tree, after its verdict."""
    [outcome] = run_mutants(tree, [CAUGHT], timeout_s=120.0)
    return f"{outcome.verdict}: {outcome.told}"


def write(tree: Path, changes: Iterable[dict[str, str]]) -> None:
    """Make mutants.toml of `CAUGHT`, each time with these changes; texts and lists of JSON are TOML too."""
    plain = {name: getattr(CAUGHT, name) for name in Mutant.__slots__}
    blocks = (
        "\n".join(["[[mutant]]", *(f"{name} = {json.dumps(value)}" for name, value in (plain | change).items())])
        for change in changes
    )
    (tree / "tests" / "mutants.toml").write_text("\n".join(blocks))


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A made-up checkout with five mutants, all of the same test."""
    tree = plant(tmp_path_factory.mktemp("tree"))
    changes = [
        {},
        {"rule": "survives", "find": "a * 2", "replace": "a * 3"},
        {"rule": "moved", "find": "a / b"},
        {"rule": "ambiguous", "find": "return"},
        {"rule": "does not load", "replace": "a +"},
    ]
    write(tree, changes)
    return tree


@pytest.fixture(scope="module")
def told(tree: Path) -> dict[str, Any]:
    """One run of the command over the five, its exit code added; the caller's PYTEST_ADDOPTS would deselect all."""
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(StringIO()) as out:
        patch.setenv("PYTEST_ADDOPTS", "-k nothing")
        exit_code = main(["--tree", str(tree), "--json", "--jobs", "2"])
    [line] = out.getvalue().splitlines()
    table: dict[str, Any] = json.loads(line)
    return table | {"exit_code": exit_code, "rows": {row["rule"]: row for row in table["rows"]}}


def test_a_mutant_that_a_test_notices_is_caught(told: dict[str, Any]) -> None:
    """The row names the first test that failed."""
    row = told["rows"]["caught"]
    assert (row["verdict"], row["caught_by"]) == ("caught", "tests/test_sums.py::test_a_sum_counts_both")


def test_a_mutant_that_no_test_notices_survives(told: dict[str, Any]) -> None:
    """And the command fails because of it."""
    assert told["rows"]["survives"]["verdict"] == "survived"
    assert told["exit_code"] == 1
    assert told["bars"] == [{"what": "mutants caught, at least", "bar": 5, "value": 1, "held": False}]


@pytest.mark.parametrize(("rule", "count"), [("moved", 0), ("ambiguous", 2)])
def test_a_text_that_is_not_there_exactly_once_is_broken(told: dict[str, Any], rule: str, count: int) -> None:
    """Neither a moved rule nor an ambiguous patch counts as tested."""
    assert told["rows"][rule]["verdict"] == "broken"
    assert f"occurs {count} times" in told["rows"][rule]["reason"]


def test_a_mutant_that_does_not_load_is_broken_not_caught(told: dict[str, Any]) -> None:
    """A syntax error proves nothing about the rule."""
    assert told["rows"]["does not load"]["verdict"] == "broken"
    assert "pytest exited with" in told["rows"]["does not load"]["reason"]


def test_the_mutated_tree_is_a_copy(tree: Path, told: dict[str, Any]) -> None:
    """A mutant lives in its copy only."""
    assert len(told["rows"]) == 5
    assert (tree / MODULE).read_text() == SOURCE


def test_the_copy_is_mended_after_each_mutant(tmp_path: Path) -> None:
    """One job has one copy: what one mutant breaks there fails no test of the next one, and breaks again later."""
    survivor = replace(CAUGHT, find="a * 2", replace="a * 3")
    outcomes = run_mutants(plant(tmp_path), [CAUGHT, survivor, CAUGHT], jobs=1, timeout_s=120.0)
    assert [outcome.verdict for outcome in outcomes] == ["caught", "survived", "caught"]


def test_tests_that_fail_anyway_cannot_judge_a_mutant(tmp_path: Path) -> None:
    """The tests run once without the mutant; if they fail, the mutant is not run."""
    tree = plant(tmp_path, TESTS.replace("== 5", "== 6"))
    assert told_of(tree) == "broken: fails without the mutant too: tests/test_sums.py::test_a_sum_counts_both"


def test_code_imported_from_outside_the_copy_is_detected(tmp_path: Path) -> None:
    """If another install won over the copy, the mutant was never looked at, whatever the tests said."""
    stranger = tmp_path / "other" / "seekpoint" / "stranger.py"
    stranger.parent.mkdir(parents=True)
    stranger.write_text("")
    smuggle = f"import sys; sys.path.append({str(tmp_path / 'other')!r}); import seekpoint.stranger\n"
    tree = plant(tmp_path / "tree", smuggle + TESTS)
    assert "imported from elsewhere than the copy: seekpoint.stranger" in told_of(tree)


def test_the_copy_wins_over_the_editable_install_in_children_too(tmp_path: Path) -> None:
    """A test that starts an interpreter of its own sees the broken copy there as well."""
    in_a_child = """
import subprocess, sys

def test_a_child_adds():
    code = "from seekpoint.schemas.sums import add; print(add(2, 3))"
    assert subprocess.check_output([sys.executable, "-c", code], cwd="/", text=True) == "5\\n"
"""
    assert told_of(plant(tmp_path, in_a_child)) == "caught: tests/test_sums.py::test_a_child_adds"


def test_a_run_that_hangs_is_ended(tmp_path: Path) -> None:
    """No mutant holds the others up for ever, nor does what it started."""
    exit_code, _ = run_bounded(["sh", "-c", "sleep 600; true"], cwd=tmp_path, env={}, timeout_s=0.5)
    assert exit_code is None


def test_an_entry_with_an_unknown_key_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A typing error in mutants.toml is exit code 2 and a message, not a mutant that is left out."""
    tree = plant(tmp_path)
    (tree / "tests/mutants.toml").write_text('[[mutant]]\nrule = "S1"\nwyh = "x"\n')
    assert main(["--tree", str(tree)]) == 2
    assert "mutant 1: missing or unknown: file, find, replace, tests, why, wyh" in capsys.readouterr().err


def test_a_run_without_mutants_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A misspelt rule must not look like a rule that holds."""
    write(plant(tmp_path), [{}])
    assert main(["--tree", str(tmp_path), "--only", "caugth"]) == 2
    assert "--list" in capsys.readouterr().err


def test_a_list_names_the_mutants_and_runs_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One that no test could catch is listed like the others."""
    write(plant(tmp_path), [{}, {"rule": "other", "find": "not there"}])
    assert main(["--tree", str(tmp_path), "--list", "--only", "other"]) == 0
    out = capsys.readouterr().out
    assert "other" in out
    assert "caught" not in out


def test_every_mutant_of_this_checkout_still_fits() -> None:
    """Code that moved away from its mutant is noticed here, without running the mutant."""
    for each in load(CHECKOUT):
        try:
            each.applied_to((CHECKOUT / each.file).read_text())
        except (MutantError, OSError) as error:
            pytest.fail(str(error))
        for test in each.tests:
            file, _, name = test.partition("::")
            named = re.compile(rf"(def|class) {name.rpartition('::')[2].partition('[')[0]}\b")
            assert named.search((CHECKOUT / file).read_text()), f"{each.rule}: {test} does not exist"
