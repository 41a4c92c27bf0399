"""What a projector tells the view of a batch: every call that an entry changed, whatever else it says."""

from __future__ import annotations

from entry_examples import own
from owner_histories import after
from seekpoint.consumers.projector.batch_fold import fold_batch
from seekpoint.schemas import MemoryLog
from seekpoint.schemas import bodies as b
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
