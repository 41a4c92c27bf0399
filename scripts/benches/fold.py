"""How fast entries are written, read and folded, on one core, beside fastavro and a dict in the same run.

The entries are 150 real agent runs where they are at hand (a message and a context update a turn), else synthetic ones
of the same shape. Each figure is processor time, the best of several rounds in which all take turns: what the code
costs, not what else the machine does.
"""

from __future__ import annotations

import gc
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from gzip import open as gzip_open
from io import BytesIO
from pathlib import Path
from typing import Any

import fastavro

from _table import Table, arguments, progress
from seekpoint.schemas import bodies as b
from seekpoint.schemas.bodies.entry import Entry, new_id
from seekpoint.schemas.folding.fold import advance
from seekpoint.schemas.state.process_state import Draft
from seekpoint.schemas.values.json_values import dump
from seekpoint.schemas.wire.codec import Codec, encode, schema_json
from seekpoint.schemas.wire.schema_resolution import strip_metadata

RUNS = Path(__file__).resolve().parents[3] / "shared" / "data" / "agent-runs.jsonl.gz"
BAR_PER_S = 80_000
ENCODE_BAR_US = 8.0
TS = 1_732_000_000_000_000
Conversations = dict[str, list[dict[str, Any]]]


def real_runs(file: Path) -> Conversations:
    """The messages of each run, in OpenAI's chat format."""
    with gzip_open(file, "rt") as lines:
        return {str(run["run_id"]): run["messages"] for run in map(json.loads, lines)}


def synthetic_runs() -> Conversations:
    """Runs of the same shape: a question, a tool call, its answer, a reply."""
    turn: list[dict[str, Any]] = [
        {"role": "user", "content": "Where is my order? I placed it on Monday and it has not arrived. " * 2},
        {"role": "assistant", "tool_calls": [{"id": "c1", "name": "lookup", "arguments": {"order": "W-4711"}}]},
        {"role": "tool", "tool_call_id": "c1", "name": "lookup", "content": '{"status":"shipped","rows":[1,2,3]}' * 4},
        {"role": "assistant", "content": "It was shipped yesterday and should be with you tomorrow. " * 3},
    ]
    return {f"run-{number}": turn * 6 for number in range(160)}


def entries_of(runs: Conversations) -> list[Entry]:
    """What an agent would have journaled: a claim, then a message and a context update a turn."""
    entries: list[Entry] = []
    for process_id, messages in runs.items():
        claim_id = new_id()
        entries.append(Entry(claim_id, process_id, None, 0, None, None, TS, None, None, None, b.Claim(0, "n", "b")))
        for number, message in enumerate(messages):
            calls = message.get("tool_calls")
            said = b.MessageSaid(
                message["role"],
                message.get("content"),
                None,
                dump(calls) if calls else None,
                message.get("tool_call_id"),
                message.get("name"),
            )
            turn = b.ContextUpdated(f"turn_{number % 5}", dump({"role": message["role"], "number": number}))
            for seq, body in enumerate((said, turn), 2 * number + 1):
                at = len(entries)
                entries.append(Entry(new_id(), process_id, seq, 1, claim_id, at - 1, TS + at, None, None, None, body))
    return entries


def best_s(works: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """By name: the least processor time of ``rounds`` runs."""
    found = dict.fromkeys(works, float("inf"))
    for number in range(rounds):
        progress(f"round {number + 1} of {rounds}")
        for name, work in works.items():
            gc.collect()
            started = time.process_time()
            work()
            found[name] = min(found[name], time.process_time() - started)
    return found


# --- ours -------------------------------------------------------------------------------------------------------------
def fold_all(entries: Sequence[Entry]) -> dict[str, Draft]:
    """The draft of each process behind its last entry."""
    drafts: dict[str, Draft] = {}
    for offset, entry in enumerate(entries):
        draft = drafts.get(entry.process_id)
        if draft is None:
            draft = drafts[entry.process_id] = Draft()
        advance(draft, offset, entry)
    return drafts


def decode_and_fold(records: Sequence[bytes]) -> dict[str, Draft]:
    """As a projector does: decode, fold, drop."""
    decode = Codec().decode
    drafts: dict[str, Draft] = {}
    for offset, record in enumerate(records):
        entry = decode(record)
        draft = drafts.get(entry.process_id)
        if draft is None:
            draft = drafts[entry.process_id] = Draft()
        advance(draft, offset, entry)
    return drafts


def decode_all(records: Sequence[bytes]) -> None:
    """Decode and drop."""
    decode = Codec().decode
    for record in records:
        decode(record)


def encode_all(entries: Sequence[Entry]) -> None:
    """Encode and drop."""
    for entry in entries:
        encode(entry)


# --- the baseline -----------------------------------------------------------------------------------------------------
SCHEMA = fastavro.parse_schema(strip_metadata(json.loads(schema_json())))


def fastavro_encode(values: Sequence[dict[str, Any]]) -> None:
    """fastavro, with the union's branches named: its fastest way."""
    for value in values:
        fastavro.schemaless_writer(BytesIO(), SCHEMA, value)


def fastavro_decode(records: Sequence[bytes]) -> None:
    """fastavro alone: no limits, no check of the JSON inside."""
    for record in records:
        fastavro.schemaless_reader(BytesIO(record[10:]), SCHEMA, None)


def fastavro_into_dicts(records: Sequence[bytes]) -> None:
    """fastavro and the least a fold could be: no admission, no limits, a list and a dict a process."""
    states: dict[str, tuple[dict[str, str], list[Any]]] = {}
    for record in records:
        entry: Any = fastavro.schemaless_reader(BytesIO(record[10:]), SCHEMA, None)
        context, conversation = states.setdefault(entry["process_id"], ({}, []))
        body = entry["body"]
        if "role" in body:
            conversation.append(body)
        elif "key" in body:
            context[body["key"]] = body["value"]


def measured(entries: Sequence[Entry], rounds: int) -> dict[str, float]:
    """Microseconds an entry of each way; of ``hash``, a state."""
    records = [encode(entry) for entry in entries]
    values: list[dict[str, Any]] = [
        {**entry._asdict(), "body": (f"seekpoint.{type(entry.body).__name__}", asdict(entry.body))} for entry in entries
    ]
    states = [draft.freeze() for draft in fold_all(entries).values()]
    gc.freeze()
    seconds = best_s(
        {
            "encode": lambda: encode_all(entries),
            "decode": lambda: decode_all(records),
            "apply": lambda: fold_all(entries),
            "both": lambda: decode_and_fold(records),
            "hash": lambda: [state.hash for state in states],
            "fastavro encode": lambda: fastavro_encode(values),
            "fastavro decode": lambda: fastavro_decode(records),
            "fastavro both": lambda: fastavro_into_dicts(records),
        },
        rounds,
    )
    return {name: taken / (len(states) if name == "hash" else len(entries)) * 1e6 for name, taken in seconds.items()}


def main() -> int:
    """The command line; the exit code."""
    parser = arguments(__doc__)
    parser.add_argument("--runs", type=Path, default=RUNS, help="real runs, one JSON object a line, gzipped")
    parser.add_argument("--rounds", type=int, default=15, help="the best of so many (default: 15)")
    options = parser.parse_args()
    is_real = options.runs.exists()
    runs = real_runs(options.runs) if is_real else synthetic_runs()
    entries = entries_of(runs)
    us = measured(entries, options.rounds)
    table = Table("fold")

    def row(what: str, name: str, baseline: str | None = None) -> None:
        theirs = us.get(f"fastavro {name}") if baseline else None
        ratio = theirs and theirs / us[name]
        table.row(
            what=what, us=us[name], per_s=1e6 / us[name], baseline=baseline, baseline_us=theirs, times_faster=ratio
        )

    row("encode", "encode", "fastavro")
    row("decode, limits and JSON checked", "decode", "fastavro, nothing checked")
    row("apply", "apply")
    row("decode + apply", "both", "fastavro + dict, nothing checked")
    row(f"hash of a state of {len(entries) // len(runs)} entries", "hash")
    mean_bytes = sum(len(encode(entry)) for entry in entries) // len(entries)
    table.row(
        what=f"({len(entries):,} entries of {mean_bytes} B on average, {'real' if is_real else 'synthetic'} runs)"
    )
    table.at_least("decode + apply, entries/s", bar=BAR_PER_S, value=1e6 / us["both"])
    table.at_most("encode, us", bar=ENCODE_BAR_US, value=us["encode"])
    return table.finish(json=options.json)


if __name__ == "__main__":
    sys.exit(main())
