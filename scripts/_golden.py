"""Write the golden file of a release: its schema, one entry of each body, a history, and the state it folds to."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

from seekpoint.schemas import bodies as b
from seekpoint.schemas.codec import SCHEMA_FINGERPRINT, encode, schema_json
from seekpoint.schemas.entry import Entry
from seekpoint.schemas.fold import fold
from seekpoint.schemas.golden import Golden, entry_values
from seekpoint.schemas.manifest import FORMAT
from seekpoint.schemas.state import FOLD_VERSION, State, new_state

__all__ = ["make_golden"]

FOLDER = Path(__file__).parents[1] / "schemas" / "seekpoint" / "schemas" / "golden"
PROCESS_ID = "case-17 ü"


def make_golden(release: str) -> Golden:
    """What this code writes, as the golden release ``release``. The same code gives the same file."""
    history = _history()
    state = _folded(history)
    return Golden(
        release=release,
        format=FORMAT,
        fold_version=FOLD_VERSION,
        fingerprint=SCHEMA_FINGERPRINT.hex(),
        schema=json.loads(schema_json()),
        entries=[{"record": encode(entry).hex(), "values": entry_values(entry)} for entry in _one_of_each()],
        history=[encode(entry).hex() for entry in history],
        state=state.to_bytes().decode(),
        hash=state.hash,
        content_hash=state.content_hash,
    )


def _id(number: int) -> bytes:
    return bytes.fromhex(f"01930c4e7a007000800000000000{number:04x}")


_VALUES: dict[str, Any] = {
    "str": "text ü",
    "Json": '{"a":[1,2.5,null,{"$decimal":"1.10"}]}',
    "int": 300,
    "bool": True,
    "bytes": _id(7),
    "str | None": "more",
    "Json | None": '[{"id":"c1"}]',
    "int | None": -5,
    "bytes | None": _id(8),
    "Mapping[str, Json]": {"one": "1", "two": '"2"'},
}


def _one_of_each() -> list[Entry]:
    """Each body twice: with a value in every field, and with all its defaults."""
    full = [kind(**{field.name: _VALUES[str(field.type)] for field in fields(kind)}) for kind in b.BODIES]
    return [
        *(
            _entry(number, 1, body)._replace(caused_by=_id(3), correlation_id="thread")
            for number, body in enumerate(full)
        ),
        *(_external(number, kind()) for number, kind in enumerate(b.BODIES)),
    ]


def _entry(number: int, seq: int, body: b.Body, epoch: int = 1, claim: int = 1) -> Entry:
    stamp = 1_700_000_000_000_000 + number
    return Entry(_id(1000 + number), PROCESS_ID, seq, epoch, _id(claim), number - 1, stamp, "golden", None, None, body)


def _external(number: int, body: b.Body) -> Entry:
    return Entry(_id(number), PROCESS_ID, None, 0, None, None, 1_700_000_000_000_000, None, None, None, body)


def _history() -> list[Entry]:
    """A process that meets every row of the admission table; every part of its state has something in it."""
    own: list[b.Body] = [
        b.Forked("parent", 4, new_state().content_json()),
        b.LifecycleChanged("starting"),
        b.ContextUpdatedMany({"price": '{"$decimal":"1.10"}', "gone": "1", "list": "[1,2]"}),
        b.ContextPatched('{"gone":null,"deep":{"a":{"b":1}}}'),
        b.ContextUpdated("status", '"checking"'),
        b.ContextDeleted("list"),
        b.MessageSaid("user", "Where is my order? ü"),
        b.MessageSaid("assistant", None, None, '[{"id":"c1","name":"lookup"}]'),
        b.MessageSaid("tool", None, '{"rows":[1]}', None, "c1", "lookup"),
        b.InvocationTriggered("webhook", '{"n":1}'),
        b.InvocationStarted(1),
        b.InvocationEnded("failed", 1500, "null", "ValueError"),
        b.ErrorRecorded("ValueError", "no", None),
        b.Custom("note", '{"a":1}'),
        b.InvocationTriggered("webhook", '{"n":2}'),
        b.InvocationStarted(2),
        b.Received(_id(21)),
    ]
    entries = [_external(1, b.Claim(0, "node-1", "boot-1")), _external(21, b.Signal("wake", '{"n":1}'))]
    entries += [_entry(number, number, body) for number, body in enumerate(own, 1)]
    seq = len(own)
    return [
        *entries,
        _external(22, b.CancelRequested("enough")),
        _external(22, b.CancelRequested("enough")),
        _entry(40, seq, b.ContextCleared()),
        _entry(41, seq + 1, b.LifecycleChanged("nowhere")),
        _entry(42, seq + 4, b.ContextCleared()),
        _entry(43, seq + 2, b.ContextCleared()),
        _external(2, b.Claim(1, "node-1", "boot-1", False, _id(1), seq + 2)),
        _entry(44, seq + 2, b.ContextCleared(), epoch=1),
        _entry(45, seq + 2, b.ContextCleared(), epoch=3, claim=9),
        _external(3, b.Claim(1, "node-2", "boot-2")),
        _entry(46, seq + 2, b.ContextUpdated("healed", "true"), epoch=2, claim=2),
        _entry(47, seq + 3, b.Released("done for now"), epoch=2, claim=2),
        _entry(48, seq + 4, b.ContextCleared(), epoch=2, claim=2),
        _external(4, b.Claim(2, "node-3", "boot-3", accept_degraded=True)),
        _entry(49, seq + 4, b.LifecycleChanged("nowhere"), epoch=3, claim=4),
    ]


def _folded(history: list[Entry]) -> State:
    state = new_state()
    for offset, entry in enumerate(history):
        state = fold(state, offset, entry)
    return state


def main() -> int:
    """The command line; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("release", help="the version that is about to be released: 0.1.0")
    parser.add_argument("--force", action="store_true", help="replace a file that no release has shipped yet")
    options = parser.parse_args()
    file = FOLDER / f"{options.release}.json"
    if file.exists() and not options.force:
        print(f"{file.name} exists: what a release wrote is never changed", file=sys.stderr)
        return 1
    FOLDER.mkdir(exist_ok=True)
    file.write_text(make_golden(options.release).to_json())
    print(f"wrote {file.relative_to(FOLDER.parents[3])}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
