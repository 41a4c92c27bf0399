"""``seekpoint topics | dlq | upgrade | schema`` on a real Kafka, and what a wrong word costs: output and exit codes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from seekpoint.schemas.config.settings import Settings
from shells import Shell

pytestmark = pytest.mark.cluster

PointAt = Callable[[Settings], None]


def test_topics_are_created_and_checked(shell: Shell, settings: Settings, point_at: PointAt) -> None:
    """Missing: a fault with the command; created: fine, but for the replicas of a single broker; again: the same."""
    point_at(settings)
    ran = shell("topics", "check")
    assert ran.code == 1
    assert "seekpoint topics create" in ran.out
    assert len(shell("topics", "check", "--json").json["findings"]) == 8
    ran = shell("topics", "create")
    assert (ran.code, ran.out) == (0, f"journal {settings.journal}: 4 partitions, format 2\n")
    assert "warning: replication factor is 1, not 3 (8 topics)" in ran.err
    assert shell("topics", "create", "--json").json["partitions"] == 4
    ran = shell("topics", "check")
    assert ran.code == 0
    assert [line.split()[:3] for line in ran.out.splitlines()[1:]] == [["warning", "8", "topics"]]
    assert shell("topics", "check", "--json").json["ok"] is True


def test_topics_with_other_settings_are_refused(
    shell: Shell, journal: Settings, point_at: PointAt, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is altered."""
    point_at(journal)
    monkeypatch.setenv("SEEKPOINT_PARTITIONS", "16")
    ran = shell("topics", "create")
    assert ran.code == 1
    assert "partitions" in ran.err
    assert shell("topics", "check").code == 1


@pytest.mark.usefixtures("on_cases")
def test_dead_letters_are_listed_and_shown(shell: Shell) -> None:
    """Once a reader has met them; their bytes cannot steer the terminal."""
    assert shell("ps").code == 0
    [letter] = shell("dlq", "ls", "--json").json["letters"]
    ran = shell("dlq", "ls")
    assert ran.code == 0
    assert ran.out.splitlines()[1].startswith(letter["place"])
    ran = shell("dlq", "show", letter["place"])
    assert ran.code == 0
    assert "6a 75 6e 6b 1b 5b 33 31 6d" in ran.out
    assert "\x1b" not in ran.out
    short = f"{letter['partition']}:{letter['offset']}"
    shown = shell("dlq", "show", short, "--json").json
    assert shown.pop("readable")["form"] == "text without the header of an entry"
    assert shown == letter


def test_an_empty_list_of_dead_letters_is_reported(shell: Shell, journal: Settings, point_at: PointAt) -> None:
    """Nothing on stdout."""
    point_at(journal)
    ran = shell("dlq", "ls")
    assert (ran.code, ran.out) == (0, "")
    assert "no dead letters" in ran.err


@pytest.mark.usefixtures("on_cases")
def test_upgrade_of_a_current_journal_changes_nothing(shell: Shell) -> None:
    """There is one format."""
    ran = shell("upgrade")
    assert ran.code == 0
    assert "format 2 is current" in ran.out
    found = shell("upgrade", "--dry-run", "--json").json
    assert (found["format"], found["newest"], found["raised"], found["dry_run"]) == (2, 2, False, True)


def test_schemas_are_checked_without_kafka(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fine now; a release whose records cannot be read any more is a fault."""
    from seekpoint.schemas.wire import compatibility

    monkeypatch.setenv("SEEKPOINT_BOOTSTRAP_SERVERS", "127.0.0.1:1")
    ran = shell("schema", "check")
    assert (ran.code, ran.out) == (0, "")
    assert shell("schema", "check", "--json").json == {"ok": True, "findings": []}
    broken = [compatibility.CompatibilityFinding("0.1.0", "Signal.name is gone")]
    monkeypatch.setattr(compatibility, "check_compatibility", lambda: broken)
    ran = shell("schema", "check")
    assert ran.code == 1
    assert "Signal.name is gone" in ran.out
    assert shell("schema", "check", "--json").json["findings"][0]["release"] == "0.1.0"


@pytest.mark.usefixtures("on_cases")
@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["state", "nobody"], 1),
        (["log", "nobody"], 1),
        (["recover", "nobody"], 1),
        (["dlq", "show", "0:999"], 1),
        (["state", "bad\x1bname"], 2),
        (["state", "case-1", "--at-seq", "99"], 4),
        (["state", "case-1", "--at-offset", "9999"], 4),
        (["state", "case-1", "--at-time", "1"], 4),
        (["ps", "--journal", "nobodys"], 1),
        (["upgrade", "--journal", "nobodys"], 1),
        (["ps", "--bootstrap-servers", "127.0.0.1:1"], 3),
        (["topics", "create", "--bootstrap-servers", "127.0.0.1:1"], 3),
    ],
)
def test_each_missing_thing_has_its_exit_code(shell: Shell, arguments: list[str], code: int) -> None:
    """One line on stderr, nothing on stdout, no traceback."""
    ran = shell(*arguments)
    assert ran.code == code
    assert ran.out == ""
    assert ran.err.splitlines()[-1].startswith("error: ")
    assert "Traceback" not in ran.err
    assert "\x1b" not in ran.err
