"""Whatever an outsider may write to a journal's topic: any body, its fields as hostile as the schema lets them be."""

from __future__ import annotations

from dataclasses import fields

import orjson
from hypothesis import strategies as st

from entry_examples import IDS, JSON, LONGS, PROCESS_ID, TEXTS, an_id, claim, external, own
from folding import FINISHED, GAPPED, MISFITTED, OWNED, RELEASED, folded
from seekpoint.schemas import bodies as b
from seekpoint.schemas.bodies.entry import Entry
from seekpoint.schemas.state.process_state import State, new_state
from seekpoint.schemas.values.json_values import dump

__all__ = ["OWNED", "STATES", "WHOLE", "contents", "outsiders"]

KEYS = st.sampled_from(["", "a:1", "e:1", "g:1", "t:1", "1/a:1", "#3", "1/#2", "999999999999999999999/x:1", "é" * 300])
WORDS = st.sampled_from(
    [
        *("succeeded", "failed", "retry", "unknown", "stuck", "approved", "denied", "timed_out", "done", "dropped"),
        *("at_most_once", "idempotent", "call", "person", "raised", "refunded", "exceeded", "usd", "run", "day"),
        *("running", "stopping", "created", "pause", "fail", "0.8", "NaN", "1E-30", "1E+15", "0E+999999", "-1"),
    ]
)
NUMBERS = st.sampled_from([-(2**63), -1, 0, 1, 2, 3, 2**53, 2**62, 2**63 - 1]) | LONGS
WHOLE = folded(
    claim(1),
    own(1, b.AgentStarted("a", "1", "d", '{"x":1}')),
    own(2, b.BudgetSet('{"usd":"5"}', '{"usd":"1"}', "0.8", "pause")),
    own(3, b.StepStarted("a:1", 1, "a", "0" * 32, estimate='{"usd":"1"}')),
    own(4, b.EffectIntended("e:1", 2, "e", "0" * 32, "at_most_once", estimate='{"usd":"1"}')),
    own(5, b.GateOpened("g:1", 3, "g", "0" * 32)),
    own(6, b.TimerSet("t:1", 4, "t", "0" * 32, 10)),
    own(7, b.ObligationRegistered("e:1", "undo", "[1]")),
    own(8, b.ContextUpdated("a:1", "1")),
    own(9, b.InvocationTriggered("cron", "1")),
    own(10, b.Custom("note", "1")),
    external(b.Signal("g:1", "true"), 50),
)
STATES = {
    "unknown": new_state(), "owned": OWNED, "whole": WHOLE, "finished": FINISHED, "gapped": GAPPED,
    "misfitted": MISFITTED, "released": RELEASED,
    "shared": folded(external(b.SharedSet("1", -1), 60)._replace(process_id="shared:rate")),
}  # fmt: skip


def contents(state: State) -> st.SearchStrategy[str]:
    """A state's JSON with something hostile in it."""
    numbers = st.sampled_from([-(2**63), -1, 0, 1, 2, 2**62, 2**63 - 1, 2**63, 2**64 - 1])
    leaves = numbers | st.none() | numbers | TEXTS | WORDS | KEYS | st.lists(numbers | TEXTS, max_size=3)

    def spoiled(whole: object, choices: list[int], leaf: object) -> str:
        """``whole`` with ``leaf`` where ``choices`` lead."""
        at: object = whole
        for choice in choices:
            if isinstance(at, dict) and at:
                key = sorted(at)[choice % len(at)]
                if isinstance(at[key], dict | list) and at[key] and choice < 50:
                    at = at[key]
                    continue
                at[key] = leaf
                break
            if isinstance(at, list) and at:
                index = choice % len(at)
                if isinstance(at[index], dict | list) and at[index] and choice < 50:
                    at = at[index]
                    continue
                at[index] = leaf
                break
        return orjson.dumps(whole).decode()

    text = st.sampled_from([state.to_bytes(), state.content_json().encode()])
    return st.builds(spoiled, text.map(orjson.loads), st.lists(st.integers(0, 60), min_size=1, max_size=7), leaves)


_AMOUNTS = ["usd", "tokens", "input_tokens", "output_tokens", "cached_tokens"]
_SHAPES = ['{"$tuple":["a:1"]}', '{"$set":[]}', "[[1]]", '[{"a":1}]', "[1]", '["a:1"]', '[["user","x"]]', "{}"]
HOSTILE_JSON = st.one_of(
    JSON,
    WORDS.map(dump),
    st.dictionaries(st.sampled_from(_AMOUNTS), NUMBERS | WORDS | st.sampled_from([0.5, 1e300])).map(dump),
    st.sampled_from(_SHAPES),
)
BY_TYPE: dict[str, st.SearchStrategy[object]] = {
    "str": TEXTS | KEYS | WORDS,
    "Json": HOSTILE_JSON,
    "int": NUMBERS,
    "bool": st.booleans(),
    "bytes": IDS | st.sampled_from([an_id(50), bytes(16)]),
    "str | None": st.none() | TEXTS | KEYS | WORDS,
    "Json | None": st.none() | HOSTILE_JSON,
    "int | None": st.none() | NUMBERS,
    "bytes | None": st.none() | IDS | st.sampled_from([an_id(50), an_id(1), bytes(16)]),
    "Data": st.binary(max_size=40),
    "Mapping[str, Json]": st.dictionaries(TEXTS | KEYS, HOSTILE_JSON, max_size=4),
}
CONTENTS = st.one_of(contents(WHOLE), contents(OWNED), contents(FINISHED))


def bodies() -> st.SearchStrategy[b.Body]:
    """Any body, its fields as hostile as a schema lets them be."""
    found = []
    for kind in b.BODIES:
        made = {field.name: BY_TYPE[str(field.type)] for field in fields(kind)}
        if kind is b.Claim:
            made["expected_epoch"] = st.sampled_from([0, 1, 2, 2**62, 2**63 - 1, -1])
        if kind in (b.Rewound, b.Forked, b.Promoted):
            made["content"] = CONTENTS | HOSTILE_JSON
        if kind is b.Seeded:
            made["state"] = CONTENTS | HOSTILE_JSON
        found.append(st.builds(kind, **made))
    return st.one_of(found)


def outsiders(state: State) -> st.SearchStrategy[Entry]:
    """Any entry of the process: also such as its owner would write."""
    return st.builds(
        Entry, id=IDS | st.just(an_id(50)), process_id=st.just(PROCESS_ID),
        seq=st.none() | st.sampled_from([state.seq + 1, state.seq + 1, state.seq + 2, 0]) | NUMBERS,
        epoch=st.sampled_from([state.epoch, state.epoch, state.epoch + 1, 0]) | NUMBERS,
        claim_id=st.sampled_from([state.owner, state.owner, an_id(1), None]) | IDS,
        prev_offset=st.none() | NUMBERS, ts=NUMBERS, actor=st.none() | TEXTS, caused_by=st.none() | IDS,
        correlation_id=st.none() | TEXTS, body=bodies(),
    )  # fmt: skip
