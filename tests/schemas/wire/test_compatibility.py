"""The compatibility check compares each release's schema, records and state with this code."""

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
NEWEST = GOLDENS[-1]


def test_this_code_is_compatible_with_every_release() -> None:
    """`seekpoint schema check` reports no finding."""
    assert check_compatibility() == []


def test_every_format_and_fold_version_has_a_golden_release() -> None:
    """Without golden releases the check itself reports a finding."""
    assert {golden.format for golden in GOLDENS} == set(range(1, FORMAT + 1))
    assert {golden.fold_version for golden in GOLDENS} == set(range(1, FOLD_VERSION + 1))


def test_a_newer_fold_has_a_newer_format() -> None:
    """The format in the manifest determines which states a journal may contain."""
    assert {golden.format for golden in GOLDENS if golden.fold_version == 1} >= {1}
    for fold_version in range(2, FOLD_VERSION + 1):
        before = max(golden.format for golden in GOLDENS if golden.fold_version == fold_version - 1)
        assert all(golden.format > before for golden in GOLDENS if golden.fold_version == fold_version)
    assert [finding.release for finding in check_compatibility(goldens=[])] == ["now"]


@pytest.mark.parametrize("golden", GOLDENS, ids=lambda golden: golden.release)
def test_a_golden_release_has_a_record_of_every_body(golden: Golden) -> None:
    """So a change of the codec is checked with every body."""
    (union,) = [field["type"] for field in golden.schema["fields"] if field["name"] == "body"]
    kinds = {kind.__name__: kind.KIND for kind in b.BODIES}
    kept = {entry["values"]["body"][0] for entry in golden.entries}
    assert kept == {kinds[record["name"]] for record in union}
    assert golden.history


ELSEWHERE = {
    *("finished", "result_json", "content_dropped"),  # what comes behind it would change nothing
    *("shared_version", "shared_json"),  # a shared value is a process of its own
    "submission",  # the begin of the agent takes it
    "folds",  # an application's
    *("awaits", "mail_seen"),  # of a process that waits, and that nobody owns
}


@pytest.mark.parametrize(
    "golden", [one for one in GOLDENS if one.fold_version == FOLD_VERSION], ids=lambda one: one.release
)
def test_a_golden_history_covers_verdicts_state_and_calls(golden: Golden) -> None:
    """It has every verdict, every field of a state, and calls of every kind and status."""
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
    """What the newest release says of a schema changed so."""
    schema = json.loads(schema_json())
    change(schema)
    return [finding.what for finding in check_compatibility(json.dumps(schema), [NEWEST]) if finding.release != "now"]


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
def test_compatible_changes_have_no_finding(change: Callable[[Schema], object]) -> None:
    """Docs, fields with defaults, and bodies at the end with a new format are compatible."""
    assert findings(change) == []


@pytest.mark.parametrize(("change", "what"), BROKEN.values(), ids=BROKEN.keys())
def test_each_breaking_change_has_a_finding(change: Callable[[Schema], object], what: str) -> None:
    """The finding names the place."""
    assert any(what in finding for finding in findings(change))


def test_a_schema_of_another_format_is_found() -> None:
    """The format in the schema must be that of the code."""
    schema = json.loads(schema_json()) | {"format": FORMAT + 1}
    assert [finding.release for finding in check_compatibility(json.dumps(schema))] == ["now"]


def test_a_wrong_fingerprint_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """With an outdated constant this code's own records would be unreadable."""
    monkeypatch.setattr(compatibility, "SCHEMA_FINGERPRINT", bytes(8))
    (finding,) = check_compatibility()
    assert finding.release == "now"
    assert "SCHEMA_FINGERPRINT" in str(finding)


# --- bytes and states -------------------------------------------------------------------------------------------------
def whats(golden: Golden, **more: Any) -> str:
    """The findings of one golden release, in one text."""
    return "\n".join(map(str, check_compatibility(goldens=[golden], **more)))


def test_a_record_that_decodes_to_other_values_is_found() -> None:
    """The values are compared field by field."""
    entry = json.loads(json.dumps(NEWEST.entries[0]))
    entry["values"]["body"][1]["expected_epoch"] += 1
    assert "a golden claim decodes to other values" in whats(replace(NEWEST, entries=[entry]))


def test_a_record_that_does_not_decode_is_found() -> None:
    """The reason does not matter."""
    entry = {**NEWEST.entries[0], "record": NEWEST.entries[0]["record"][:-2]}
    assert "a golden claim does not decode" in whats(replace(NEWEST, entries=[entry]))


def test_a_release_of_a_newer_format_is_found() -> None:
    """This code cannot read it."""
    newer = {**NEWEST.schema, "format": FORMAT + 1}
    newer["fields"] = [*NEWEST.schema["fields"], {"name": "zone", "type": "string", "default": ""}]
    entry = {**NEWEST.entries[0], "record": "c301" + "00" * 8 + NEWEST.entries[0]["record"][20:]}
    golden = replace(NEWEST, schema=newer, fingerprint="00" * 8, entries=[entry], history=[])
    assert "does not decode: an entry of a newer format" in whats(golden)


def test_a_history_that_folds_to_another_state_is_found() -> None:
    """It is no finding if the fold version was raised."""
    shorter = replace(NEWEST, history=NEWEST.history[:-1])
    assert "folds to another state" in whats(shorter)
    assert whats(shorter, fold_version=FOLD_VERSION + 1) == ""


def test_a_golden_state_with_another_hash_is_found() -> None:
    """The golden file has the hash of its state."""
    other = NEWEST.state.replace('"rewinds":1', '"rewinds":2')
    assert "is read as another state" in whats(replace(NEWEST, state=other))
    assert "cannot be read" in whats(replace(NEWEST, state="{}"))


def test_a_state_of_a_newer_fold_is_found() -> None:
    """This code has an older fold than the release."""
    assert "this code with 0 only" in whats(NEWEST, fold_version=0)


def test_a_finding_names_the_release() -> None:
    """The command line prints it."""
    assert str(CompatibilityFinding("0.1.0", "what")) == "0.1.0: what"


@pytest.mark.parametrize("golden", GOLDENS, ids=lambda golden: golden.release)
def test_a_history_folds_to_the_state_that_its_checkpoint_is_read_as(golden: Golden) -> None:
    """A process has one state, whether it is read from a checkpoint of an older fold or from the log."""
    assert compatibility._folded(golden).hash == State.from_bytes(golden.state.encode()).hash


@pytest.mark.parametrize("golden", GOLDENS, ids=lambda golden: golden.release)
def test_a_golden_state_can_be_folded_further(golden: Golden) -> None:
    """A state of an older release can be continued, not only read."""
    state = State.from_bytes(golden.state.encode())
    assert state.owner is not None
    entry = Entry(bytes(16), "p", state.seq + 1, state.epoch, state.owner, None, 0, None, None, None, b.Custom("more"))
    assert fold(state, state.offset + 1, entry).seq == state.seq + 1
    assert encode(entry)


def test_folds_of_an_application_do_not_affect_the_check() -> None:
    """The findings are the same with and without registered folds."""
    with only(UserFold("spent", 1, "0", lambda value, kind, payload: value + 1)):
        assert check_compatibility() == []
