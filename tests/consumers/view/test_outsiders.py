"""One record by an outsider, as a projector meets it: the batch is folded, the view gets it, neighbours go on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from entry_examples import PROCESS_ID, claim, own
from example_counts import examples
from outside_entries import STATES, WHOLE, outsiders
from seekpoint.consumers.projector.batch_fold import fold_batch
from seekpoint.consumers.view.view_rows import (
    attachment_fields,
    call_fields,
    fold_fields,
    frame_fields,
    head_of,
    mail_of,
    message_row,
)
from seekpoint.schemas import bodies as b
from seekpoint.schemas.bodies.entry import Entry
from seekpoint.schemas.folding.fold import fold
from seekpoint.schemas.log.log_ports import Record
from seekpoint.schemas.log.memory_log import MemoryLog
from seekpoint.schemas.state.process_state import State
from seekpoint.schemas.wire.codec import encode

LOG, KEY = MemoryLog(1), PROCESS_ID.encode()


def records_of(entries: list[Entry], first: int) -> list[Record]:
    """Return the entries as records of the log."""
    return [
        Record(0, offset, 0, entry.process_id.encode(), encode(entry)) for offset, entry in enumerate(entries, first)
    ]


@pytest.mark.parametrize("name", [name for name in STATES if name != "shared"])
@given(data=st.data())
@settings(max_examples=examples(100))
def test_a_batch_with_an_outsiders_entries_is_folded_and_can_be_written(name: str, data: st.DataObject) -> None:
    """Every difference is marked, so the view has the state. Another process in the batch is not affected."""
    base = STATES[name]
    entries = data.draw(st.lists(outsiders(base), min_size=1, max_size=3))
    neighbour = claim(7)._replace(process_id="neighbour")
    expected = base
    for offset, entry in enumerate(entries, base.offset + 1):
        expected = fold(expected, offset, entry)
    bases = {KEY: base if base.offset >= 0 else None, b"neighbour": None}
    touched, _ = fold_batch(records_of([*entries, neighbour], base.offset + 1), bases, LOG, True)
    assert touched[b"neighbour"].draft.epoch == 1
    change = touched[KEY].change(KEY)
    assert change.state == expected
    written(change.state)
    if not change.whole:
        assert _differing(base.values_json, expected.values_json) <= change.context_keys
        assert _differing(base.calls, expected.calls) <= change.call_keys
        assert _differing(base.attachments, expected.attachments) <= change.digests
        assert _differing(base.attached_at, expected.attached_at) <= change.digests
        assert all(type(key) is str for key in (*change.context_keys, *change.call_keys))
        assert change.mail or (base.mailbox, base.remembered) == (expected.mailbox, expected.remembered)


def _differing(before: Mapping[str, Any], after: Mapping[str, Any]) -> set[str]:
    return {key for key in (*before.keys(), *after.keys()) if before.get(key) != after.get(key)}


def written(state: State) -> None:
    """The view can store the row."""
    _ = head_of(state), mail_of(state), frame_fields(state), fold_fields(state)
    call_fields(state, state.calls.keys(), [], [])
    attachment_fields(state, state.attachments, [], [])
    for said in state.conversation.bodies():
        message_row(said)


@pytest.mark.parametrize("deleted", ['[{"a":1}]', "[1]", '{"a:1":1}', '{"$tuple":["a:1"]}', '"a:1"', "5", "null"])
def test_a_batch_that_removes_what_is_no_key_is_a_misfit(deleted: str) -> None:
    """Applied, it would stop the projector, which marks the removed keys."""
    entry = own(WHOLE.seq + 1, b.ContentBatch(False, {"b": "1"}, deleted, "[]"))
    touched, _ = fold_batch(records_of([entry], WHOLE.offset + 1), {KEY: WHOLE}, LOG, True)
    state = touched[KEY].draft.snapshot()
    assert state.degraded is not None
    assert state.degraded.reason == "illegal_content"
    assert state.values_json == WHOLE.values_json
