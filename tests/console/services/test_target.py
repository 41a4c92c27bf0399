"""Which Kafka a command works on: what was said, else the local cluster, else a word about what to start."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from seekpoint.console.services.arguments import target as target_module
from seekpoint.console.services.arguments.target import CommandTarget
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.errors import JournalUnavailable
from shells import Shell

pytestmark = pytest.mark.usefixtures("shell")


@pytest.fixture
def local(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A local cluster runs, or seems to."""
    cluster: Any = SimpleNamespace(
        directory=tmp_path / ".seekpoint", bootstrap_servers="127.0.0.1:7777", redis_url="redis://127.0.0.1:8888/0"
    )
    monkeypatch.setattr(target_module, "running_cluster", lambda: cluster)


def settings(*given: str | None) -> Settings:
    journal, servers, config = (*given, None, None, None)[:3]
    return CommandTarget(journal, servers, Path(config) if config else None).settings


@pytest.mark.usefixtures("local")
def test_a_running_local_cluster_is_found_and_named(capsys: pytest.CaptureFixture[str]) -> None:
    """With its Redis; stderr says so."""
    found = settings("fleet")
    assert (found.journal, found.bootstrap_servers, found.redis_url) == (
        "fleet",
        "127.0.0.1:7777",
        "redis://127.0.0.1:8888/0",
    )
    assert capsys.readouterr().err == "using the local cluster in .seekpoint\n"


@pytest.mark.usefixtures("local")
@pytest.mark.parametrize("way", ["option", "environment", "toml", "config"])
def test_options_win_over_the_local_cluster(
    way: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """By an option, the environment, ``seekpoint.toml`` or another file. A file that nobody named is told."""
    if way == "environment":
        monkeypatch.setenv("SEEKPOINT_BOOTSTRAP_SERVERS", "there:1")
    if way in ("toml", "config"):
        Path("seekpoint.toml" if way == "toml" else "other.toml").write_text('bootstrap_servers = "there:1"\n')
    found = settings(None, "there:1" if way == "option" else None, "other.toml" if way == "config" else None)
    assert found.bootstrap_servers == "there:1"
    assert found.redis_url == Settings().redis_url
    assert capsys.readouterr().err == ("using the settings in seekpoint.toml\n" if way == "toml" else "")


def test_a_command_names_the_file_of_the_environment(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A variable that was exported long ago is easily forgotten."""
    Path("other.toml").write_text('bootstrap_servers = "there:1"\n')
    monkeypatch.setenv("SEEKPOINT_CONFIG", "other.toml")
    assert settings().bootstrap_servers == "there:1"
    assert capsys.readouterr().err == "using the settings in other.toml\n"


def test_a_hostile_file_in_the_working_directory_loads_nothing(shell: Shell) -> None:
    """The command names the file, the option and the way, before it connects anywhere; naming the file allows it."""
    Path("seekpoint.toml").write_text('bootstrap_servers = "127.0.0.1:1"\nfolds = ["evil"]\n')
    Path("evil.py").write_text("raise SystemExit(77)\n")
    ran = shell("ps")
    assert ran.code == 2
    for word in ("seekpoint.toml", "folds", "--config seekpoint.toml", "SEEKPOINT_CONFIG=seekpoint.toml"):
        assert word in ran.err
    assert "using the settings" not in ran.err
    assert shell("ps", "--config", "seekpoint.toml").code == 3
    Path("seekpoint.toml").write_text('bootstrap_servers = "127.0.0.1:1"\n')
    assert shell("ps").err.count("using the settings in seekpoint.toml") == 1


@pytest.mark.usefixtures("local")
def test_a_configured_redis_is_used_with_the_local_kafka(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only what nobody said is taken from the cluster."""
    monkeypatch.setenv("SEEKPOINT_REDIS_URL", "none")
    found = settings()
    assert (found.bootstrap_servers, found.redis_url) == ("127.0.0.1:7777", None)


def test_variables_of_the_command_line_are_not_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program in the same shell must not stumble over ``SEEKPOINT_HOME`` and ``SEEKPOINT_DEBUG``."""
    monkeypatch.setenv("SEEKPOINT_HOME", "/somewhere")
    monkeypatch.setenv("SEEKPOINT_DEBUG", "1")
    assert Settings.load() == Settings()


def test_a_misspelt_setting_is_a_usage_error(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """The nearest one is named."""
    monkeypatch.setenv("SEEKPOINT_JORNAL", "x")
    ran = shell("ps")
    assert ran.code == 2
    assert "did you mean SEEKPOINT_JOURNAL?" in ran.err


def test_without_a_cluster_the_error_names_the_command_that_starts_one(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At once, and not after the client's time-out."""
    monkeypatch.setattr("seekpoint.consumers.kafka.reach.reach", lambda servers: [f"{servers} connection refused"])
    ran = shell("ps")
    assert ran.code == 3
    assert "seekpoint up (start one on this machine)" in ran.err
    Path(".seekpoint").mkdir()
    assert "seekpoint up (it was stopped)" in shell("ps").err


def test_a_wrong_address_exits_as_unreachable(shell: Shell) -> None:
    """Each address that was tried is named with its reason; `seekpoint up` would be no help there."""
    ran = shell("state", "x", "--bootstrap-servers", "127.0.0.1:1")
    assert ran.code == 3
    assert "127.0.0.1:1 connection refused" in ran.err
    assert "seekpoint up" not in ran.err


def test_a_stopped_cluster_of_this_folder_is_named_beside_its_old_address(shell: Shell, tmp_path: Path) -> None:
    """``seekpoint down`` leaves the variables of ``seekpoint up`` in the shell."""
    (tmp_path / ".seekpoint").mkdir()
    assert 'starts again with eval "$(seekpoint up)"' in shell("ps", "--bootstrap-servers", "127.0.0.1:1").err


def test_a_target_that_was_not_used_closes_without_a_connection() -> None:
    """Closing connects to nothing."""
    target = CommandTarget(None, "127.0.0.1:1", None)
    target.close()
    with pytest.raises(JournalUnavailable):
        target.reachable()
