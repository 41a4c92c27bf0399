"""What all commands have in common: their help, their options, their errors as JSON, ids completed by the shell."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import typer

from seekpoint.console.cli import app
from seekpoint.console.help_sections import SECTIONS
from seekpoint.console.services.completion import complete_process_ids
from seekpoint.consumers.view.memory_view import MemoryView
from seekpoint.consumers.view.view_store import Change
from seekpoint.schemas import MemoryLog
from seekpoint.schemas.errors import ViewUnavailable
from seekpoint.schemas.log.partition import partition_of
from seekpoint.schemas.state.process_state import new_state
from shells import Shell

ROOT: Any = typer.main.get_command(app)

RUN_UNTIL_STOPPED = {"worker", "serve projector", "serve recovery", "serve dispatcher", "serve reactors"}
JSON_ANYWAY = {"topics manifest"}


def leaves(of: Any = ROOT, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """Yield each command that does something, with the words that call it."""
    for name, command in of.commands.items():
        if hasattr(command, "commands"):
            yield from leaves(command, (*path, name))
        else:
            yield " ".join((*path, name)), command


LEAVES = dict(leaves())


def test_each_command_is_in_one_section_of_the_help() -> None:
    """A command that is in none would not be shown."""
    listed = [name for names in SECTIONS.values() for name in names.split()]
    assert sorted(listed) == sorted(ROOT.commands)


def test_the_help_shows_whole_sentences_in_80_columns(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """In sections; nothing ends in an ellipsis."""
    monkeypatch.setenv("COLUMNS", "80")
    lines = shell("--help").out.splitlines()[1:]
    assert [line.removesuffix(":") for line in lines if line.removesuffix(":") in SECTIONS] == [*SECTIONS]
    assert [line for line in lines if len(line) > 80 or line.endswith("...")] == []


@pytest.mark.parametrize("name", sorted(LEAVES.keys() - RUN_UNTIL_STOPPED - JSON_ANYWAY))
def test_each_command_prints_json_on_request(name: str) -> None:
    """A program reads what it did, and its errors."""
    assert "--json" in {option for each in LEAVES[name].params for option in each.opts}


@pytest.mark.parametrize("name", sorted(LEAVES))
def test_options_of_one_meaning_have_one_name(name: str) -> None:
    """Who decides is --actor, and why is --reason. (``costs --by`` names what the sums are grouped by.)"""
    options = {option for each in LEAVES[name].params for option in each.opts}
    assert not options & {"--who", "--why"}
    assert "--by" not in options or name == "costs"
    names = {str(each.metavar).strip("[].") for each in LEAVES[name].params if each.name.startswith("process_id")}
    assert names <= {"PROCESS_ID"}


def test_an_error_is_json_after_json(seekpoint: Shell) -> None:
    """One line on stderr: code, message, advice with the process id in it, and facts; nothing on stdout."""
    ran = seekpoint("state", "nobody", "--json")
    error = json.loads(ran.err)["error"]
    assert (ran.code, ran.out, error["code"]) == (1, "", "UnknownProcess")
    assert "no such process" in error["message"]
    assert "seekpoint ps" in error["advice"]
    assert error["facts"]["process_id"] == "nobody"


def test_a_usage_error_is_json_after_json(shell: Shell) -> None:
    """Also where the command line could not be parsed."""
    ran = shell("state", "--json")
    error = json.loads(ran.err)["error"]
    assert (ran.code, error["code"], error["advice"]) == (2, "Usage", "see seekpoint state --help")
    assert "PROCESS_ID" in error["message"]
    assert shell("state").err.startswith("error: ")


def test_the_failure_of_an_agent_is_json_after_json(seekpoint: Shell) -> None:
    """It is the agent's, not Seekpoint's: a code of its own."""
    ran = seekpoint("run", "p", "--agent", "touching:breaking", "--new", "--json")
    error = json.loads(ran.err.splitlines()[-1])["error"]
    assert (ran.code, error["code"], error["facts"]) == (1, "AgentFailed", {"process_id": "p", "type": "ValueError"})
    assert error["advice"]


def test_a_secret_is_not_in_an_error_as_json(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither in its message nor in its facts."""
    monkeypatch.setenv("SEEKPOINT_KAFKA_SASL_PASSWORD", "hunter2")

    def refuse(*_: object, **__: object) -> None:
        raise ViewUnavailable("hunter2 is refused", hint="not hunter2", key="hunter2")

    monkeypatch.setattr("seekpoint.console.services.target.CommandTarget.reachable", refuse)
    ran = shell("ps", "--json")
    error = json.loads(ran.err.splitlines()[-1])["error"]
    assert (error["message"], error["advice"], error["facts"]["key"]) == ("*** is refused", "not ***", "***")
    assert "hunter2" not in ran.err


class _Target:
    def __init__(self, view: MemoryView | None) -> None:
        self.view = view

    def close(self) -> None:
        """Nothing is open."""


@pytest.fixture
def context(log: MemoryLog, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A command line that is being typed, with a view of three processes."""
    view = MemoryView(2)
    tokens = {partition: view.install(partition, log.topic_id) for partition in range(2)}
    applied = dict.fromkeys(tokens, -1)
    for partition, token in tokens.items():
        view.ready(partition, token, applied=-1, leader_epoch=-1)
    for key in (b"order-1", b"order-2", b"visit-1"):
        partition = partition_of(key, 2)
        at = applied[partition] + 1
        change = Change(key=key, state=new_state(), whole=True)
        view.write(partition, tokens[partition], at, at, applied[partition], [change])
        applied[partition] = at
    monkeypatch.setattr("seekpoint.console.services.target.CommandTarget", lambda **_: _Target(view))
    return type("Context", (), {"params": {}})()


def test_a_shell_completes_process_ids(context: Any) -> None:
    """From the view's index, by their beginning."""
    assert complete_process_ids(context, "order-") == ["order-1", "order-2"]
    assert complete_process_ids(context, "zzz") == []


def test_a_completion_never_fails(
    context: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A traceback would stand amid the command that is typed."""

    def silent(*_: object, **__: object) -> None:
        raise ViewUnavailable("Redis is silent")

    monkeypatch.setattr("seekpoint.consumers.view_browser.View.list", silent)
    assert complete_process_ids(context, "order-") == []
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("name", [name for name, one in LEAVES.items() if "process_id" in {p.name for p in one.params}])
def test_each_process_id_is_completed(name: str, context: Any) -> None:
    """In every command that takes one."""
    [parameter] = [each for each in LEAVES[name].params if each.name == "process_id"]
    assert [item.value for item in parameter.shell_complete(context, "visit")] == ["visit-1"]
