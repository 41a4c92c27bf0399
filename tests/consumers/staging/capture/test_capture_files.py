"""Captures may come from anybody: reading one takes little memory, and fails with one kind of error only."""

from __future__ import annotations

import io
import json
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fastavro
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from seekpoint.consumers.staging.capture.capture_file import META, CaptureFile
from seekpoint.consumers.staging.capture.capture_rows import SCHEMA
from seekpoint.consumers.staging.capture.capture_target import CaptureTarget
from seekpoint.consumers.staging.capture.process_file import ProcessFile
from seekpoint.consumers.staging.copy.headers import ReplayOrigin
from seekpoint.consumers.staging.replay_ports import ReplayTopicFacts
from seekpoint.schemas.errors import ReplayRefused
from seekpoint.schemas.wire.avro_primitives import put_long

PEAK_BYTES_MAX = 24 * 1_048_576
FACTS: dict[str, Any] = {"cluster_id": "c", "topic": "t", "topic_id": "i", "partitions": 2, "schemas": {}, "audit": {}}


def row(offset: int = 0, value: bytes | None = b"v", **more: Any) -> dict[str, Any]:
    place = {"partition": 0, "offset": offset, "source_partition": 0, "source_offset": offset, "timestamp_ms": offset}
    return {**place, "key": b"k", "value": value, "headers": [], **more}


def written(rows: list[Any], schema: Any = SCHEMA, codec: str = "null", **facts: Any) -> bytes:
    out = io.BytesIO()
    fastavro.writer(out, schema, rows, codec=codec, metadata={META: json.dumps({**FACTS, **facts})})
    return out.getvalue()


def block(data: bytes, count: int, sync: bytes, size: int | None = None) -> bytes:
    out = bytearray()
    put_long(out, count)
    put_long(out, len(data) if size is None else size)
    return bytes(out) + data + sync


def encoded(row: dict[str, Any]) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, SCHEMA, row)
    return out.getvalue()


def compressed() -> bytes:
    """50 MB that deflate compresses to 50 kB."""
    return written([row(value=b"\0" * 50_000_000)], codec="deflate")


def many_nulls() -> bytes:
    """A billion rows without bytes."""
    head = written([], schema={"type": "array", "items": "null"})
    items = bytearray()
    put_long(items, 1_000_000_000)
    return head + block(bytes(items) + b"\0", 1, head[-16:])


def many_headers() -> bytes:
    """Headers of two bytes each, which take 300 in Python."""
    head, headers = written([]), bytearray()
    put_long(headers, 400_000)
    return head + block(encoded(row())[:-1] + bytes(headers) + b"\0\0" * 400_000 + b"\0", 1, head[-16:])


def long_block() -> bytes:
    """A block whose header gives a size of 2 GB."""
    head = written([])
    return head + block(b"\0" * 100, 1, head[-16:], size=1 << 31)


def many_rows() -> bytes:
    """More rows than the block has."""
    head = written([])
    return head + block(encoded(row()), 1 << 40, head[-16:])


def many_partitions() -> bytes:
    """The metadata names too many partitions."""
    return written([row()], partitions=10**6)


def deep_schema() -> bytes:
    """A recursion of 100,000."""
    schema: bytes = b'{"type":"array","items":' * 100_000 + b'"null"' + b"}" * 100_000
    out = bytearray(b"Obj\x01")
    put_long(out, 1)
    for text in (b"avro.schema", schema):
        put_long(out, len(text))
        out += text
    return bytes(out) + b"\0" + b"s" * 16


def long_header() -> bytes:
    """An entry of the header with a length of 2 GB."""
    out = bytearray(b"Obj\x01")
    put_long(out, 1)
    put_long(out, 1 << 31)
    return bytes(out)


BOMBS = [compressed, many_nulls, many_headers, long_block, many_rows, many_partitions, deep_schema, long_header]


@pytest.mark.parametrize("bomb", BOMBS)
@pytest.mark.parametrize(
    "read",
    [
        lambda path: CaptureFile(path).watermarks(),
        lambda path: ProcessFile(path),
        lambda path: [*CaptureFile(path).rows()],
    ],
    ids=["replay", "import", "rows"],
)
def test_a_small_file_never_takes_much_memory(
    tmp_path: Path, bomb: Callable[[], bytes], read: Callable[[Path], Any]
) -> None:
    """Each first read of a capture refuses the file: replay, import and replay-check."""
    path = tmp_path / "bomb.capture"
    path.write_bytes(bomb())
    assert path.stat().st_size < 3_000_000
    tracemalloc.start()
    try:
        with pytest.raises(ReplayRefused) as caught:
            read(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert caught.value.facts["path"] == str(path)
    assert peak < PEAK_BYTES_MAX


def test_a_compressed_capture_says_what_to_do(tmp_path: Path) -> None:
    """The error names the codec and what to do."""
    path = tmp_path / "x.capture"
    path.write_bytes(written([row()], codec="deflate"))
    with pytest.raises(ReplayRefused, match="without compression"):
        CaptureFile(path)


def test_rows_of_another_schema_are_refused(tmp_path: Path) -> None:
    """Such rows could be parsed, but their fields would be mixed up."""
    first, offset, second, source_offset, *rest = SCHEMA["fields"]
    path = tmp_path / "x.capture"
    path.write_bytes(written([row()], schema={**SCHEMA, "fields": [first, source_offset, second, offset, *rest]}))
    with pytest.raises(ReplayRefused, match="not a capture"):
        CaptureFile(path)


def test_a_capture_of_any_tool_is_read_as_fastavro_reads_it(tmp_path: Path) -> None:
    """Blocks of any size, nulls, headers, large and negative numbers are read."""
    rows = [
        row(number, b"x" * (number * 97) if number % 3 else None, headers=[{"name": "é", "value": None}] * (number % 4))
        for number in range(200)
    ]
    rows += [row(2**62, b"", key=None, timestamp_ms=-5), row(2**62 + 1, b"", partition=1)]
    path = tmp_path / "x.capture"
    path.write_bytes(written(rows))
    capture = CaptureFile(path)
    with path.open("rb") as file:
        assert [*capture.rows()] == [*fastavro.reader(file)] == rows
    watermarks = capture.watermarks()
    assert [(mark.low, mark.high) for mark in watermarks.values()] == [(0, 2**62 + 1), (2**62 + 1, 2**62 + 2)]
    assert (capture.offset_at(0, 100), capture.offset_at(1, 1 << 62), capture.offset_at(7, 0)) == (100, 2**62 + 1, None)


WHOLE = written([row(number, headers=[{"name": "h", "value": b"x"}]) for number in range(20)])


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.integers(0, len(WHOLE) - 1), st.binary(min_size=0, max_size=4), st.booleans())
def test_a_damaged_capture_is_refused_or_read(tmp_path: Path, at: int, put: bytes, cut: bool) -> None:
    """No other error is raised."""
    path = tmp_path / "x.capture"
    path.write_bytes(WHOLE[:at] + put + (b"" if cut else WHOLE[at + len(put) :]))
    try:
        capture = CaptureFile(path)
        assert len([*capture.rows()]) <= 20
        capture.watermarks()
        capture.schemas()
        capture.facts()
    except ReplayRefused as exc:
        assert exc.facts["path"] == str(path)  # noqa: PT017  # some damage does not matter


def test_a_record_too_large_to_be_read_back_is_refused(tmp_path: Path) -> None:
    """The writer refuses a record that is too large for the reader."""
    target = CaptureTarget(
        tmp_path / "x.capture", ReplayTopicFacts(cluster_id="c", topic="t", topic_id="i", partitions=1)
    )
    sender = target.sender(linger_ms=0)
    origin = ReplayOrigin("job", "c/t", 0, 7, 5).headers()
    with pytest.raises(ReplayRefused, match="too large for a capture"):
        sender.produce(b"\0" * (32 * 1_048_576 + 1), b"k", 0, lambda *_: None, 5, origin)
    sender.produce(b"\0" * (32 * 1_048_576), b"k", 0, lambda *_: None, 5, origin)
    sender.finish()
    assert [len(one["value"]) for one in CaptureFile(tmp_path / "x.capture").rows()] == [32 * 1_048_576]
