"""The parts of a MessagePack map, found without decoding them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ormsgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seekpoint.adapters.migration.msgpack_spans import array_of, is_snapshot, map_of, map_parts
from seekpoint.errors import UndecodableRecord

EXTENSIONS: Any = st.builds(ormsgpack.Ext, st.integers(0, 127), st.binary(max_size=300))
LEAVES = (
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text(max_size=70)
    | st.binary(max_size=300) | EXTENSIONS
)  # fmt: skip
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=17) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(st.text(max_size=40), VALUES, max_size=17))
def test_each_part_of_a_map_has_its_own_bytes(values: dict[str, Any]) -> None:
    """Whatever is in it: the parts are what each value alone is packed to, and make the map again."""
    packed = ormsgpack.packb(values)
    parts = map_parts(packed)
    assert parts == {name: ormsgpack.packb(value) for name, value in values.items()}
    assert map_parts(map_of(parts)) == parts
    kept = {name: value for name, value in values.items() if not has_extension(value)}
    assert ormsgpack.packb(ormsgpack.unpackb(map_of({name: parts[name] for name in kept}))) == ormsgpack.packb(kept)


def has_extension(value: Any) -> bool:
    """Return whether a value has an extension, which unpacking needs a function for."""
    if isinstance(value, dict):
        return any(map(has_extension, value.values()))
    return isinstance(value, ormsgpack.Ext) or (isinstance(value, list) and any(map(has_extension, value)))


@given(st.lists(st.integers(), max_size=20).map(lambda rows: [row % 2**63 for row in rows]))
def test_an_array_is_made_of_its_items(rows: list[int]) -> None:
    """The items keep their bytes."""
    assert ormsgpack.unpackb(array_of(map(ormsgpack.packb, rows))) == rows


def test_sizes_of_every_width_are_read() -> None:
    """Texts, bytes, extensions, arrays and maps with sizes of one, two and four bytes."""
    extension: Any = ormsgpack.Ext
    made: dict[str, Callable[[int], Any]] = {
        "text": lambda size: "x" * size,
        "bytes": bytes,
        "ext": lambda size: extension(5, bytes(size)),
        "array": lambda size: [None] * size,
        "map": lambda size: {str(one): 1.5 for one in range(size)},
    }
    values = {f"{kind}-{size}": make(size) for size in (0, 1, 40, 300, 70_000) for kind, make in made.items()}
    assert map_parts(ormsgpack.packb(values)) == {name: ormsgpack.packb(value) for name, value in values.items()}


@pytest.mark.parametrize("data", [b"", b"\x93\x01", b"\x81\x01\x02", b"\x81\xc1\x02", b"\x82\xa1a\x01", b"\x80\x80"])
def test_what_is_no_map_is_refused(data: bytes) -> None:
    """Nothing, an array, a map with a number as its key, no type, half a map, something behind it."""
    with pytest.raises(UndecodableRecord, match="not the MessagePack map"):
        map_parts(data)


def test_a_cut_map_is_refused() -> None:
    """Each beginning of a map is an error, and never other values."""
    packed = ormsgpack.packb({"a": [1, 2.5, "text", b"bytes"], "b": {"c": ormsgpack.Ext(5, b"data")}})
    for size in range(len(packed)):
        with pytest.raises(UndecodableRecord):
            map_parts(packed[:size])


def test_snapshots_of_delta_channels_are_known() -> None:
    """By the type of the extension, whatever its size; other extensions are none."""
    extension: Any = ormsgpack.Ext
    for size in (1, 2, 3, 4, 8, 16, 17, 300, 70_000):
        snapshot, other = (ormsgpack.packb(extension(kind, b"\7" * size)) for kind in (7, 5))
        assert (is_snapshot("msgpack", snapshot), is_snapshot("msgpack", other)) == (True, False)
    assert not is_snapshot("json", b"\xd4\x07\x00")
    assert not is_snapshot("msgpack", b"")
