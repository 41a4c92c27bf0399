"""What a user sees of an error: one line, an exit code, and never a traceback unless it was asked for."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from pathlib import Path

import pytest

from seekpoint.console.commands.histories import verify
from seekpoint.console.commands.journal import topics, upgrade
from seekpoint.console.commands.processes import ps, state
from seekpoint.console.render.command_errors import report
from seekpoint.console.services.arguments.target import CommandTarget
from seekpoint.schemas import errors
from shells import Shell

NOWHERE = "--bootstrap-servers=127.0.0.1:1"


def fake(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    """Every use of Kafka ends in ``error``."""

    def raises(self: CommandTarget) -> None:
        raise error

    monkeypatch.setattr(CommandTarget, "reachable", raises)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.UnknownProcess("x"), 1),
        (errors.JournalMismatch("x"), 1),
        (errors.InvalidSetting("x"), 2),
        (errors.InvalidName("x"), 2),
        (errors.JournalUnavailable("x"), 3),
        (errors.ClusterFailed("x"), 3),
        (errors.OwnerAlive("x"), 4),
        (errors.ProcessFinished("x"), 4),
        (errors.ProcessDegraded("x"), 4),
        (errors.ClaimLost("x"), 4),
    ],
)
def test_each_error_has_its_exit_code(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, error: errors.SeekpointError, code: int
) -> None:
    """1 a fault was found, 2 usage, 3 not reachable, 4 refused; one line on stderr, nothing on stdout."""
    fake(monkeypatch, error)
    ran = shell("ps")
    assert ran.code == code
    assert ran.out == ""
    assert ran.err == f"error: {error}\n"


def test_an_error_names_a_next_command_that_can_be_copied(capsys: pytest.CaptureFixture[str]) -> None:
    """Where the hint says PROCESS_ID and the process is known, its id stands there, quoted for a shell."""
    report(errors.ProcessDegraded("the process is degraded", process_id="case 17"))
    assert "seekpoint recover 'case 17' --claim --accept-degraded" in capsys.readouterr().err
    report(errors.OwnerAlive("the owner looks alive", process_id="case 17"))
    assert "seekpoint recover 'case 17' --claim --take-over" in capsys.readouterr().err


def test_an_unexpected_error_is_one_line_and_asks_to_be_reported(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a dependency raises."""
    fake(monkeypatch, KeyError("oops"))
    ran = shell("ps")
    assert ran.code == 1
    assert ran.err == "error: unexpected KeyError: 'oops'; please report it with the output of --debug\n"


@pytest.mark.parametrize("way", ["option", "variable"])
def test_debug_shows_the_traceback(shell: Shell, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    """By ``--debug`` or by ``SEEKPOINT_DEBUG=1``; the line stays the last one."""
    fake(monkeypatch, KeyError("oops"))
    if way == "variable":
        monkeypatch.setenv("SEEKPOINT_DEBUG", "1")
    ran = shell("ps", *(["--debug"] if way == "option" else []))
    assert "Traceback (most recent call last)" in ran.err
    assert ran.err.splitlines()[-1] == "error: unexpected KeyError: 'oops'"
    monkeypatch.delenv("SEEKPOINT_DEBUG", raising=False)
    assert "Traceback" not in shell("ps").err


@pytest.mark.parametrize("debug", [[], ["--debug"]], ids=["plain", "debug"])
def test_a_secret_of_the_settings_is_never_printed(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, debug: list[str]
) -> None:
    """Not even by an error nobody expected, not even in its traceback."""
    monkeypatch.setenv("SEEKPOINT_KAFKA_SASL_PASSWORD", "hunter2")
    fake(monkeypatch, RuntimeError("login as ann with hunter2 failed"))
    ran = shell("ps", *debug)
    assert "login as ann with *** failed" in ran.err
    assert "hunter2" not in ran.err


def test_ctrl_c_exits_with_130(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a word."""
    fake(monkeypatch, KeyboardInterrupt())
    ran = shell("ps")
    assert (ran.code, ran.err) == (130, "")


@pytest.mark.parametrize("unbuffered", ["", "1"], ids=["at the end", "at once"])
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no such device")
def test_a_full_disk_is_an_error_without_a_bug_report(unbuffered: str) -> None:
    """Of what goes to a file, whenever it is written; exit code 1."""
    script = "import sys; from seekpoint.console.cli import main; sys.exit(main(['schema', 'check', '--json']))"
    with open("/dev/full", "w") as full:
        ran = subprocess.run(
            [sys.executable, "-c", script], stdout=full, stderr=subprocess.PIPE, text=True, check=False,
            env=os.environ | {"PYTHONUNBUFFERED": unbuffered},
        )  # fmt: skip
    assert (ran.returncode, "cannot write: " in ran.stderr, "report" in ran.stderr) == (1, True, False), ran.stderr
    assert ran.stderr.count("\n") == 1


def test_a_closed_pipe_exits_with_141_and_prints_nothing() -> None:
    """``seekpoint ... | head`` says nothing, and exits as a program that SIGPIPE ended."""
    script = (
        "import os, sys; from seekpoint.console.cli import main\n"
        "r, w = os.pipe(); os.dup2(w, 1); os.close(w); os.close(r)\n"
        "sys.exit(main(['schema', 'check', '--json']))"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert ran.returncode == 141
    assert ran.stderr == ""


@pytest.mark.parametrize(
    ("redirection", "code", "printed", "error"),
    [
        (">&-", 141, "", "error: standard output is closed\n"),
        ("2>&-", 0, "seekpoint", ""),
        (">&- 2>&-", 141, "", ""),
    ],
)
def test_a_closed_output_stream_gives_an_exit_code_and_no_traceback(
    redirection: str, code: int, printed: str, error: str
) -> None:
    """A shell closes a stream with ``>&-``; Python then has None in place of it."""
    command = f'"$1" -m seekpoint.console --version {redirection}'
    ran = subprocess.run(["sh", "-c", command, "sh", sys.executable], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout[:9], ran.stderr) == (code, printed, error)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["verfy"], "No such command 'verfy'. Did you mean 'verify'? see seekpoint --help"),
        (["ps", "--jorunal", "x"], "--journal"),
        (["state"], "Missing argument 'PROCESS_ID'; see seekpoint state --help"),
        (["state", "a", "--at-seq", "x"], "--at-seq"),
        (["state", "a", "--at-seq", "1", "--at-time", "2"], "one of --at-seq, --at-offset and --at-time"),
        (["state", "a", "--at-seq", "0"], "a seq is a number from 1 on"),
        (["state", "a", "--at-offset", "-1"], "an offset is a number from 0 on"),
        (["state", "a", "--at-time", "yesterday"], "'yesterday' is not a time"),
        (["recover", "a", "--take-over"], "it needs --claim"),
        (["recover", "a", "--accept-degraded"], "it needs --claim"),
        (["up", "--brokers", "2"], "a local cluster has 1 or 3 brokers"),
        (["dlq", "show", "x"], "'x' is not TOPIC:PARTITION:OFFSET"),
        (["log", "a", "--limit", "0"], "--limit"),
    ],
)
def test_a_wrong_command_line_is_a_usage_error(shell: Shell, arguments: list[str], said: str) -> None:
    """Exit code 2, one line that says what is wrong and where help is."""
    ran = shell(*arguments)
    assert ran.code == 2
    assert ran.err.startswith("error: ")
    assert said in ran.err
    assert ran.err.count("\n") == 1
    assert ran.out == ""


def test_no_arguments_show_the_help(shell: Shell) -> None:
    """Also for a noun without its verb; as usage."""
    assert "Run agents" in (ran := shell()).out + ran.err
    assert ran.code == 2
    assert "create" in (ran := shell("topics")).out + ran.err
    assert ran.code == 2


def test_an_invalid_process_id_is_a_usage_error(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """A journal's name; and a process id that nobody can tell from another, before anything is connected to."""
    ran = shell("ps", "--journal", "two words")
    assert ran.code == 2
    assert "journal" in ran.err
    for wrong, shown in [("case\u200b-17", "U+200B"), ("Gru\u0308n", "use Gr\u00fcn"), ("a\x1b[31m", "\\x1b")]:
        ran = shell("state", wrong, "--bootstrap-servers", "127.0.0.1:1")
        assert ran.code == 2
        assert shown in ran.err


def test_every_command_has_a_docstring_that_its_help_shows() -> None:
    """The commands' modules hold functions whose first line is their help."""
    for command in (ps.ps, state.state, verify.verify, topics.create, topics.check, upgrade.upgrade):
        assert inspect.getdoc(command)
