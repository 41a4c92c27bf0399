"""Masks: what a rule reaches is gone wherever it stands, what no rule covers does not pass, structure stays."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import reduce
from pathlib import Path as FilePath
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seekpoint.consumers.staging.headers import HeaderRules
from seekpoint.consumers.staging.mask_entries import EntryMasks
from seekpoint.consumers.staging.mask_paths import Path
from seekpoint.consumers.staging.mask_rules import MaskRules
from seekpoint.consumers.staging.mask_values import DROPPED, Mask
from seekpoint.consumers.staging.memory_topic import Kept
from seekpoint.consumers.staging.selection import Selection
from seekpoint.consumers.staging.treatment import Treatment
from seekpoint.schemas import bodies as b
from seekpoint.schemas.calls import AgentRun, Call, Frame, Obligation
from seekpoint.schemas.codec import Codec, encode
from seekpoint.schemas.entry import Entry, new_id
from seekpoint.schemas.errors import InvalidSetting, ReplayRefused, UndecodableRecord
from seekpoint.schemas.folds import Folded
from seekpoint.schemas.parts import Degraded, Invocation, Lineage, MailItem
from seekpoint.schemas.state import State, new_state
from seekpoint.schemas.values import check, dump, load

KEY = b"a key of thirty-two bytes, or so"
CANARY = "canary-7f3a"
EVERYTHING = sorted(body.KIND for body in b.BODIES)


def rules(*masks: dict[str, Any], **more: Any) -> MaskRules:
    return MaskRules.from_dict({"mask": list(masks), **more}, key=KEY)


def unkeyed(*masks: dict[str, Any], **more: Any) -> MaskRules:
    return MaskRules.from_dict({"mask": list(masks), **more})


def mask(*masks: dict[str, Any]) -> Mask:
    return Mask(rules(*masks).rules, KEY)


def entry(body: b.Body, **more: Any) -> Entry:
    made = Entry(new_id(), "case-17", 1, 1, new_id(), 41, 5, None, None, None, body)
    return made._replace(**more)


# --- paths
@pytest.mark.parametrize(
    ("path", "names", "expected"),
    [
        ("context.email", ("context", "email"), True),
        ("context.email", ("context",), False),
        ("context.email", ("context", "email", "more"), False),
        ("context.*", ("context", "email"), True),
        ("context.*.x", ("context", "x"), False),
        ("**.email", ("email",), True),
        ("**.email", ("a", "b", "email"), True),
        ("context.**", ("context",), True),
        ("a.**.z", ("a", "b", "c", "z"), True),
        ("a.**.z", ("a", "z"), True),
        ('context."e.mail"', ("context", "e.mail"), True),
        (r'"say \"hi\""', ('say "hi"',), True),
    ],
)
def test_a_path_means_what_it_says(path: str, names: tuple[str, ...], expected: bool) -> None:
    """A star is one name, two are any number, none included."""
    assert Path.parse(path).matches(names) is expected


@pytest.mark.parametrize("path", ["", ".", "a.", ".a", "a..b", 'a"b', '"a', '"a"b'])
def test_a_path_that_is_none_is_refused(path: str) -> None:
    """Instead of never matching."""
    with pytest.raises(InvalidSetting):
        Path.parse(path)


def test_a_path_of_many_stars_costs_no_time() -> None:
    """It is matched row by row, not by trying."""
    assert not Path.parse(".".join(["**"] * 30 + ["x"])).matches(("a",) * 300)


# --- values
def test_a_redacted_container_keeps_its_structure() -> None:
    """Texts are texts, numbers numbers, lists as long; null stays null."""
    tree = {"a": ["x", 1, 2.5, True, None], "b": {"c": "y"}}
    assert mask({"path": "context", "do": "redact"}).tree(tree, ("context",)) == {
        "a": ["***", 0, 0, False, None],
        "b": {"c": "***"},
    }


def test_pseudonyms_are_stable_and_keyed() -> None:
    """The same value has the same one everywhere, so joins hold; another key gives another."""
    hashing = mask({"path": "**", "do": "hash"})
    assert hashing.tree({"a": "ann", "b": ["ann", "bob"]}, ("context",))["a"] == hashing.text("ann", ("message",))
    assert hashing.text("ann", ("x",)) != hashing.text("bob", ("x",))
    assert Mask(rules({"path": "**", "do": "hash"}).rules, KEY + b"!").text("ann", ("x",)) != hashing.text(
        "ann", ("x",)
    )
    number = hashing.tree(42, ("x",))
    assert type(number) is int
    assert number not in (0, 42)


def test_a_regex_replaces_what_it_matches_and_no_more() -> None:
    """In values, in names of members, in numbers."""
    phone = mask({"regex": r"\d{4,}", "do": "redact"})
    assert phone.tree({"call 5550": ["at 5551 or 12", 123456, 12]}, ("context",)) == {
        "call ***": ["at *** or 12", "***", 12]
    }


def test_json_in_texts_is_opened() -> None:
    """However deep, however its characters are spelt; and written as JSON again."""
    inner = json.dumps({"email": "ann@x.org", "note": json.dumps([{"deep": "ann@x.org"}])}).replace("@", "\\u0040")
    found = mask({"regex": r"\S+@\S+\.org", "do": "redact"}).text(inner, ("message", "tool_calls"))
    assert json.loads(found)["email"] == "***"
    assert json.loads(json.loads(found)["note"]) == [{"deep": "***"}]
    by_path = mask({"path": "**.email", "do": "drop"}).text(inner, ("message", "content"))
    assert "email" not in json.loads(by_path)


def test_tagged_values_stay_values() -> None:
    """A Decimal, bytes, a set: masked as a whole or within, and still loadable."""
    value = {"paid": 5, "raw": b"the secret-1 bytes", "when": (1, "secret-3")}
    text = str(mask({"regex": r"secret-\d", "do": "redact"}).json(dump(value), ("context",)))
    found = load(text)
    assert "secret" not in repr(found)
    assert found["paid"] == 5
    assert found["raw"] == "***"
    assert found["when"] == (1, "***")


def test_a_set_in_which_two_became_one_is_redacted_as_a_whole() -> None:
    """It would be no dynamic value any more."""
    masks = EntryMasks(rules({"regex": r"secret-\d", "do": "redact"}))
    found = masks.entry(entry(b.ContextUpdated("all", dump({"secret-1", "secret-2"})))).body
    assert isinstance(found, b.ContextUpdated)
    check(found.value)
    assert "secret" not in found.value


def test_drop_takes_members_and_items_out() -> None:
    """The rest stays where it was."""
    dropping = mask({"path": "**.ssn", "do": "drop"})
    assert dropping.tree({"people": [{"ssn": "1", "n": 1}], "ssn": 2}, ()) == {"people": [{"n": 1}]}
    assert mask({"regex": "bad", "do": "drop"}).tree(["bad", "good"], ()) == ["good"]
    assert dropping.tree("x", ("a", "ssn")) is DROPPED


def test_bottomless_nesting_does_not_pass() -> None:
    """It is an error, which a policy turns into a stop or a drop."""
    text = "[" * 5_000 + '"secret"' + "]" * 5_000
    with pytest.raises((ValueError, RecursionError)):
        mask({"path": "**", "do": "redact"}).json(text, ())


WRAPPERS: tuple[Callable[[Any], Any], ...] = (
    json.dumps,
    lambda value: json.dumps(value).replace("-", "\\u002d"),
    lambda value: [None, 1, value, True],
    lambda value: {"k": value},
    lambda value: f"see {value}" if isinstance(value, str) and CANARY in value else [value],
    lambda value: {"$tuple": [value]},
)
hidden = st.builds(
    lambda base, wrappers: reduce(lambda value, wrap: wrap(value), wrappers, base),
    st.sampled_from([CANARY, f"x{CANARY}y", {CANARY: 1}, {"$bytes": "Y2FuYXJ5LTdmM2E="}]),
    st.lists(st.sampled_from(WRAPPERS), max_size=6),
)


@given(hidden, st.sampled_from(["redact", "hash", "drop"]))
def test_a_canary_does_not_survive_a_regex(value: Any, do: str) -> None:
    """Wherever it is put: in texts in texts, in names, escaped, in base64."""
    found = mask({"regex": re.escape(CANARY), "do": do}).json(json.dumps(value), ("context", "x"))
    assert CANARY not in unfolded(str(found))


def unfolded(text: str) -> str:
    """All that can be read in ``text`` by opening JSON and base64 again and again."""
    seen = [text]
    for _ in range(12):
        text = text.replace("\\\\", "\\").replace('\\"', '"').replace("\\u002d", "-")
        seen.append(text)
    return " ".join(seen).replace("Y2FuYXJ5LTdmM2E=", CANARY)


# --- entries
STATE = new_state().thaw()
STATE.values_json = {"email": f'"{CANARY}"', "n": "1"}
STATE.mailbox = {bytes(16): MailItem(bytes(16), "signal", CANARY, f'"{CANARY}"', CANARY)}
STATE.lineage = Lineage(CANARY, 1)
STATE.result_json = f'["{CANARY}"]'
STATE.owner_node = CANARY
CONTENT = STATE.snapshot().content_json()
STATE_JSON = STATE.freeze().to_bytes().decode()


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
        b.Seeded(STATE_JSON),
        b.ContentBatch(False, {CANARY: "1", "n": f'"{CANARY}"'}, f'["{CANARY}"]', f'[["user","{CANARY}"]]'),
        b.StepEnded("a", 1, "ok", f'"{CANARY}"', f'{{"message":"{CANARY}"}}'),
        b.ChildSpawned("a", 1, "n", "d", CANARY, CANARY, CANARY, f'"{CANARY}"'),
        b.GateResolved("a", "yes", None, f'"{CANARY}"', CANARY, CANARY),
    ],
    ids=lambda body: body.KIND,
)
@pytest.mark.parametrize("do", ["redact", "hash"])
def test_no_kind_of_entry_lets_a_canary_through(body: b.Body, do: str) -> None:
    """In any field, in the envelope, in the key; and what comes out is an entry of the same kind, seq and epoch."""
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


STATEFUL = (b.Rewound, b.Forked, b.Seeded)


@pytest.mark.parametrize("body", b.BODIES, ids=lambda body: body.KIND)
@pytest.mark.parametrize("how", [{"do": "redact"}, {"do": "hash"}, {"regex": CANARY, "do": "drop"}])
def test_no_body_there_is_lets_a_canary_through(body: type[b.Body], how: dict[str, str]) -> None:
    """In any field, of any kind there is: one that is added tomorrow is masked, or stops the replay."""
    before = entry(full(body), process_id=f"case-{CANARY}", actor=CANARY, correlation_id=CANARY)
    assert CANARY.encode() in encode(before)
    by_regex = EntryMasks(rules({"regex": CANARY, **how})).entry(before)
    assert CANARY not in unfolded(encode(by_regex).decode(errors="replace"))
    assert Codec().decode(encode(by_regex)).kind == body.KIND


@pytest.mark.parametrize("body", b.BODIES, ids=lambda body: body.KIND)
def test_each_text_of_each_body_is_reached_by_a_path(body: type[b.Body]) -> None:
    """A rule for everything leaves no value of it, whatever it is called; only names of members, and words of ours."""
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


def test_a_field_of_a_type_nobody_thought_of_stops() -> None:
    """It does not pass because the masks do not know how to look into it."""

    @dataclass(frozen=True)
    class Newer(b.Body):
        KIND = "newer"
        share: float = 0.5

    with pytest.raises(TypeError, match="no mask knows"):
        EntryMasks(rules({"regex": CANARY, "do": "redact"})).entry(entry(Newer()))


# --- states
def busy_state() -> State:
    """One with a canary wherever a run of an agent leaves something."""
    draft = State.from_bytes(STATE_JSON.encode()).thaw()
    text = f'{{"email":"{CANARY}"}}'
    for number, kind in enumerate(("step", "decision", "sample", "timer", "child", "effect", "write")):
        facts = json.dumps({"child_id": CANARY, "name": CANARY, "idempotency_key": CANARY, "epoch": 1})
        draft.calls.put(f"{CANARY} {kind}", Call(kind, number + 1, CANARY, "started", 1, number, text, text, facts))
    answer = json.dumps({"outcome": "approved", "payload": text, "actor": CANARY, "reason": CANARY})
    draft.calls.put("gate:1", Call("gate", 9, "d", "succeeded", 1, 9, answer, None, json.dumps({"prompt": text})))
    item = json.dumps([bytes(16).hex(), "signal", CANARY, text, CANARY])
    draft.calls.put("receive:1", Call("receive", 11, "d", "succeeded", 1, 11, item))
    draft.calls.put("receive:2", Call("receive", 12, "d", "succeeded", 1, 12, "null"))
    draft.calls.put("owed:1", Call("effect", 10, "d", "pending", 1, 10, text, text, json.dumps({"name": CANARY})))
    draft.turn_frame = Frame({"email": f'"{CANARY}"'}, 1, 1, Invocation(CANARY, text, True))
    draft.agent = AgentRun(CANARY, CANARY, CANARY, text)
    draft.obligations = (Obligation(CANARY, CANARY, text),)
    draft.patches, draft.cancelled, draft.forgotten = (CANARY,), CANARY, {CANARY: 1}
    draft.shared_version, draft.shared_json = 1, text
    draft.customs, draft.folds = 2, {"mine": Folded(1, 2, text), "broken": Folded(1, 2, text, 3, CANARY)}
    draft.degraded = Degraded("gap", 4, 6, CANARY)
    draft.result_json = text
    draft.mailbox[bytes(16)] = MailItem(bytes(16), "signal", CANARY, text, CANARY)
    draft.mailbox[bytes([1] * 16)] = MailItem(
        bytes([1] * 16), "effect_verdict", CANARY, json.dumps({"outcome": "failed", "output": text}), CANARY
    )
    draft.mailbox[bytes([2] * 16)] = MailItem(bytes([2] * 16), "cancel_requested", CANARY, "null", CANARY)
    return draft.freeze()


@pytest.mark.parametrize("do", ["redact", "hash"])
def test_no_place_of_a_state_lets_a_canary_through(do: str) -> None:
    """Calls, frames, obligations, folds, what a gap says; and what is left is a state, of the same calls."""
    text = busy_state().to_bytes().decode()
    masked = EntryMasks(rules({"regex": CANARY, "do": do})).entry(entry(b.Seeded(text)))
    assert isinstance(masked.body, b.Seeded)
    assert CANARY not in unfolded(masked.body.state)
    found, before = (State.from_bytes(each.encode()) for each in (masked.body.state, text))
    assert [(call.kind, call.status, call.seq) for call in found.calls.values()] == [
        (call.kind, call.status, call.seq) for call in before.calls.values()
    ]
    assert (found.customs, found.folds["mine"].version, found.shared_version) == (2, 1, 1)
    assert found.degraded is not None
    assert found.degraded.reason == "gap"


def test_a_path_reaches_a_value_in_a_state_by_the_name_its_entry_has() -> None:
    """A step's output, a decision's response, what a turn began from, an agent's input, a shared value, a fold."""
    names = ("output", "response", "value", "payload", "result", "input", "arguments", "error", "prompt", "folds")
    emails = [{"path": f"{name}.email", "do": "redact"} for name in (*names, "context", "folds.*")]
    others = (
        "key",
        "digest",
        "name",
        "child_id",
        "idempotency_key",
        "actor",
        "reason",
        "trigger",
        "process_id",
        "id",
        "node_id",
        "error",
    )
    whole = [{"path": name, "do": "hash"} for name in (*others, "agent", "version", "definition", "degraded")]
    text = busy_state().to_bytes().decode()
    masked = EntryMasks(rules(*emails, *whole, {"path": "degraded.**", "do": "hash"})).entry(entry(b.Seeded(text)))
    assert isinstance(masked.body, b.Seeded)
    assert CANARY not in unfolded(masked.body.state)
    State.from_bytes(masked.body.state.encode())


def test_what_a_mask_cannot_open_goes_as_a_whole_where_a_path_is_for_something_in_it() -> None:
    """JSON lines, a name that stands twice, brackets without end; text that no rule is for stays."""
    hiding = mask({"path": "**.email", "do": "redact"})
    deep = "[" * 100_000 + f'{{"email":"{CANARY}"}}' + "]" * 100_000
    lines = f'{{"email":"{CANARY}"}}\n{{"email":"{CANARY}"}}'
    twice = f'{{"email":"{CANARY}","email":null}}'
    for text in (deep, lines, twice, "\ufeff" + f'{{"email":"{CANARY}"}}', f"{{'email': '{CANARY}'}}"):
        assert CANARY not in str(hiding.text(text, ("message", "content"))), text[:40]
    assert hiding.text("[draft] of [1]", ("message", "content")) == "[draft] of [1]"
    elsewhere = mask({"path": "context.email", "do": "redact"})
    assert elsewhere.text(lines, ("message", "content")) == lines


def test_a_name_that_begins_like_a_tag_is_a_name() -> None:
    """Of a topic that is no journal, or in a text; and bytes that are JSON are looked into."""
    by_regex = mask({"regex": CANARY, "do": "redact"})
    assert by_regex.tree({f"${CANARY}": "x"}, ("value",)) == {"$***": "x"}
    assert mask({"path": "value.$email", "do": "redact"}).tree({"$email": "x"}, ("value",)) == {"$email": "***"}
    raw = b64encode(f'{{"email":"{CANARY}"}}'.encode()).decode()
    assert mask({"path": "**.email", "do": "redact"}).tree({"$bytes": raw}, ("value",)) == "***"


def test_numbers_are_matched_however_they_are_written() -> None:
    """A card's number is one with an exponent too."""
    card = mask({"regex": r"\d{16}", "do": "redact"})
    assert card.tree([4111111111111111, 4111111111111111.0, 4.111111111111111e18], ()) == ["***"] * 3


def test_a_shared_value_stays_one_under_its_pseudonym() -> None:
    """It is known by what its id begins with."""
    shared = EntryMasks(rules({"path": "process_id", "do": "hash"})).process_id("shared:prices")
    assert shared.startswith("shared:")
    assert "prices" not in shared


def test_one_name_reaches_a_value_in_every_kind_that_carries_it() -> None:
    """Context is context, whether it is set, patched or restored."""
    masks = EntryMasks(rules({"path": "context.email", "do": "redact"}))
    bodies = [
        b.ContextUpdated("email", f'"{CANARY}"'),
        b.ContextUpdatedMany({"email": f'"{CANARY}"', "n": "1"}),
        b.ContextPatched(f'{{"email":"{CANARY}","n":1}}'),
        b.Rewound(1, CONTENT),
        b.Forked("parent", 1, CONTENT),
    ]
    for body in bodies:
        assert CANARY.encode() not in encode(masks.entry(entry(body))), body.KIND
    kept = masks.entry(entry(b.ContextUpdated("other", f'"{CANARY}"')))
    assert CANARY.encode() in encode(kept)


def test_a_masked_seed_is_a_state() -> None:
    """Of the same epoch, seq and owner; with the context's names and as many messages."""
    seed = EntryMasks(rules({"path": "**.email", "do": "redact"}, {"regex": CANARY, "do": "hash"})).entry(
        entry(b.Seeded(STATE_JSON))
    )
    assert isinstance(seed.body, b.Seeded)
    found, before = (State.from_bytes(text.encode()) for text in (seed.body.state, STATE_JSON))
    assert found.context == {"email": "***", "n": 1}
    assert (found.epoch, found.seq, found.owner) == (before.epoch, before.seq, before.owner)
    assert len(found.mailbox) == 1


def test_masking_everything_keeps_what_the_fold_needs() -> None:
    """Roles and lifecycle states are vocabulary, not somebody's data."""
    masks = EntryMasks(rules({"path": "**", "do": "hash"}))
    said = masks.entry(entry(b.MessageSaid("assistant", "x"))).body
    moved = masks.entry(entry(b.LifecycleChanged("starting", "because"))).body
    assert isinstance(said, b.MessageSaid)
    assert isinstance(moved, b.LifecycleChanged)
    assert (said.role, moved.to) == ("assistant", "starting")
    assert said.content != "x"
    assert moved.reason != "because"


def test_process_ids_become_pseudonyms_as_a_whole_or_stop() -> None:
    """Two processes never become one, and a parent is found under its new name."""
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
    treatment = Treatment(Selection(), HeaderRules(), Codec(), masks=masks)
    return treatment.of(Kept(0, 9, key, value, 1, headers)), treatment.counts


def test_a_kind_nobody_thought_of_stops_or_is_dropped() -> None:
    """It never passes: the error names it, not what is in it."""
    value = encode(entry(b.Custom("note", f'"{CANARY}"')))
    with pytest.raises(ReplayRefused, match="no mask rule") as caught:
        treat(rules({"kinds": ["message_said"], "path": "message.content", "do": "redact"}), value)
    assert caught.value.kind == "custom"
    assert CANARY not in str(caught.value)
    dropped, counts = treat(rules({"kinds": ["message_said"], "do": "redact"}, unknown="drop"), value)
    assert (dropped, counts) == (None, Counter({"dropped: unknown kind": 1}))
    passed, _ = treat(rules({"kinds": ["message_said"], "do": "redact"}, **{"pass": ["custom"]}), value)
    assert Codec().decode(passed.value).body == b.Custom("note", f'"{CANARY}"')


@pytest.mark.parametrize("value", [None, b"", CANARY.encode(), b"\xc3\x01" + bytes(30), encode(entry(b.Custom()))[:-1]])
def test_a_record_that_cannot_be_decoded_stops_or_is_dropped(value: bytes | None) -> None:
    """Tombstones, junk, truncated entries; and the key of another process."""
    with pytest.raises(ReplayRefused, match="would pass unmasked") as caught:
        treat(rules({"kinds": EVERYTHING, "do": "redact"}), value)
    assert CANARY not in str(caught.value)
    dropped, _ = treat(rules({"kinds": EVERYTHING, "do": "redact"}, undecodable="drop"), value)
    assert dropped is None
    with pytest.raises(ReplayRefused):
        treat(rules({"kinds": EVERYTHING, "do": "redact"}), encode(entry(b.Custom())), key=b"somebody-else")


def test_headers_are_dropped_while_values_are_masked() -> None:
    """Unless they are named."""
    value = encode(entry(b.Custom()))
    headers = [("tenant", b"acme"), ("email", CANARY.encode())]
    treated, _ = treat(rules({"kinds": ["custom"], "do": "redact"}, keep_headers=["tenant"]), value, headers=headers)
    assert treated.headers == [("tenant", b"acme")]


def test_a_topic_of_plain_json_is_masked_by_rules_without_kinds() -> None:
    """Its key as well; what is no JSON stops."""
    masks = rules({"path": "value.email", "do": "redact"}, {"path": "process_id", "do": "hash"})
    treated, _ = treat(masks, b'{"email":"x","n":1}', key=b"customer-1")
    assert json.loads(treated.value) == {"email": "***", "n": 1}
    assert treated.key not in (b"customer-1", None)
    assert treat(masks, None)[0].value is None
    with pytest.raises(ReplayRefused):
        treat(masks, b"no JSON")
    with pytest.raises(UndecodableRecord):
        Codec().decode(treated.value)


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
def test_rules_that_cannot_be_meant_are_refused(wrong: dict[str, Any]) -> None:
    """A misspelt rule masks nothing: it must not be taken for one that does."""
    with pytest.raises(InvalidSetting):
        MaskRules.from_dict(wrong)


def test_rules_come_from_a_file_with_their_key_in_another(tmp_path: FilePath) -> None:
    """The key is never shown, and is not in the digest that progress files keep."""
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
