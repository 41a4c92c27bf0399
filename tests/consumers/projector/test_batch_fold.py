"""What a projector tells the view of a batch: every call that an entry changed, whatever else it says."""

from __future__ import annotations

from entry_examples import external, own
from owner_histories import after
from seekpoint.consumers.projector.batch_fold import fold_batch
from seekpoint.schemas import MemoryLog
from seekpoint.schemas import bodies as b
from seekpoint.schemas.folding.fold import fold
from seekpoint.schemas.log.log_ports import Record
from seekpoint.schemas.log.partition import partition_of
from seekpoint.schemas.wire.codec import encode


def test_calls_that_are_set_aside_are_in_the_change() -> None:
    """The view must not keep their failures. Other calls are not written again."""
    failed = b.StepEnded(key="a:1", outcome="failed", error="{}", position=1, digest="d")
    kept = b.StepEnded(key="b:1", outcome="succeeded", output="1", position=2, digest="d")
    base = after(failed, kept)
    entry = own(base.seq + 1, b.CallsSetAside('["a:1"]'))
    key, log = entry.process_id.encode(), MemoryLog(partitions=1)
    record = Record(partition_of(key, 1), base.offset + 1, 0, key, encode(entry))
    touched, poison = fold_batch([record], {key: base}, log, after_invocation=False)
    change = touched[key].change(key)
    assert (poison, change.whole, change.call_keys) == ([], False, frozenset({"a:1"}))
    assert change.state.calls["a:1"].status == "started"


def test_a_change_has_the_time_of_its_newest_entry() -> None:
    """As the fold sets it, also where the newest entries are no owner's, were applied before, or count for nothing."""
    owned = [own(seq)._replace(ts=1_000 + seq) for seq in (2, 3)]
    signal = external(b.Signal("go"), 77)._replace(ts=5)
    base = after(b.ContextUpdated("a", "1"))
    key, log = owned[0].process_id.encode(), MemoryLog(partitions=1)
    for entries in (owned, [owned[0], signal], [signal, owned[0]], [*owned, owned[0]], [owned[0], signal, signal]):
        records = [Record(0, base.offset + at, 0, key, encode(one)) for at, one in enumerate(entries, 1)]
        skipped = Record(0, base.offset, 0, key, encode(own(1)._replace(ts=9)))
        touched, _ = fold_batch([*records, skipped], {key: base}, log, after_invocation=False)
        state = touched[key].change(key).state
        expected = base
        for at, one in enumerate(entries, 1):
            expected = fold(expected, base.offset + at, one)
        newest = [one for at, one in enumerate(entries) if one not in entries[:at]][-1]
        assert (state.updated_us, state) == (newest.ts, expected)


def test_an_entry_that_counts_for_nothing_moves_no_time_of_the_state() -> None:
    """Not even one whose own time the state would keep."""
    started = b.AgentStarted("agent", "", "", "1")
    base = after(started)
    assert started.IS_TIMED
    repeated = own(base.seq, started)._replace(ts=base.updated_us + 99)
    key, log = repeated.process_id.encode(), MemoryLog(partitions=1)
    record = Record(0, base.offset + 1, 0, key, encode(repeated))
    touched, _ = fold_batch([record], {key: base}, log, after_invocation=False)
    assert touched[key].change(key).state == fold(base, base.offset + 1, repeated)
