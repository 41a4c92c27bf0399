"""What all commands have in common: their help, their options, their errors as JSON, ids completed by the shell."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import typer

from console_on_memory import AGENTS
from seekpoint.console.cli import app
from seekpoint.console.help_sections import SECTIONS
from seekpoint.console.services.arguments.completion import complete_moments, complete_process_ids
from seekpoint.consumers.view.memory_view import MemoryView
from seekpoint.consumers.view.view_store import Change
from seekpoint.schemas import MemoryLog
from seekpoint.schemas.errors import ViewUnavailable
from seekpoint.schemas.log.partition import partition_of
from seekpoint.schemas.state.process_state import new_state
from shells import Shell
from usual_arguments import LOCAL_COMMANDS, usual_arguments

ROOT: Any = typer.main.get_command(app)

WITH_TABLES = {
    "ps", "log", "steps", "costs", "diff", "rerun", "replay-check", "verify", "lag", "trim", "replay", "doctor",
    "status", "workers", "schedules ls", "effects ls", "gates ls", "shared ls", "budget show", "checkpoints ls",
    "dlq ls", "topics check", "schema check", "console token ls",
}  # fmt: skip
WITH_INTERNALS = {"state", "recover", "checkpoints show", "effects show"}
OF_ONE_MEANING = ("--actor", "--reason", "--since", "--json", "--wide", "--prices", "--agent", "--dry-run", "--timeout")
OTHER_MEANINGS = {("replay", "--actor"), ("replay", "--since")}
"""A replay selects entries: by who wrote them, and since when."""


def leaves(of: Any = ROOT, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """Yield each command that does something, with the words that call it."""
    for name, command in of.commands.items():
        if hasattr(command, "commands"):
            yield from leaves(command, (*path, name))
        if getattr(command, "invoke_without_command", True):
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


def options_of(name: str) -> set[str]:
    """Return the names of the options of a command."""
    return {option for each in LEAVES[name].params for option in each.opts if option.startswith("-")}


@pytest.mark.parametrize("name", sorted(LEAVES))
def test_each_command_prints_json_on_request(name: str) -> None:
    """A program reads what it did, and its errors."""
    assert "--json" in options_of(name)


@pytest.mark.parametrize("name", sorted(LEAVES))
def test_an_error_of_each_command_is_one_json_object(name: str, shell: Shell) -> None:
    """On stderr, its last line; stdout stays empty."""
    ran = shell(*name.split(), "--no-such-option", "--json")
    *_, last = ran.err.splitlines()
    error = json.loads(last)["error"]
    assert (ran.code, ran.out, error["code"]) == (2, "", "Usage")
    assert error["message"]
    assert error["advice"] == f"see seekpoint {name} --help"


@pytest.mark.parametrize("name", sorted(LEAVES.keys() - LOCAL_COMMANDS))
def test_a_command_says_at_once_that_no_kafka_runs(
    name: str, shell: Shell, write_module: Callable[[str, str], None]
) -> None:
    """In well under a second, with what to do next; as JSON after --json, then nothing is on stdout."""
    write_module("touching", AGENTS)
    words = usual_arguments(name, LEAVES[name])
    began = time.monotonic()
    ran = shell(*words, "--json", "--bootstrap-servers", "127.0.0.1:1")
    assert time.monotonic() - began < 3
    error = json.loads(ran.err.splitlines()[-1])["error"]
    assert (ran.code, ran.out, error["code"]) == (3, "", "JournalUnavailable")
    assert error["message"] == "no Kafka accepts connections"
    assert error["facts"]["tried"] == "127.0.0.1:1 connection refused"
    assert error["advice"] == "check that Kafka runs and bootstrap_servers is right"


def test_an_option_in_front_of_its_command_is_told_its_place(shell: Shell) -> None:
    """Only ``--version`` and the like belong to ``seekpoint`` itself."""
    ran = shell("--journal-url", "sqlite:///runs.db", "ps")
    assert (ran.code, "options follow the command: seekpoint COMMAND --journal-url" in ran.err) == (2, True), ran.err
    other = shell("--nonsense", "ps")
    assert (other.code, "see seekpoint --help" in other.err) == (2, True), other.err


@pytest.mark.parametrize("name", sorted(LEAVES))
def test_what_is_hidden_is_shown_by_one_option(name: str) -> None:
    """Every table has ``--wide`` and ``-w``, and so has what shows internals."""
    assert ({"--wide", "-w"} <= options_of(name)) == (name in WITH_TABLES | WITH_INTERNALS)


@pytest.mark.parametrize("option", OF_ONE_MEANING)
def test_an_option_means_the_same_everywhere(option: str) -> None:
    """It takes the same values: who decides is --actor NAME, why is --reason TEXT, since when is --since TIME."""
    found = {
        str(each.metavar): name
        for name, command in LEAVES.items()
        for each in command.params
        if option in each.opts and (name, option) not in OTHER_MEANINGS
    }
    assert len(found) == 1 or (option == "--agent" and found.keys() == {"NAME", "MODULE:FUNCTION"}), found


@pytest.mark.parametrize("name", sorted(LEAVES))
def test_options_of_one_meaning_have_one_name(name: str) -> None:
    """Nothing else asks who, why or since when. (``costs --by`` names what the sums are grouped by.)"""
    assert not options_of(name) & {
        "--who",
        "--why",
        "--user",
        "--as-user",
        "--message",
        "--comment",
        "--after-time",
        "--newer",
    }
    assert "--by" not in options_of(name) or name == "costs"
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

    monkeypatch.setattr("seekpoint.console.services.arguments.target.CommandTarget.reachable", refuse)
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
    monkeypatch.setattr("seekpoint.console.services.arguments.target.CommandTarget", lambda **_: _Target(view))
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


def taking_ids() -> Iterator[tuple[str, Any]]:
    """Yield the parameters that take process ids, with the name of the command."""
    for name, command in LEAVES.items():
        for parameter in command.params:
            if "PROCESS_ID" in str(parameter.metavar):
                yield name, parameter


@pytest.mark.parametrize(
    ("name", "parameter"), [*taking_ids()], ids=lambda one: one if isinstance(one, str) else one.name
)
def test_each_process_id_is_completed(name: str, parameter: Any, context: Any) -> None:
    """In every command that takes one, or several, as an argument or as an option."""
    if (name, parameter.name) == ("rerun", "new_id"):  # it is new
        return
    assert [item.value for item in parameter.shell_complete(context, "visit")] == ["visit-1"]


@pytest.mark.parametrize("name", ["redrive", "verify"])
def test_an_id_that_was_given_is_not_offered_again(name: str, context: Any) -> None:
    """``seekpoint redrive order-1 <TAB>`` offers the others."""
    [parameter] = [each for each in LEAVES[name].params if each.name == "process_ids"]
    context.params["process_ids"] = ("order-1",)
    assert [item.value for item in parameter.shell_complete(context, "order")] == ["order-2"]


def test_a_shell_completes_several_ids(context: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """As bash asks: the second id of ``seekpoint redrive order-1 ord``."""
    env = {"COMP_WORDS": "seekpoint redrive order-1 ord", "COMP_CWORD": "3"}
    with pytest.MonkeyPatch.context() as patched:
        for variable, value in env.items():
            patched.setenv(variable, value)
        patched.setenv("_SEEKPOINT_COMPLETE", "complete_bash")
        with pytest.raises(SystemExit):
            app(prog_name="seekpoint")
    assert capsys.readouterr().out.split() == ["order-2"]


def test_a_moment_is_completed_to_its_id(context: Any) -> None:
    """``seekpoint diff visit-1@`` wants a number, which nobody can guess."""
    assert complete_moments(context, "visit") == ["visit-1"]
    assert complete_moments(context, "visit-1@") == []
