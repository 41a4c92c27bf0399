"""Every release's schema, records and state are held against this code; a break is found and named."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from seekpoint.schemas import bodies as b
from seekpoint.schemas.bodies import BODIES
from seekpoint.schemas.bodies.entry import Entry
from seekpoint.schemas.folding.fold import Verdict, advance, fold
from seekpoint.schemas.folds import UserFold, only
from seekpoint.schemas.log.manifest import FORMAT
from seekpoint.schemas.state.process_state import FIELDS, FOLD_VERSION, Draft, State, new_state
from seekpoint.schemas.wire import compatibility
from seekpoint.schemas.wire.codec import Codec, encode, schema_json
from seekpoint.schemas.wire.compatibility import CompatibilityFinding, check_compatibility
from seekpoint.schemas.wire.golden import Golden, load_goldens

Schema = dict[str, Any]
GOLDENS = load_goldens()
FIRST = GOLDENS[0]


def test_this_code_reads_what_every_release_wrote() -> None:
    """No finding: what `seekpoint schema check` says."""
    assert check_compatibility() == []


def test_there_is_a_golden_release_of_every_format_and_fold() -> None:
    """Format 1, fold 1 and what came after; without any, the check itself is a finding."""
    assert {golden.format for golden in GOLDENS} == set(range(1, FORMAT + 1))
    assert {golden.fold_version for golden in GOLDENS} == set(range(1, FOLD_VERSION + 1))


def test_a_newer_fold_has_a_newer_format() -> None:
    """It is the format in the manifest that says which states may be in a journal."""
    assert {golden.format for golden in GOLDENS if golden.fold_version == 1} >= {1}
    for fold_version in range(2, FOLD_VERSION + 1):
        before = max(golden.format for golden in GOLDENS if golden.fold_version == fold_version - 1)
        assert all(golden.format > before for golden in GOLDENS if golden.fold_version == fold_version)
    assert [finding.release for finding in check_compatibility(goldens=[])] == ["now"]


@pytest.mark.parametrize("golden", GOLDENS, ids=lambda golden: golden.release)
def test_a_release_kept_a_record_of_every_body_it_had(golden: Golden) -> None:
    """So that none is forgotten when the codec changes."""
    (union,) = [field["type"] for field in golden.schema["fields"] if field["name"] == "body"]
    kinds = {kind.__name__: kind.KIND for kind in b.BODIES}
    kept = {entry["values"]["body"][0] for entry in golden.entries}
    assert kept == {kinds[record["name"]] for record in union}
    assert golden.history


ELSEWHERE = {
    *("finished", "result_json", "content_dropped"),  # what comes behind it would change nothing
    *("shared_version", "shared_json"),  # a shared value is a process of its own
    "folds",  # an application's
}


@pytest.mark.parametrize(
    "golden", [one for one in GOLDENS if one.fold_version == FOLD_VERSION], ids=lambda one: one.release
)
def test_a_golden_history_has_something_of_everything(golden: Golden) -> None:
    """Every verdict, every part of a state, calls of every kind and status: else a fold could change unnoticed."""
    codec, draft, nothing = Codec(), Draft(), new_state()
    records = [codec.decode(bytes.fromhex(record)) for record in golden.history]
    verdicts = {advance(draft, offset, entry) for offset, entry in enumerate(records)}
    assert set(Verdict) - verdicts == {Verdict.SKIPPED}
    state = draft.freeze()
    assert {name for name in FIELDS.names if getattr(state, name) == getattr(nothing, name)} == ELSEWHERE
    owned = {entry.kind for entry in records} - {"shared_set"}
    assert {kind.KIND for kind in b.BODIES} - owned == {"finished", "obligation_settled", "seeded", "shared_set"}
    calls = state.calls.values()
    assert {call.kind for call in calls} == {*KINDS_OF_CALLS}
    assert {call.status for call in calls} == {"started", "succeeded", "failed", "pending", "unknown", "inherited"}


KINDS_OF_CALLS = ("step", "decision", "sample", "timer", "gate", "child", "effect", "write", "receive")


# --- a schema broken in memory ----------------------------------------------------------------------------------------
def body_of(schema: Schema, name: str) -> Schema:
    """The record of a body inside ``schema``."""
    (found,) = [record for record in union_of(schema) if record["name"] == name]
    return found


def union_of(schema: Schema) -> list[Schema]:
    """The bodies inside ``schema``."""
    (union,) = [field["type"] for field in schema["fields"] if field["name"] == "body"]
    return union  # type: ignore[no-any-return]


def findings(change: Callable[[Schema], object]) -> list[str]:
    """What the first release says of a schema changed so."""
    schema = json.loads(schema_json())
    change(schema)
    return [finding.what for finding in check_compatibility(json.dumps(schema), [FIRST]) if finding.release != "now"]


def add(record: Callable[[Schema], Schema], field: Schema) -> Callable[[Schema], None]:
    """A change that adds a field."""
    return lambda schema: record(schema)["fields"].append(field)


def message(schema: Schema) -> Schema:
    """The body of a message."""
    return body_of(schema, "MessageSaid")


def whole(schema: Schema) -> Schema:
    """The envelope."""
    return schema


def grown(schema: Schema) -> None:
    """As a release that adds a body has to do it."""
    union_of(schema).append(NEW_BODY)
    schema["format"] = FORMAT + 1


NEW_BODY = {"type": "record", "name": "Effect", "namespace": "seekpoint", "fields": []}
ALLOWED: dict[str, Callable[[Schema], object]] = {
    "nothing": lambda schema: None,
    "a doc": lambda schema: message(schema).update(doc="other words"),
    "a field with a default": add(message, {"name": "mood", "type": ["null", "string"], "default": None}),
    "an envelope field with a default": add(whole, {"name": "zone", "type": "string", "default": ""}),
    "a body with a new format": grown,
}
BROKEN: dict[str, tuple[Callable[[Schema], object], str]] = {
    "a field without a default": (
        add(message, {"name": "mood", "type": "string"}),
        "MessageSaid.mood is new and has no",
    ),
    "an envelope field without a default": (
        add(whole, {"name": "zone", "type": "string"}),
        "Entry.zone is new and has",
    ),
    "a removed field": (lambda schema: message(schema)["fields"].pop(), "MessageSaid.call is gone"),
    "a renamed field": (lambda schema: message(schema)["fields"][0].update(name="who"), "MessageSaid.role is gone"),
    "another type": (lambda schema: message(schema)["fields"][0].update(type="bytes"), "MessageSaid.role was string"),
    "another default": (lambda schema: message(schema)["fields"][0].update(default="user"), "MessageSaid.role has ano"),
    "a lost default": (lambda schema: message(schema)["fields"][0].pop("default"), "MessageSaid.role has another"),
    "a wider id": (lambda schema: schema["fields"][0]["type"].update(size=20), "Uuid was"),
    "a removed body": (lambda schema: union_of(schema).pop(), f"{BODIES[-1].__name__} is gone"),
    "a renamed body": (lambda schema: message(schema).update(name="Said"), "MessageSaid is gone"),
    "bodies in another order": (lambda schema: union_of(schema).reverse(), "may only grow at its end"),
    "a body in the middle": (lambda schema: union_of(schema).insert(3, NEW_BODY), "may only grow at its end"),
    "a body without a new format": (lambda schema: union_of(schema).append(NEW_BODY), "new bodies need a new format"),
}


@pytest.mark.parametrize("change", ALLOWED.values(), ids=ALLOWED.keys())
def test_what_readers_survive_is_allowed(change: Callable[[Schema], object]) -> None:
    """Docs, fields with defaults, and bodies at the end with a new format."""
    assert findings(change) == []


@pytest.mark.parametrize(("change", "what"), BROKEN.values(), ids=BROKEN.keys())
def test_what_breaks_a_reader_is_found(change: Callable[[Schema], object], what: str) -> None:
    """Each break has a finding that names the place."""
    assert any(what in finding for finding in findings(change))


def test_a_format_the_code_does_not_have_is_found() -> None:
    """The schema's own format and the code's go together."""
    schema = json.loads(schema_json()) | {"format": FORMAT + 1}
    assert [finding.release for finding in check_compatibility(json.dumps(schema))] == ["now"]


def test_a_wrong_fingerprint_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """An .avsc that changed without the constant would make this code's own records unreadable."""
    monkeypatch.setattr(compatibility, "SCHEMA_FINGERPRINT", bytes(8))
    (finding,) = check_compatibility()
    assert finding.release == "now"
    assert "SCHEMA_FINGERPRINT" in str(finding)


# --- bytes and states -------------------------------------------------------------------------------------------------
def whats(golden: Golden, **more: Any) -> str:
    """The findings of one golden release, in one text."""
    return "\n".join(map(str, check_compatibility(goldens=[golden], **more)))


def test_a_record_that_decodes_to_other_values_is_found() -> None:
    """A golden value is compared field by field."""
    entry = json.loads(json.dumps(FIRST.entries[0]))
    entry["values"]["body"][1]["expected_epoch"] += 1
    assert "a golden claim decodes to other values" in whats(replace(FIRST, entries=[entry]))


def test_a_record_that_does_not_decode_is_found() -> None:
    """Whatever the reason."""
    entry = {**FIRST.entries[0], "record": FIRST.entries[0]["record"][:-2]}
    assert "a golden claim does not decode" in whats(replace(FIRST, entries=[entry]))


def test_a_release_of_a_newer_format_is_found() -> None:
    """It cannot be read by this code."""
    newer = {**FIRST.schema, "format": FORMAT + 1}
    newer["fields"] = [*FIRST.schema["fields"], {"name": "zone", "type": "string", "default": ""}]
    entry = {**FIRST.entries[0], "record": "c301" + "00" * 8 + FIRST.entries[0]["record"][20:]}
    golden = replace(FIRST, schema=newer, fingerprint="00" * 8, entries=[entry], history=[])
    assert "does not decode: an entry of a newer format" in whats(golden)


def test_a_history_that_folds_to_another_state_is_found() -> None:
    """Unless the fold version was raised."""
    shorter = replace(FIRST, history=FIRST.history[:-1])
    assert "folds to another state" in whats(shorter)
    assert whats(shorter, fold_version=FOLD_VERSION + 1) == ""


def test_a_state_that_is_read_as_another_is_found() -> None:
    """The golden state's own hash is kept beside it."""
    other = FIRST.state.replace('"rewinds":1', '"rewinds":2')
    assert "is read as another state" in whats(replace(FIRST, state=other))
    assert "cannot be read" in whats(replace(FIRST, state="{}"))


def test_a_state_of_a_newer_fold_is_found() -> None:
    """This code cannot go back behind a release."""
    assert "this code with 0 only" in whats(FIRST, fold_version=0)


def test_a_finding_names_the_release() -> None:
    """What the command line prints."""
    assert str(CompatibilityFinding("0.1.0", "what")) == "0.1.0: what"


@pytest.mark.parametrize("golden", GOLDENS, ids=lambda golden: golden.release)
def test_the_golden_state_goes_on_being_folded(golden: Golden) -> None:
    """A state an older release wrote is one to continue from, not only to look at."""
    state = State.from_bytes(golden.state.encode())
    assert state.owner is not None
    entry = Entry(bytes(16), "p", state.seq + 1, state.epoch, state.owner, None, 0, None, None, None, b.Custom("more"))
    assert fold(state, state.offset + 1, entry).seq == state.seq + 1
    assert encode(entry)


def test_folds_of_an_application_change_no_release() -> None:
    """Who registered one and then checks the schemas finds what everybody finds."""
    with only(UserFold("spent", 1, "0", lambda value, kind, payload: value + 1)):
        assert check_compatibility() == []
