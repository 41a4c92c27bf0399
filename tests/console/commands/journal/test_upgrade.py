"""``seekpoint upgrade``: what it does with a journal of an older format, and with a current one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from consoles import file_settings
from older_journals import old_file, old_kafka_journal
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.log.manifest import FORMAT
from shells import Shell


def upgrades(shell: Shell, *journal: str) -> None:
    """A dry run changes nothing, the first one raises the format, the next one has nothing to do."""
    for _ in range(2):
        ran = shell("upgrade", "--dry-run", *journal)
        assert (ran.code, f"would be raised from format 1 to {FORMAT}" in ran.out) == (0, True)
        found = shell("upgrade", "--dry-run", "--json", *journal).json
        assert (found["format"], found["newest"], found["raised"], found["dry_run"]) == (1, FORMAT, False, True)
    assert shell("upgrade", "--json", *journal).json["raised"] is True
    ran = shell("upgrade", *journal)
    assert (ran.code, f"format {FORMAT} is current, nothing to do" in ran.out) == (0, True)
    assert shell("upgrade", "--json", *journal).json["raised"] is False


def test_upgrade_raises_the_format_of_a_file(shell: Shell, tmp_path: Path) -> None:
    """Before, a command that writes is refused with the advice; ``ps`` reads."""
    settings = file_settings(tmp_path)
    old_file(settings)
    where = ("--journal-url", str(settings.journal_url))
    ran = shell("signal", "somebody", "wake", "--in-advance", *where)
    assert ran.code == 1
    assert "run seekpoint upgrade" in ran.err
    assert shell("ps", *where).code == 0
    upgrades(shell, *where)
    assert shell("submit", "new", "--agent", "greeter", *where).code == 0


@pytest.mark.cluster
def test_upgrade_raises_the_format_of_a_journal_on_kafka(
    shell: Shell, settings: Settings, point_at: Callable[[Settings], None]
) -> None:
    """The schema and the manifest are written anew."""
    point_at(settings)
    old_kafka_journal(settings)
    upgrades(shell)
