"""The list of processes from the log alone: bounded in memory, whatever the states need."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from consoles import file_settings
from entry_examples import an_id, claim, own
from seekpoint.console.services.arguments.target import CommandTarget
from seekpoint.console.web.data.log_source import LogSource
from seekpoint.schemas import bodies as b
from seekpoint.schemas.bodies.entry import Entry
from written_journals import write_entries

PROCESSES = 120


def _round(number: int) -> Iterator[Entry]:
    """One more entry of each process, of 2 kB; in round 0 the claims."""
    for process in range(PROCESSES):
        mine = claim(process + 1)._replace(process_id=f"case-{process:03}")
        if number == 0:
            yield mine
            continue
        body = b.ContextUpdated(f"key-{number}", f'"{"x" * 2_000}"')
        entry = own(number, b.Finished() if number == 3 and process % 2 else body, claim_id=process + 1)
        yield entry._replace(process_id=mine.process_id, id=an_id(1_000_000 + number * 1_000 + process))


def test_few_states_are_in_memory_and_the_list_is_the_same(tmp_path: Path) -> None:
    """After the first read, and after more entries of processes whose states were in the file."""
    settings = file_settings(tmp_path)
    url = f"sqlite:///{settings.sqlite_path}"
    for number in (0, 1, 2):
        write_entries(settings, _round(number))
    with closing(CommandTarget(None, None, None, url)) as target:
        small, large = LogSource(target, bytes_max=200_000), LogSource(target)
        found = small.load()
        assert len(found) == PROCESSES
        assert found == large.load()
        assert small.drafts_in_memory < PROCESSES / 2 < PROCESSES == large.drafts_in_memory
        for number in (3, 4):
            write_entries(settings, _round(number))
            changed = small.changed()
            assert len(changed) == PROCESSES
            assert changed == large.changed()
            assert small.changed() == large.changed() == {}
            assert small.drafts_in_memory < PROCESSES / 2
        whole = LogSource(target)
        assert {key: one.seq for key, one in whole.load().items()} == {key: one.seq for key, one in changed.items()}
        for source in (small, large, whole):
            source.close()
