"""Whether this code still reads, and still understands, what every release before it wrote.

``check_compatibility()`` is what ``seekpoint schema check`` and a test call: an empty list, or what is wrong.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from seekpoint.schemas.errors import SeekpointError
from seekpoint.schemas.folding.fold import fold
from seekpoint.schemas.folds import only
from seekpoint.schemas.log.manifest import FORMAT
from seekpoint.schemas.state.process_state import FOLD_VERSION, State, new_state
from seekpoint.schemas.wire.avro_schema import SCHEMA_FINGERPRINT, schema_json
from seekpoint.schemas.wire.codec import Codec
from seekpoint.schemas.wire.golden import Golden, entry_values, load_goldens
from seekpoint.schemas.wire.schema_resolution import plain, shapes

__all__ = ["CompatibilityFinding", "check_compatibility"]


class CompatibilityFinding(NamedTuple):
    """One thing that is wrong: with which release, and what."""

    release: str
    what: str

    def __str__(self) -> str:
        return f"{self.release}: {self.what}"


def check_compatibility(
    schema: str | None = None,
    goldens: Sequence[Golden] | None = None,
    *,
    fold_version: int = FOLD_VERSION,
) -> list[CompatibilityFinding]:
    """What is wrong with the current schema, codec and fold in the eyes of every release; empty: nothing.

    Bodies are FULL_TRANSITIVE: a field is only ever added, with a default; the union only grows at its end, and only
    with a new format. Golden records decode to their golden values, and the golden history folds to its golden hash
    unless the fold version was raised. The arguments are for tests; by default everything is what this code has.
    """
    text = schema_json() if schema is None else schema
    current = json.loads(text)
    releases = load_goldens() if goldens is None else goldens
    found = [CompatibilityFinding("now", what) for what in _own_faults(current, text == schema_json())]
    for golden in releases:
        faults = [*_schema_faults(golden, current), *_record_faults(golden), *_state_faults(golden, fold_version)]
        found += [CompatibilityFinding(golden.release, what) for what in faults]
    return found or ([] if releases else [CompatibilityFinding("now", "there is no golden release to compare with")])


def _own_faults(current: dict[str, Any], is_ours: bool) -> Iterator[str]:
    if current.get("format", 1) != FORMAT:
        yield f"the schema says format {current.get('format', 1)}, the code says {FORMAT}"
    if is_ours and (fingerprint := _fingerprint(current)) != SCHEMA_FINGERPRINT.hex():
        yield f"SCHEMA_FINGERPRINT is {SCHEMA_FINGERPRINT.hex()}, the schema's is {fingerprint}"


def _fingerprint(schema: dict[str, Any]) -> str:
    import fastavro.schema  # 35 ms, and only a check needs it

    return str(fastavro.schema.fingerprint(fastavro.schema.to_parsing_canonical_form(schema), "CRC-64-AVRO"))


# --- schema against schema --------------------------------------------------------------------------------------------
def _schema_faults(golden: Golden, current: Mapping[str, Any]) -> Iterator[str]:
    before, now = shapes(plain(golden.schema)), shapes(plain(current))
    defaults_before, defaults_now = _defaults(golden.schema), _defaults(current)
    for record, fields in before.items():
        if record not in now:
            yield f"{record} is gone"
            continue
        for name, kind in fields.items():
            if name not in now[record]:
                yield f"{record}.{name} is gone (renamed, or removed)"
            elif (record, name) == ("Entry", "body"):
                yield from _union_faults(golden, kind, now[record][name], int(current.get("format", 1)))
            elif now[record][name] != kind:
                yield f"{record}.{name} was {kind}, is {now[record][name]}"
            elif defaults_now[record].get(name) != defaults_before[record].get(name):
                yield f"{record}.{name} has another default"
        for name in now[record].keys() - fields.keys():
            if name not in defaults_now[record]:
                yield f"{record}.{name} is new and has no default"
    yield from _named_faults(golden.schema, current)


def _union_faults(golden: Golden, before: Sequence[str], now: Sequence[str], current_format: int) -> Iterator[str]:
    if list(now[: len(before)]) != list(before):
        yield f"the union of bodies may only grow at its end: was {', '.join(before)}; is {', '.join(now)}"
    elif len(now) > len(before) and current_format <= golden.format:
        yield f"new bodies need a new format: {', '.join(now[len(before) :])}"


def _named_faults(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    known = _named(now)
    for name, kind in _named(before).items():
        if known.get(name) != kind:
            yield f"{name} was {kind}, is {known.get(name)}"


def _nodes(schema: Any) -> Iterator[Mapping[str, Any]]:
    """Every object inside a schema."""
    if isinstance(schema, list):
        for member in schema:
            yield from _nodes(member)
    elif isinstance(schema, dict):
        yield schema
        for key in ("type", "items", "values", "fields"):
            yield from _nodes(schema.get(key))


def _defaults(schema: Any) -> dict[str, dict[str, str]]:
    """By record and field: the default, as JSON text. A field without one is not in it."""
    return {
        node["name"]: {field["name"]: json.dumps(field["default"]) for field in node["fields"] if "default" in field}
        for node in _nodes(schema)
        if node.get("type") == "record"
    }


def _named(schema: Any) -> dict[str, Any]:
    """By name: the fixed types and enums."""
    return {node["name"]: plain(node) for node in _nodes(schema) if node.get("type") in ("fixed", "enum")}


# --- golden bytes and the golden state --------------------------------------------------------------------------------
def _codec(golden: Golden) -> Codec:
    return Codec(schemas={bytes.fromhex(golden.fingerprint): json.dumps(golden.schema)})


def _record_faults(golden: Golden) -> Iterator[str]:
    codec = _codec(golden)
    for entry in golden.entries:
        wanted = entry["values"]
        kind = wanted["body"][0]
        try:
            found = entry_values(codec.decode(bytes.fromhex(entry["record"])))
        except SeekpointError as exc:
            yield f"a golden {kind} does not decode: {exc.message}"
            continue
        if not _covers(found, wanted):
            yield f"a golden {kind} decodes to other values: {found}"


def _covers(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Whether ``found`` has all values of ``wanted``; it may know more fields."""
    (kind, fields), (kind_wanted, fields_wanted) = found["body"], wanted["body"]
    envelope = {name: value for name, value in wanted.items() if name != "body"}
    return kind == kind_wanted and _has(found, envelope) and _has(fields, fields_wanted)


def _has(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    return all(name in found and found[name] == value for name, value in wanted.items())


def _state_faults(golden: Golden, fold_version: int) -> Iterator[str]:
    if golden.fold_version > fold_version:
        yield f"it folds with version {golden.fold_version}, this code with {fold_version} only"
        return
    try:
        restored, folded = State.from_bytes(golden.state.encode()), _folded(golden)
    except SeekpointError as exc:
        yield f"its golden state cannot be read or folded: {exc.message}"
        return
    if golden.fold_version != fold_version:
        return  # the same entries may give another state now: that is what the version says
    for way, state in (("is read as", restored), ("folds to", folded)):
        if (state.hash, state.content_hash) != (golden.hash, golden.content_hash):
            yield f"its golden history {way} another state: raise FOLD_VERSION, or fold as before"
    if folded.to_bytes() != golden.state.encode():
        yield "its golden state is written otherwise: raise FOLD_VERSION, or write as before"


def _folded(golden: Golden) -> State:
    codec, state = _codec(golden), new_state()
    with only():  # what the application registered is no part of a release
        for offset, record in enumerate(golden.history):
            state = fold(state, offset, codec.decode(bytes.fromhex(record)))
    return state
