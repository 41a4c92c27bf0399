"""Write the golden file of a release: its schema, one entry of each body, a history, and the state it folds to."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

from seekpoint.schemas import bodies as b
from seekpoint.schemas.bodies.entry import Entry
from seekpoint.schemas.folding.fold import fold
from seekpoint.schemas.log.manifest import FORMAT
from seekpoint.schemas.state.process_state import FOLD_VERSION, State, new_state
from seekpoint.schemas.wire.codec import SCHEMA_FINGERPRINT, encode, schema_json
from seekpoint.schemas.wire.golden import Golden, entry_values

__all__ = ["make_golden"]

FOLDER = Path(__file__).parents[1] / "schemas" / "seekpoint" / "schemas" / "golden"
PROCESS_ID = "case-17 ü"
TRACE_PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def make_golden(release: str) -> Golden:
    """Return what this code writes, as the golden release ``release``. The same code gives the same file."""
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
    "Data": b"\0any bytes",
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
    outside = [
        _external(
            27, b.Submitted("refunder", '{"order":"4711"}', 5, 1_700_000_000_000_000, "thread", TRACE_PARENT, "boss")
        ),
        _external(21, b.Signal("wake", '{"n":1}')),
        _external(23, b.Signal("paid", "12")),
        _external(32, b.Signal("approve", '"many"')),
        _external(25, b.SharedSet("rate", -1, "1")),
    ]
    deleted = [b.ContextUpdated("old", "1"), b.Deleted("a new start")]
    begun = [_external(1, b.Claim(0, "node-1", "boot-1")), *_owned(deleted), *outside]
    own = [*deleted, *_content(), *_first_turn()]
    rewound = b.Rewound(len(own), _folded([*begun, *_owned(own)[2:]]).content_json())
    promoted = b.Promoted("child", 9, rewound.content, "it found the order")
    own += [*_forgotten(), rewound, b.ParentAnswered('["look:1"]'), promoted, *_second_turn(), b.Received(_id(21))]
    return [*begun, *_owned(own)[2:], *_disputed(len(own))]


def _content() -> list[b.Body]:
    """Context, conversation, invocations: what a program writes itself."""
    return [
        b.Forked(
            "parent",
            4,
            new_state().content_json(),
            effects="recorded",
            permissive=True,
            answers='["ask:1"]',
            reason="try",
            rerun_of="parent",
            model="large",
        ),
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
        b.PartAttached(_WHOLE, 9, 0, b"\0two ", "text/plain"),
        b.PartAttached(_WHOLE, 9, 5, b"part"),
        b.PartAttached(_IN_STORE, 12, media_type="image/png", store="bucket"),
        b.PartAttached(_GONE, 3, 0, b"out"),
        b.Detached(f'["{_GONE}"]'),
        b.PartAttached(_BEGUN, 9, 0, b"only begun"[:5]),
        b.InvocationTriggered("webhook", '{"n":2}'),
        b.InvocationStarted(2),
    ]


_WHOLE, _IN_STORE, _GONE, _BEGUN = (letter * 64 for letter in "abcd")
_D = "5dd3" * 8
"""The digest of what a call was asked."""


def _first_turn() -> list[b.Body]:
    """An agent begins, tries a step twice, and leaves an effect in doubt behind its turn."""
    return [
        b.AgentStarted("refunder", "1", "81c0", '{"order":"4711"}', TRACE_PARENT, limits='{"usd":"9"}'),
        b.BudgetSet('{"usd":"10","irreversible_effects":"2"}', '{"tokens":"1000"}', "0.5", "escalate"),
        b.PatchMarked("ask-first"),
        b.StepStarted("1/look:1", 1, "look", _D, '["4711"]', 1, "case/1/look:1", 5, '{"tool_calls":"1"}'),
        b.StepEnded("1/look:1", 1, "retry", error='{"type":"OSError"}', retry_at_us=9, ended_at_us=8, duration_us=3),
        b.StepStarted("1/look:1", 1, "look", _D, '["4711"]', 2, "case/1/look:1", 9),
        b.StepEnded("1/look:1", 2, "succeeded", '{"amount":12}', ended_at_us=12, duration_us=3, cost_usd="0.1"),
        b.EffectIntended(
            "1/pay:1", 2, "pay", _D, "at_most_once", "bank", "o-1", "case/1/pay:1", "[12]", irreversible=True
        ),
        b.TurnEnded(1),
    ]


def _forgotten() -> list[b.Body]:
    """A step that the rewind behind it forgets."""
    return [b.StepEnded("2/quick:1", 1, "succeeded", "1", position=1, name="quick", digest=_D)]


def _second_turn() -> list[b.Body]:
    """A call of each kind that is over, and of each that may be one that is not."""
    return [
        b.StepEnded("2/quick:1", 1, "failed", error='{"type":"KeyError"}', position=1, name="quick", digest=_D),
        b.CallsSetAside('["2/quick:1"]', "the service is back"),
        b.StepEnded("2/quick:1", 2, "failed", error='{"type":"KeyError"}', position=1, name="quick", digest=_D),
        b.StepStarted("2/slow:1", 2, "slow", _D, estimate='{"usd":"0.5"}'),
        b.DecisionStarted("2/ask:1", 3, "ask", _D, '{"messages":[]}', policy="1", estimate='{"tokens":"100"}'),
        b.DecisionMade("2/ask:1", 1, "succeeded", '"yes"', model="m", cost_usd="0.01", usage=_USAGE, ended_at_us=9),
        b.DecisionStarted("2/ask:2", 4, "ask", _D, '{"messages":[]}'),
        b.Sampled("2/now:1", 5, "now", error='{"type":"OSError"}'),
        b.CallsSetAside('["2/now:1"]'),
        b.Sampled("2/now:1", 5, "now", value="17"),
        b.TimerSet("2/sleep:1", 6, "sleep", fires_at_us=100),
        b.TimerFired("2/sleep:1", 100),
        b.TimerSet("2/sleep:2", 7, "sleep", fires_at_us=500),
        b.GateOpened("2/approve:1", 8, "approve", _D, prompt='{"amount":12}'),
        b.GateResolved("2/approve:1", "approved", None, "12", "ann", "he is right"),
        b.GateOpened("2/approve:2", 9, "approve", _D, deadline_us=500),
        b.AnswerRefused("2/approve:2", _id(32), "no number"),
        b.ChildSpawned("2/child:1", 10, "child", _D, "case-18", "helper", "1", estimate='{"usd":"1"}'),
        b.ChildEnded("2/child:1", "succeeded", '"done"', spent='{"usd":"0.3"}'),
        b.ChildSpawned("2/child:2", 11, "child", _D, "case-19", "helper", "1", limits='{"usd":"2"}'),
        b.EffectIntended("2/book:1", 12, "book", _D, "idempotent", "hotel", None, "case/2/book:1", '["12"]'),
        b.EffectSettled("2/book:1", 1, "succeeded", '"no. 12"', cost_usd="2", ended_at_us=9),
        b.ObligationRegistered("2/book:1", "unbook", '["12"]'),
        b.EffectIntended("2/mail:1", 13, "mail", _D, "at_most_once", idempotency_key="case/2/mail:1"),
        b.EffectSettled("2/mail:1", 1, "unknown"),
        b.EffectIntended("2/post:1", 14, "post", _D, "at_most_once", idempotency_key="case/2/post:1"),
        b.Received(_id(23), "2/receive:1", 15, _D, "receive"),
        b.ContextUpdated("turn", "2", "2/#16"),
        b.ContentBatch(False, {"batch": "1"}, '["status"]', '[["user","one"]]'),
        b.Diverged("2/quick:1", 1, "input", '"a"', '"b"'),
        b.BudgetNoted("warned", "usd", "run", "2/ask:1", "5", "10"),
        b.LifecycleChanged("failed", retry_at_us=900),
        b.CancelAccepted(None, "enough"),
    ]


_USAGE = '{"input_tokens":90,"output_tokens":10}'


def _disputed(seq: int) -> list[Entry]:
    """Return what others write meanwhile, and who owns the process then."""
    return [
        _external(22, b.CancelRequested("enough")),
        _external(28, b.ResumeRequested("it is fine")),
        _external(29, b.SuspendRequested("look at it")),
        _external(30, b.RedriveRequested("the bank is back", True)),
        _external(22, b.CancelRequested("enough")),
        _external(31, b.EffectRevoked("2/book:1", "case/2/book:1", "the hotel is closed")),
        _external(24, b.EffectVerdict("2/mail:1", "failed", reason="nothing came", idempotency_key="case/2/mail:1")),
        _entry(40, seq, b.ContextCleared()),
        _entry(41, seq + 1, b.LifecycleChanged("nowhere")),
        _entry(42, seq + 4, b.ContextCleared()),
        _entry(43, seq + 2, b.ContextCleared()),
        _external(2, b.Claim(1, "node-1", "boot-1", False, _id(1), seq + 2)),
        _entry(44, seq + 2, b.EffectSettled("2/post:1", 1, "succeeded", '"sent"'), epoch=1),
        _entry(45, seq + 2, b.ContextCleared(), epoch=3, claim=9),
        _external(3, b.Claim(1, "node-2", "boot-2")),
        _entry(46, seq + 2, b.ContextUpdated("healed", "true"), epoch=2, claim=2),
        _entry(47, seq + 3, b.Released("done for now"), epoch=2, claim=2),
        _entry(48, seq + 4, b.ContextCleared(), epoch=2, claim=2),
        _external(4, b.Claim(2, "node-3", "boot-3", accept_degraded=True)),
        _external(33, b.Claim(3, "node-4", "boot-4")),
        _entry(49, seq + 4, b.LifecycleChanged("nowhere"), epoch=4, claim=33),
    ]


def _owned(bodies: list[b.Body]) -> list[Entry]:
    return [_entry(number, number, body) for number, body in enumerate(bodies, 1)]


def _folded(history: list[Entry]) -> State:
    state = new_state()
    for offset, entry in enumerate(history):
        state = fold(state, offset, entry)
    return state


def main() -> int:
    """The command line; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("release", help="the version that is about to be released: 0.2.0")
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
