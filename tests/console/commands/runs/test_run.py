"""``seekpoint run | replay-check``: an agent's code on this machine, and against a history. On a log in memory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from console_on_memory import OnMemory, on
from seekpoint.consumers.view.memory_view import MemoryView
from seekpoint.consumers.view.view_store import Change
from seekpoint.producers.opening import wait_for_death_s
from seekpoint.schemas import MemoryLog
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.errors import ViewUnavailable
from seekpoint.schemas.log.partition import partition_of
from seekpoint.schemas.state.process_state import new_state
from shells import Shell


def test_an_agent_is_run_and_its_history_checked(seekpoint: Shell, log: MemoryLog) -> None:
    """``run`` does, ``replay-check`` does nothing; changed code is 1."""
    ran = seekpoint("run", "p", "--agent", "touching:touching", "--input", '{"name": "made"}')
    assert (ran.code, ran.json) == (0, "made")
    Path("made").unlink()
    other_input = seekpoint("run", "p", "--agent", "touching:touching", "--input", '{"name": "other"}')
    assert (other_input.code, "began with another input" in other_input.err, other_input.out) == (4, True, "")
    other_agent = seekpoint("run", "p", "--agent", "touching:breaking")
    assert (other_agent.code, "another agent's" in other_agent.err, other_agent.out) == (4, True, "")
    assert seekpoint("run", "p", "--agent", "touching:touching", "--json").json == {"process_id": "p", "result": "made"}
    same = seekpoint("replay-check", "p", "--agent", "touching:touching")
    assert (same.code, same.out) == (0, "p: 1 call replayed, to the result\n")
    other = seekpoint("replay-check", "p", "--agent", "touching:changed")
    assert other.code == 1
    assert "kind        input\nkey         touch:1\n" in other.out
    assert 'difference  $.arguments[0]: "made" is now "made-2"\n' in other.out
    assert "recorded by toucher 3, checked with 4" in other.err
    found = seekpoint("replay-check", "p", "--agent", "touching:changed", "--json")
    assert (found.code, found.json["ok"], found.json["divergence"]["key"]) == (1, False, "touch:1")
    assert found.json["divergence"]["difference"] == '$.arguments[0]: "made" is now "made-2"'
    assert not list(Path().glob("made*"))


def test_run_reports_the_failure_of_an_agent(seekpoint: Shell, log: MemoryLog) -> None:
    """As its own failure, not as a fault of Seekpoint's; it is recorded, and the check ends there."""
    failed = seekpoint("run", "p", "--agent", "touching:breaking", "--new")
    assert (failed.code, "the agent failed: ValueError: no such order" in failed.err) == (1, True)
    assert "report" not in failed.err
    assert on(log, lambda node: node.recover("p")).state.lifecycle == "failed"
    shown = seekpoint("state", "p")
    assert "last error, at seq" in shown.out
    assert "ValueError: no such order\n  touching.py:" in shown.out
    assert ", in breaking: raise ValueError(" in shown.out
    assert seekpoint("state", "p", "--json").json["failure"]["type"] == "ValueError"
    assert "to the recorded failure" in seekpoint("replay-check", "p", "--agent", "touching:breaking").out


def test_a_failed_call_is_repeated_on_request(seekpoint: Shell) -> None:
    """What a failed run says to do is true: run again it fails again, with the option it goes on."""
    for how in ("--new", "--resume"):
        failed = seekpoint("run", "p", "--agent", "touching:paying", how)
        assert failed.code == 1
        assert "FileNotFoundError" in failed.err
        assert ", in pay: Path(name).read_text()\n" in seekpoint("state", "p").out  # not the line that asked for it
        assert "pay:1 stays failed until you run it with --retry-failed" in failed.err
    Path("money").touch()
    paid = seekpoint("run", "p", "--agent", "touching:paying", "--retry-failed")
    assert (paid.code, paid.json) == (0, "paid")


def test_an_export_is_checked_without_a_journal(
    seekpoint: Shell, log: MemoryLog, move_to: Callable[[MemoryLog], None]
) -> None:
    """So a build needs no way to production."""
    seekpoint("run", "p", "--agent", "touching:touching", "--input", '{"name": "made"}')
    seekpoint("export", "p", "p.spk")
    move_to(MemoryLog(partitions=1))
    assert seekpoint("replay-check", "--history", "p.spk", "--agent", "touching:touching").code == 0
    assert seekpoint("replay-check", "--history", "p.spk", "--agent", "touching:changed").code == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ("--agent", "touching"),
        ("--agent", "nowhere:run"),
        ("--agent", "touching:nothing"),
        ("--agent", "touching:plain"),
    ],
)
def test_an_object_that_is_not_an_agent_is_refused(seekpoint: Shell, arguments: tuple[str, ...]) -> None:
    """As a mistake on the command line."""
    for command in ("run", "replay-check"):
        found = seekpoint(command, "p", *arguments)
        assert (found.code, "--agent" in found.err) == (2, True)


def test_mistakes_in_the_arguments_are_reported(seekpoint: Shell) -> None:
    """Before anything is done."""
    given = ("--agent", "touching:touching")
    assert seekpoint("run", "p", *given, "--input", "{no json").code == 2
    assert seekpoint("replay-check", *given).code == 2
    assert seekpoint("replay-check", "p", "--history", "p.spk", *given).code == 2
    assert seekpoint("replay-check", "p", *given, "--detail", "some").code == 2
    assert seekpoint("replay-check", "nobody", *given).code == 1


def test_run_waits_until_the_owner_timeout_of_a_killed_owner() -> None:
    """The start page kills a run and starts it again at once: with a shorter wait, that would be refused."""
    settings = Settings()
    assert wait_for_death_s(settings) > settings.owner_timeout_s + settings.heartbeat_interval_s


def test_a_mistyped_id_starts_nothing(seekpoint: Shell, log: MemoryLog) -> None:
    """Where neither an input nor --new says that a start is meant, nothing is written."""
    given = ("--agent", "touching:touching")
    for how in ((), ("--resume",), ("--resume", "--input", '{"name": "made"}')):
        ran = seekpoint("run", "p", *given, *how)
        assert (ran.code, "no such process, nothing was started" in ran.err, "--new" in ran.err) == (1, True, True)
    unfed = seekpoint("run", "p", *given, "--new")
    assert (unfed.code, "the agent needs an input, nothing was run" in unfed.err, "--input" in unfed.err) == (
        4,
        True,
        True,
    )
    assert seekpoint("run", "p", *given, "--new", "--resume").code == 2
    assert [log.watermarks(partition).high for partition in range(log.partitions)] == [0, 0]
    assert not Path("made").exists()


def test_new_starts_only_new_processes_and_resume_only_existing_ones(seekpoint: Shell, log: MemoryLog) -> None:
    """A process that exists is run by --resume, or by its id alone."""
    given = ("--agent", "touching:touching")
    assert seekpoint("run", "p", *given, "--new", "--input", '{"name": "made"}').json == "made"
    ends = [log.watermarks(partition).high for partition in range(log.partitions)]
    again = seekpoint("run", "p", *given, "--new", "--input", '{"name": "made"}')
    assert (again.code, "the process exists" in again.err, "--resume" in again.err) == (4, True, True)
    for how in ((), ("--resume",), ("--resume", "--input", '{"name": "made"}'), ("--input", '{"name": "made"}')):
        assert seekpoint("run", "p", *given, *how).json == "made"
    assert [log.watermarks(partition).high for partition in range(log.partitions)] == ends


def test_the_error_for_a_mistyped_id_names_similar_ids(
    seekpoint: Shell, log: MemoryLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the view's first page; a view that does not answer is no further error."""
    view = MemoryView(2)
    for partition in range(2):
        view.ready(partition, view.install(partition, log.topic_id), applied=-1, leader_epoch=-1)
    state = new_state()
    partition = partition_of(b"order-1", 2)
    token = view.install(partition, log.topic_id)
    view.ready(partition, token, applied=-1, leader_epoch=-1)
    view.write(partition, token, 0, 0, -1, [Change(key=b"order-1", state=state, whole=True)])
    monkeypatch.setattr(OnMemory, "view", view)
    for command in (
        ("run", "ordr-1", "--agent", "touching:touching"), ("approve", "ordr-1", "refund"), ("steps", "ordr-1"),
    ):  # fmt: skip
        assert "did you mean order-1?" in seekpoint(*command).err
        assert "did you mean" not in seekpoint(command[0], "zzz", *command[2:]).err

    def silent(*_: object, **__: object) -> None:
        raise ViewUnavailable("Redis is silent")

    monkeypatch.setattr("seekpoint.consumers.view_browser.View.list", silent)
    assert "error: no such process" in seekpoint("approve", "ordr-1", "refund").err


@pytest.mark.parametrize("command", ["run", "worker"])
def test_prices_from_a_file_cost_model_calls(seekpoint: Shell, log: MemoryLog, command: str) -> None:
    """900 tokens in and 40 out, at 2 and 10 USD a million."""
    Path("prices.toml").write_text('["small"]\ninput = "2"\noutput = "10"\n')
    if command == "run":
        ran = seekpoint("run", "p", "--agent", "priced:priced", "--new", "--prices", "prices.toml")
        assert (ran.code, ran.json) == (0, "yes")
        [call] = seekpoint("steps", "p", "--json").json["calls"]
        assert call["cost_usd"] == "0.0022"
    without = seekpoint(command, *_AGENT[command], "--prices", "none.toml")
    assert (without.code, "none.toml cannot be read" in without.err) == (2, True)


_AGENT = {"run": ["q", "--agent", "priced:priced", "--new"], "worker": ["priced"]}
