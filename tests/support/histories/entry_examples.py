"""Entries to test with: short ways to write one down, and hypothesis strategies for any."""

from __future__ import annotations

from dataclasses import fields

from hypothesis import strategies as st

from seekpoint.schemas import bodies as b
from seekpoint.schemas.bodies.entry import Entry
from seekpoint.schemas.values.json_values import dump

PROCESS_ID = "case-17"


def an_id(number: int) -> bytes:
    """A readable 16-byte id."""
    return number.to_bytes(16, "big")


def external(body: b.Body, entry_id: int, actor: str | None = None) -> Entry:
    """An entry by somebody who is not the owner."""
    return Entry(an_id(entry_id), PROCESS_ID, None, 0, None, None, 1_000_000 + entry_id, actor, None, None, body)


def claim(entry_id: int, expected_epoch: int = 0, **rest: object) -> Entry:
    """A claim; its entry's id names the owner if it wins."""
    return external(b.Claim(expected_epoch, "node", "boot", **rest), entry_id)  # type: ignore[arg-type]


def own(seq: int, body: b.Body | None = None, *, epoch: int = 1, claim_id: int = 1) -> Entry:
    """An owner's entry under the claim ``claim_id``; its body sets the context value ``"seq"`` unless given."""
    body = b.ContextUpdated("seq", str(seq)) if body is None else body
    return Entry(
        an_id(1000 + seq), PROCESS_ID, seq, epoch, an_id(claim_id), None, 2_000_000 + seq, None, None, None, body
    )


# --- any entry --------------------------------------------------------------------------------------------------------
LONGS = st.integers(-(2**63), 2**63 - 1)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=80)
IDS = st.binary(min_size=16, max_size=16)
PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)
JSON = PLAIN.map(dump)
PROCESS_IDS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=50)

_BY_TYPE: dict[str, st.SearchStrategy[object]] = {
    "str": TEXTS,
    "Json": JSON,
    "int": LONGS,
    "bool": st.booleans(),
    "bytes": IDS,
    "Data": st.binary(max_size=80),
    "str | None": st.none() | TEXTS,
    "Json | None": st.none() | JSON,
    "int | None": st.none() | LONGS,
    "bytes | None": st.none() | IDS,
    "Mapping[str, Json]": st.dictionaries(TEXTS, JSON, max_size=5),
}


def any_body(*kinds: type[b.Body]) -> st.SearchStrategy[b.Body]:
    """Any body, or any of ``kinds``: its fields are random, most make no sense to the fold."""
    made = [
        st.builds(kind, **{field.name: _BY_TYPE[str(field.type)] for field in fields(kind)})
        for kind in kinds or b.BODIES
    ]
    return st.one_of(made)


def any_entry(*kinds: type[b.Body]) -> st.SearchStrategy[Entry]:
    """Any entry: every field random within what Avro can carry."""
    return st.builds(
        Entry,
        id=IDS,
        process_id=PROCESS_IDS,
        seq=st.none() | LONGS,
        epoch=LONGS,
        claim_id=st.none() | IDS,
        prev_offset=st.none() | LONGS,
        ts=LONGS,
        actor=st.none() | TEXTS,
        caused_by=st.none() | IDS,
        correlation_id=st.none() | TEXTS,
        body=any_body(*kinds),
    )
