"""Masks: a match is removed everywhere, an uncovered record does not pass, and the structure stays."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import fields
from pathlib import Path as FilePath
from typing import Any

import pytest

from masking_examples import CANARY, CONTENT, EVERYTHING, KEY, STATE_JSON, entry, rules, unfolded, unkeyed
from seekpoint.consumers.staging.copy.headers import HeaderRules
from seekpoint.consumers.staging.copy.memory_topic import StoredMessage
from seekpoint.consumers.staging.copy.selection import Selection
from seekpoint.consumers.staging.copy.transform import Transform
from seekpoint.consumers.staging.masks.mask_entries import EntryMasks
from seekpoint.consumers.staging.masks.mask_rules import MaskRules
from seekpoint.schemas import bodies as b
from seekpoint.schemas.errors import InvalidSetting, ReplayRefused, UndecodableRecord
from seekpoint.schemas.wire.codec import Codec, encode

# --- entries


@pytest.mark.parametrize(
    "body",
    [
        b.ContextUpdated("email", f'{{"a":["{CANARY}"]}}'),
        b.ContextUpdated(CANARY, "1"),
        b.ContextUpdatedMany({"email": f'"{CANARY}"', CANARY: "1"}),
        b.ContextPatched(f'{{"deep":{{"email":"{CANARY}"}}}}'),
        b.ContextDeleted(CANARY),
        b.MessageSaid(
            "user", f"I am {CANARY}", f'[{{"text":"{CANARY}"}}]', f'[{{"arguments":"{{\\"e\\":\\"{CANARY}\\"}}"}}]'
        ),
        b.MessageSaid(CANARY, None, None, None, CANARY, CANARY),
        b.Signal(CANARY, f'"{CANARY}"'),
        b.CancelRequested(CANARY),
        b.Finished(f'["{CANARY}"]'),
        b.Released(CANARY),
        b.LifecycleChanged("running", CANARY),
        b.InvocationTriggered(CANARY, f'"{CANARY}"'),
        b.InvocationEnded(CANARY, 1, f'"{CANARY}"', CANARY),
        b.ErrorRecorded("E", CANARY, f"File x\n{CANARY}"),
        b.Custom(CANARY, f'"{CANARY}"'),
        b.Claim(0, CANARY, CANARY),
        b.Rewound(1, CONTENT),
        b.Forked(CANARY, 1, CONTENT),
        b.Forked(CANARY, 1, CONTENT, rerun_of=CANARY, model=CANARY),
        b.ParentAnswered(f'["{CANARY}"]'),
        b.Promoted(CANARY, 1, CONTENT, CANARY),
        b.Seeded(STATE_JSON),
        b.ContentBatch(False, {CANARY: "1", "n": f'"{CANARY}"'}, f'["{CANARY}"]', f'[["user","{CANARY}"]]'),
        b.StepEnded("a", 1, "ok", f'"{CANARY}"', f'{{"message":"{CANARY}"}}'),
        b.ChildSpawned("a", 1, "n", "d", CANARY, CANARY, CANARY, f'"{CANARY}"'),
        b.GateResolved("a", "yes", None, f'"{CANARY}"', CANARY, CANARY),
    ],
    ids=lambda body: body.KIND,
)
@pytest.mark.parametrize("do", ["redact", "hash"])
def test_no_kind_of_entry_leaks_a_canary(body: b.Body, do: str) -> None:
    """Fields, envelope and key are masked; kind, seq and epoch are unchanged."""
    before = entry(body, process_id=f"case-{CANARY}", actor=CANARY, correlation_id=CANARY)
    after = EntryMasks(rules({"regex": CANARY, "do": do})).entry(before)
    data = encode(after)
    assert CANARY.encode() not in data
    again = Codec().decode(data)
    assert (again.kind, again.seq, again.epoch, again.id) == (before.kind, before.seq, before.epoch, before.id)
    assert (again.prev_offset, again.ts, again.claim_id) == (before.prev_offset, before.ts, before.claim_id)


def full(body: type[b.Body]) -> b.Body:
    """A body of this kind with the canary in every place that a text can stand in."""
    state = {"content": CONTENT, "state": STATE_JSON, "deleted": f'["{CANARY}"]', "patch": f'{{"a":"{CANARY}"}}'}
    values: dict[str, Any] = {**state, "messages": f'[["user","{CANARY}"]]'}
    more: dict[str, Any] = {}
    for each in fields(body):
        declared = str(each.type)
        if "Mapping" in declared:
            more[each.name] = {CANARY: f'"{CANARY}"'}
        elif each.name in values and ("Json" in declared or body in STATEFUL):
            more[each.name] = values[each.name]
        elif "Json" in declared:
            more[each.name] = json.dumps({"arguments": json.dumps([CANARY]).replace("-", "\\u002d"), CANARY: 1})
        elif "str" in declared:
            more[each.name] = CANARY
    return body(**more)


STATEFUL = (b.Rewound, b.Forked, b.Promoted, b.Seeded)


def test_the_key_of_a_call_is_masked_alike_in_a_list() -> None:
    """Otherwise the copy would set another call aside and be degraded."""
    rule = {"kinds": ["step_ended", "calls_set_aside"], "path": "key", "do": "hash"}
    masks = EntryMasks(MaskRules.from_dict({"mask": [rule]}, key=bytes(32)))
    ended = masks.entry(entry(b.StepEnded(key="pay:1"))).body
    aside = masks.entry(entry(b.CallsSetAside('["pay:1"]'))).body
    assert isinstance(ended, b.StepEnded)
    assert isinstance(aside, b.CallsSetAside)
    assert json.loads(aside.keys) == [ended.key] != ["pay:1"]
    with pytest.raises(InvalidSetting, match="matches no field"):
        MaskRules.from_dict({"mask": [{"kinds": ["calls_set_aside"], "path": "keys", "do": "redact"}]})


@pytest.mark.parametrize("body", b.BODIES, ids=lambda body: body.KIND)
@pytest.mark.parametrize("how", [{"do": "redact"}, {"do": "hash"}, {"regex": CANARY, "do": "drop"}])
def test_no_body_leaks_a_canary(body: type[b.Body], how: dict[str, str]) -> None:
    """A body that is added later is masked too, or stops the replay."""
    before = entry(full(body), process_id=f"case-{CANARY}", actor=CANARY, correlation_id=CANARY)
    assert CANARY.encode() in encode(before)
    by_regex = EntryMasks(rules({"regex": CANARY, **how})).entry(before)
    assert CANARY not in unfolded(encode(by_regex).decode(errors="replace"))
    assert Codec().decode(encode(by_regex)).kind == body.KIND


@pytest.mark.parametrize("body", b.BODIES, ids=lambda body: body.KIND)
def test_each_text_of_each_body_is_matched_by_a_path(body: type[b.Body]) -> None:
    """A rule for everything leaves only names of members and constants of the format."""
    masked = EntryMasks(rules({"path": "**", "do": "hash"})).entry(entry(full(body)))
    for each in fields(body):
        value = getattr(masked.body, each.name)
        if isinstance(value, str) and "Json" not in str(each.type) and body not in STATEFUL:
            allowed = (body, each.name) in (
                (b.LifecycleChanged, "to"),
                (b.ContextUpdated, "key"),
                (b.ContextDeleted, "key"),
            )
            assert allowed or CANARY not in value, each.name


def test_a_field_of_an_unknown_type_stops_the_replay() -> None:
    """It does not pass only because no mask supports it."""

    class Newer(b.Body, frozen=True):
        KIND = "newer"
        share: float = 0.5

    with pytest.raises(TypeError, match="cannot be masked"):
        EntryMasks(rules({"regex": CANARY, "do": "redact"})).entry(entry(Newer()))


def test_a_shared_value_keeps_its_prefix() -> None:
    """The prefix of its id marks it as shared."""
    shared = EntryMasks(rules({"path": "process_id", "do": "hash"})).process_id("shared:prices")
    assert shared.startswith("shared:")
    assert "prices" not in shared


def test_one_path_matches_a_value_in_every_kind_of_entry() -> None:
    """Context is called context, whether it is set, patched or restored."""
    masks = EntryMasks(rules({"path": "context.email", "do": "redact"}))
    bodies = [
        b.ContextUpdated("email", f'"{CANARY}"'),
        b.ContextUpdatedMany({"email": f'"{CANARY}"', "n": "1"}),
        b.ContextPatched(f'{{"email":"{CANARY}","n":1}}'),
        b.Rewound(1, CONTENT),
        b.Forked("parent", 1, CONTENT),
        b.Promoted("fork", 1, CONTENT),
    ]
    for body in bodies:
        assert CANARY.encode() not in encode(masks.entry(entry(body))), body.KIND
    kept = masks.entry(entry(b.ContextUpdated("other", f'"{CANARY}"')))
    assert CANARY.encode() in encode(kept)


def test_masking_everything_keeps_the_constants_of_the_format() -> None:
    """Roles and lifecycle states are no user data."""
    masks = EntryMasks(rules({"path": "**", "do": "hash"}))
    said = masks.entry(entry(b.MessageSaid("assistant", "x"))).body
    moved = masks.entry(entry(b.LifecycleChanged("starting", "because"))).body
    assert isinstance(said, b.MessageSaid)
    assert isinstance(moved, b.LifecycleChanged)
    assert (said.role, moved.to) == ("assistant", "starting")
    assert said.content != "x"
    assert moved.reason != "because"


def test_process_ids_become_pseudonyms_or_stop_the_replay() -> None:
    """Two processes never become one, and a parent has its new name everywhere."""
    masks = EntryMasks(rules({"path": "process_id", "do": "hash"}))
    ids = {masks.process_id(f"case-{number}") for number in range(100)}
    assert len(ids) == 100
    forked = masks.entry(entry(b.Forked("case-1", 1, CONTENT), process_id="case-2"))
    assert isinstance(forked.body, b.Forked)
    assert forked.body.parent_id == masks.process_id("case-1")
    with pytest.raises(ReplayRefused, match="pseudonyms"):
        EntryMasks(unkeyed({"regex": "case", "do": "redact"})).process_id("case-1")


# --- fail-closed
def treat(masks: MaskRules, value: bytes | None, key: bytes | None = b"case-17", headers: Any = None) -> Any:
    transform = Transform(Selection(), HeaderRules(), Codec(), masks=masks)
    return transform.apply(StoredMessage(0, 9, key, value, 1, headers)), transform.counts


def test_an_uncovered_kind_stops_the_replay_or_is_dropped() -> None:
    """The error names the kind without its content."""
    value = encode(entry(b.Custom("note", f'"{CANARY}"')))
    with pytest.raises(ReplayRefused, match="no mask rule") as caught:
        treat(rules({"kinds": ["message_said"], "path": "message.content", "do": "redact"}), value)
    assert caught.value.kind == "custom"
    assert CANARY not in str(caught.value)
    dropped, counts = treat(rules({"kinds": ["message_said"], "do": "redact"}, unknown="drop"), value)
    assert (dropped, counts) == (None, Counter({"dropped: unknown kind": 1}))
    passed, _ = treat(rules({"kinds": ["message_said"], "do": "redact"}, **{"pass": ["custom"]}), value)
    assert Codec().decode(passed.value).body == b.Custom("note", f'"{CANARY}"')


@pytest.mark.parametrize(
    "value",
    [None, b"", CANARY.encode(), b"\xc3\x01" + bytes(30), encode(entry(b.Custom()))[:-1]],
    ids=["tombstone", "empty", "text", "zeros", "cut short"],
)
def test_an_undecodable_record_stops_the_replay_or_is_dropped(value: bytes | None) -> None:
    """Tombstones, junk, truncated entries, and entries under the key of another process."""
    with pytest.raises(ReplayRefused, match="would pass unmasked") as caught:
        treat(rules({"kinds": EVERYTHING, "do": "redact"}), value)
    assert CANARY not in str(caught.value)
    dropped, _ = treat(rules({"kinds": EVERYTHING, "do": "redact"}, undecodable="drop"), value)
    assert dropped is None
    with pytest.raises(ReplayRefused):
        treat(rules({"kinds": EVERYTHING, "do": "redact"}), encode(entry(b.Custom())), key=b"somebody-else")


def test_headers_are_dropped_while_values_are_masked() -> None:
    """Only the headers that the rules name are kept."""
    value = encode(entry(b.Custom()))
    headers = [("tenant", b"acme"), ("email", CANARY.encode())]
    transformed, _ = treat(
        rules({"kinds": ["custom"], "do": "redact"}, keep_headers=["tenant"]), value, headers=headers
    )
    assert transformed.headers == [("tenant", b"acme")]


def test_a_topic_of_plain_json_is_masked_by_rules_without_kinds() -> None:
    """The key is masked too, and a value that is no JSON stops the replay."""
    masks = rules({"path": "value.email", "do": "redact"}, {"path": "process_id", "do": "hash"})
    transformed, _ = treat(masks, b'{"email":"x","n":1}', key=b"customer-1")
    assert json.loads(transformed.value) == {"email": "***", "n": 1}
    assert transformed.key not in (b"customer-1", None)
    assert treat(masks, None)[0].value is None
    with pytest.raises(ReplayRefused):
        treat(masks, b"no JSON")
    with pytest.raises(UndecodableRecord):
        Codec().decode(transformed.value)


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"mask": []},
        {"mask": [{"path": "a"}]},
        {"mask": [{"do": "drop"}]},
        {"mask": [{"do": "shred"}]},
        {"mask": [{"do": "redact", "regex": "("}]},
        {"mask": [{"do": "redact", "regex": "x*"}]},
        {"mask": [{"do": "hash", "path": "a"}]},
        {"mask": [{"do": "redact", "paht": "a"}]},
        {"mask": [{"do": "redact"}], "unknwon": "stop"},
        {"mask": [{"do": "redact", "kinds": "message_said"}]},
        {"mask": [{"do": "redact"}], "unknown": "pass"},
        {"mask": [{"do": "redact"}], "pass": ["clam"]},
        {"mask": [{"do": "redact", "kinds": ["mesage_said"]}]},
        {"mask": [{"do": "redact", "path": "mesage.content"}]},
        {"mask": [{"do": "redact", "kinds": ["message_said"], "path": "content"}]},
        {"mask": [{"do": "redact", "kinds": ["finished", "signal"], "path": "message.content"}]},
    ],
)
def test_invalid_rules_are_refused(wrong: dict[str, Any]) -> None:
    """A misspelt rule would mask nothing."""
    with pytest.raises(InvalidSetting):
        MaskRules.from_dict(wrong)


def test_rules_and_their_key_are_in_two_files(tmp_path: FilePath) -> None:
    """The key is never shown, and the digest in progress files does not depend on it."""
    (tmp_path / "key").write_text(KEY.decode())
    file = tmp_path / "masks.toml"
    file.write_text(f"""
key_file = "{tmp_path}/key"
pass = ["claim"]
[[mask]]
kinds = ["message_said"]
path = "message.content"
regex = '[\\w.+-]+@[\\w-]+\\.[\\w.]+'
do = "hash"
""")
    found = MaskRules.load(file)
    assert found.covers("claim")
    assert found.covers("message_said")
    assert not found.covers("custom")
    assert KEY.decode() not in repr(found)
    with pytest.raises(InvalidSetting, match=r"nowhere\.toml"):
        MaskRules.load(tmp_path / "nowhere.toml")
