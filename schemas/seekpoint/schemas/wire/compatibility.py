"""The compatibility check: whether this code still reads and folds the entries of every earlier release.

``seekpoint schema check`` and a test call ``check_compatibility()``, which returns a list of findings.
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
from seekpoint.schemas.wire.schema_resolution import record_fields, strip_metadata


class CompatibilityFinding(NamedTuple):
    """One incompatibility, and the release that it concerns."""

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
    """Return where the current schema, codec and fold are incompatible with a release; an empty list if nowhere.

    Bodies are FULL_TRANSITIVE: fields are only added, with a default; the union only grows at its end, and only with
    a new format. Golden records must decode to their golden values. The golden history must fold to its golden hash
    unless the fold version was raised. The arguments are for tests; the defaults are those of this code.
    """
    text = schema_json() if schema is None else schema
    current = json.loads(text)
    releases = load_goldens() if goldens is None else goldens
    found = [CompatibilityFinding("now", what) for what in _own_faults(current, text == schema_json())]
    for golden in releases:
        faults = [*_schema_faults(golden, current), *_record_faults(golden), *_state_faults(golden, fold_version)]
        found += [CompatibilityFinding(golden.release, what) for what in faults]
    return found or ([] if releases else [CompatibilityFinding("now", "there is no golden release to compare with")])


def _own_faults(current: dict[str, Any], is_shipped: bool) -> Iterator[str]:
    if current.get("format", 1) != FORMAT:
        yield f"the schema has format {current.get('format', 1)}, the code has {FORMAT}"
    if is_shipped and (fingerprint := _fingerprint(current)) != SCHEMA_FINGERPRINT.hex():
        yield f"SCHEMA_FINGERPRINT is {SCHEMA_FINGERPRINT.hex()}, the schema's is {fingerprint}"


def _fingerprint(schema: dict[str, Any]) -> str:
    import fastavro.schema  # imported late: it takes 35 ms, and only a check needs it

    return str(fastavro.schema.fingerprint(fastavro.schema.to_parsing_canonical_form(schema), "CRC-64-AVRO"))


# --- schema against schema --------------------------------------------------------------------------------------------
def _schema_faults(golden: Golden, current: Mapping[str, Any]) -> Iterator[str]:
    before, now = record_fields(strip_metadata(golden.schema)), record_fields(strip_metadata(current))
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
    """Yield every object inside a schema."""
    if isinstance(schema, list):
        for member in schema:
            yield from _nodes(member)
    elif isinstance(schema, dict):
        yield schema
        for key in ("type", "items", "values", "fields"):
            yield from _nodes(schema.get(key))


def _defaults(schema: Any) -> dict[str, dict[str, str]]:
    """Return the defaults as JSON texts, by record and field. A field without a default is left out."""
    return {
        node["name"]: {field["name"]: json.dumps(field["default"]) for field in node["fields"] if "default" in field}
        for node in _nodes(schema)
        if node.get("type") == "record"
    }


def _named(schema: Any) -> dict[str, Any]:
    """Return the fixed types and enums by name."""
    return {node["name"]: strip_metadata(node) for node in _nodes(schema) if node.get("type") in ("fixed", "enum")}


# --- golden bytes and the golden state --------------------------------------------------------------------------------
def _codec(golden: Golden) -> Codec:
    return Codec(schemas={bytes.fromhex(golden.fingerprint): json.dumps(golden.schema)})


def _record_faults(golden: Golden) -> Iterator[str]:
    codec = _codec(golden)
    for entry in golden.entries:
        expected = entry["values"]
        kind = expected["body"][0]
        try:
            found = entry_values(codec.decode(bytes.fromhex(entry["record"])))
        except SeekpointError as exc:
            yield f"a golden {kind} does not decode: {exc.message}"
            continue
        if not _covers(found, expected):
            yield f"a golden {kind} decodes to other values: {found}"


def _covers(found: Mapping[str, Any], expected: Mapping[str, Any]) -> bool:
    """Return whether ``found`` has all values of ``expected``; it may have more fields."""
    (kind, fields), (expected_kind, expected_fields) = found["body"], expected["body"]
    envelope = {name: value for name, value in expected.items() if name != "body"}
    return kind == expected_kind and envelope.items() <= found.items() and expected_fields.items() <= fields.items()


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
        return  # with another fold version, the same entries may give another state
    for verb, state in (("is read as", restored), ("folds to", folded)):
        if (state.hash, state.content_hash) != (golden.hash, golden.content_hash):
            yield f"its golden history {verb} another state: raise FOLD_VERSION, or fold as before"
    if folded.to_bytes() != golden.state.encode():
        yield "its golden state is written differently: raise FOLD_VERSION, or write as before"


def _folded(golden: Golden) -> State:
    codec, state = _codec(golden), new_state()
    with only():  # folds that the application registered are no part of a release
        for offset, record in enumerate(golden.history):
            state = fold(state, offset, codec.decode(bytes.fromhex(record)))
    return state
