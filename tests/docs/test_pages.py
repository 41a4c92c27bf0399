"""What the pages say of the project is so: links, commands, verbs, tables."""

from __future__ import annotations

import os
import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

import pytest
import typer

from pages import PAGES, ROOT, anchors, blocks, commands, links, page_name, table
from seekpoint.console.cli import app
from seekpoint.schemas import TRANSITIONS, Settings

README = ROOT / "README.md"
DOCS = ROOT / "docs"
CLI: Any = typer.main.get_command(app)

NOT_BUILT_YET: set[str] = set()
"""Named in settings and topics as what alone may ever remove entries. Take a name out once it exists."""


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_links_have_targets(page: Path) -> None:
    """To a file of the checkout, and to a heading in it."""
    for link in links(page):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_commands_that_are_shown_exist(page: Path) -> None:
    """With every option that is shown. Words in capitals stand for the reader's own."""
    for line in commands(page):
        words = shlex.split(line)[1:]
        if words[0] in NOT_BUILT_YET or set(words[0]) <= {".", "…"}:
            continue
        known = leaf(words, line)
        for word in words:
            if word.startswith("-") and word != "-":
                assert word.partition("=")[0] in known, line


def leaf(words: list[str], line: str) -> set[str]:
    """The options of the command that ``words`` begin with: at every level ``--help`` too."""
    command = CLI
    known = {option for each in command.params for option in each.opts}
    for word in words:
        if not hasattr(command, "commands") or word.startswith("-"):
            break
        assert word in command.commands, line
        command = command.commands[word]
        known |= {option for each in command.params for option in each.opts}
    return known | {"--help"}


def test_commands_marked_as_planned_do_not_exist() -> None:
    """Else the exception above hides a mistake."""
    assert not NOT_BUILT_YET & CLI.commands.keys()


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_methods_that_are_shown_exist(page: Path) -> None:
    """And can be run."""
    for verb in re.findall(r"\bscripts/(\w+)\b(?![/.])", page.read_text()):
        path = ROOT / "scripts" / verb
        assert path.is_dir() or os.access(path, os.X_OK), verb


def test_the_benchmarks_of_the_numbers_exist() -> None:
    """Each row of the table names one; none is left out."""
    rows = table(DOCS / "operate" / "numbers.md", "`scripts/bench`", "what", "Seekpoint", "baseline", "ratio")
    there = {path.stem for path in (ROOT / "scripts" / "benches").glob("[a-z]*.py")}
    assert {name.strip("`") for name, *_ in rows} == there


def test_the_lifecycle_of_the_page_is_the_lifecycle() -> None:
    """The hint of IllegalTransition sends people there."""
    page = DOCS / "reference" / "lifecycle.md"
    rows = {start.strip("`"): set(re.findall(r"`(\w+)`", to)) for start, to in table(page, "from", "to")}
    assert rows == {str(start): {str(to) for to in after} for start, after in TRANSITIONS.items()}


def test_the_settings_for_another_kafka_load(tmp_path: Path) -> None:
    """The file for a foreign Kafka can be pasted; its secrets come from files and are not shown."""
    [example] = blocks(DOCS / "operate" / "connect.md", "toml")
    for name in ("kafka", "redis"):
        (tmp_path / name).write_text(f"{name} secret\n")
    file = tmp_path / "seekpoint.toml"
    file.write_text(example.text.replace("/run/secrets", str(tmp_path)))
    settings = Settings.load(file, {})
    assert settings.kafka["security.protocol"] == "SASL_SSL"
    assert settings.kafka["sasl.password"] == "kafka secret"
    assert "secret" not in repr(settings).replace(str(tmp_path), "")


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_quoted_defaults_are_the_defaults(page: Path) -> None:
    """A number in brackets behind a setting's name: ``owner_timeout_s`` (15 s)."""
    for name, number in re.findall(r"`(\w+)` \((\d+)(?: s)?\)", page.read_text()):
        assert float(number) == getattr(Settings(), name), name


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_pages_contain_no_local_paths(page: Path) -> None:
    """No path of whoever wrote them, no issue of theirs."""
    assert not re.search(r"/work/|/tmp/|/home/\w|/root/|\bissues? #?\d", page.read_text())


def test_pages_that_the_code_names_exist() -> None:
    """Hints of errors and docstrings send people to pages."""
    sources = [
        file
        for root in ("api", "schemas", "consumers", "producers", "adapters", "console", "compose")
        for file in (ROOT / root).rglob("*.py")
    ]
    named = {name for file in sources for name in re.findall(r"\bdocs/[\w/-]+\.md\b", file.read_text())}
    assert len(named) > 5
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_the_five_figures_of_the_readme_are_measured() -> None:
    """Each figure stands in the table of all numbers, which is replaced as a whole."""
    shown = table(README, "what", "Seekpoint", "compared with")
    measured = (DOCS / "operate" / "numbers.md").read_text()
    assert len(shown) == 5
    for _, ours, compared in shown:
        assert ours in measured
        assert compared.rpartition(": ")[2] in measured


def test_the_readme_is_short() -> None:
    """Everything else has a page of its own."""
    assert len(README.read_text().splitlines()) <= 200


def test_the_layers_of_the_architecture_are_those_that_import_linter_checks() -> None:
    """Each name of ``producers`` and ``consumers``, in the order of the contracts."""
    [picture] = [block.text for block in blocks(ROOT / "ARCHITECTURE.md", "text") if block.text.startswith("api ")]
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    for root in ("producers", "consumers"):
        [contract] = [one for one in contracts if one.get("containers") == [f"seekpoint.{root}"]]
        found = re.search(rf"^{root} +(.+(?:\n +.+)*)", picture, re.MULTILINE)
        assert found is not None
        shown = [re.split(r",\s*", layer.strip()) for layer in found[1].split(">")]
        assert shown == [[name.strip() for name in layer.split("|")] for layer in contract["layers"]]


@pytest.mark.parametrize("page", [ROOT / "ARCHITECTURE.md", *DOCS.glob("decisions/*.md")], ids=page_name)
def test_files_that_the_architecture_names_exist(page: Path) -> None:
    """``producers/writer/outbox.py`` stands for ``producers/seekpoint/producers/writer/outbox.py`` there."""
    named = set(re.findall(r"`([\w.]+/[\w./]*)`", page.read_text()))
    assert len(named) > 30 or page.name != "ARCHITECTURE.md"
    for name in named:
        root, _, rest = name.partition("/")
        assert (ROOT / name).exists() or (ROOT / root / "seekpoint" / root / rest).exists(), name


def test_each_adapter_has_a_test_that_kills_it() -> None:
    """The row of each adapter names tests that exist, and no page of an adapter lacks a row."""
    text = (DOCS / "adapters" / "index.md").read_text()
    rows = [row for row in text.splitlines() if row.startswith("| ") and "::" in row]
    assert len(rows) == len([*(DOCS / "adapters").glob("*.md")]) - 1
    for row in rows:
        for path, name in re.findall(r"`([\w/]+\.py)::(\w+)`", row):
            assert f"def {name}(" in (ROOT / "tests" / "adapters" / path).read_text(), row
