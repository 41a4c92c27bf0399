"""What the pages show runs, and prints what they say."""

from __future__ import annotations

import ast
import asyncio
import importlib
import inspect
from typing import Any

import pytest

from pages import PAGES, Block, blocks
from seekpoint.compose import LocalCluster
from seekpoint.schemas import Settings
from seekpoint.schemas.folds import only

PYTHON = [block for page in PAGES for block in blocks(page, "python")]
ON_KAFKA = [block for block in PYTHON if block.needs_kafka]
IN_MEMORY = {page: [block for block in PYTHON if block.page == page and not block.needs_kafka] for page in PAGES}


def run(block: Block, names: dict[str, Any], runner: asyncio.Runner) -> None:
    """Execute a block as ``python -m asyncio`` would; a traceback names the page's own line."""
    text = "\n" * (block.line - 1) + block.text
    code = compile(text, str(block.page), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    if code.co_flags & inspect.CO_COROUTINE:

        async def awaited() -> None:
            await eval(code, names)

        runner.run(awaited())
    else:
        exec(code, names)


@pytest.mark.parametrize("page", [page for page in PAGES if IN_MEMORY[page]], ids=lambda page: page.name)
def test_the_examples_of_a_page_run_from_top_to_bottom(page: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """In one interpreter: a later one may use the names of an earlier one. They print what stands behind the print."""
    names: dict[str, Any] = {"__name__": "__example__"}
    with asyncio.Runner() as runner, only():  # what a page registers is gone with it
        for block in IN_MEMORY[page]:
            run(block, names, runner)
            assert capsys.readouterr().out.splitlines() == block.expected, block.name
        for node in [value for value in names.values() if type(value).__name__ == "Node"]:
            runner.run(node.close())


@pytest.mark.cluster
@pytest.mark.parametrize("block", ON_KAFKA, ids=lambda block: block.name)
def test_an_example_on_kafka_runs(
    block: Block,
    cluster: LocalCluster,
    journal: Settings,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """By itself, on a cluster it starts or on the one that the environment points at."""
    monkeypatch.setenv("SEEKPOINT_BOOTSTRAP_SERVERS", cluster.bootstrap_servers)
    monkeypatch.setenv("SEEKPOINT_REDIS_URL", cluster.redis_url)
    monkeypatch.setenv("SEEKPOINT_JOURNAL", journal.journal)
    with asyncio.Runner() as runner:
        run(block, {"__name__": "__example__"}, runner)
    assert capsys.readouterr().out.splitlines() == block.expected


@pytest.mark.parametrize("block", PYTHON, ids=lambda block: block.name)
def test_examples_import_public_names_only(block: Block) -> None:
    """From the door of a root, or from a module that a root's door names."""
    for node in ast.walk(compile(block.text, block.name, "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("seekpoint"):
            _, root, *inner = (node.module or "").split(".")
            door = importlib.import_module(f"seekpoint.{root}")
            assert set(inner) <= set(door.__all__), node.module
            public = importlib.import_module(node.module or "").__all__
            assert {alias.name for alias in node.names} <= set(public), f"{block.name}: {node.module}"


def test_every_example_is_found() -> None:
    """An example that nobody runs proves nothing: the README has some of either kind."""
    readme = [block for block in PYTHON if block.page.name == "README.md"]
    assert {block.needs_kafka for block in readme} == {True, False}
    assert sum(len(block.expected) for block in readme) > 10
