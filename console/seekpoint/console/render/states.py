"""Show processes: plain data for ``--json``, rows and lines for people. Pure."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Any

import orjson

from seekpoint.console.render.output import counted, pasted
from seekpoint.console.render.tables import Column
from seekpoint.schemas.bodies.entry import id_text
from seekpoint.schemas.errors import FoldUnavailable
from seekpoint.schemas.folds import registered
from seekpoint.schemas.state.process_state import COUNTERS, State
from seekpoint.schemas.values.clock import iso_time, now_us
from seekpoint.schemas.values.json_values import dump

if TYPE_CHECKING:
    from seekpoint.consumers.recovery.recovery_report import Recovered, Report
    from seekpoint.consumers.view.process_summary import Summary

__all__ = [
    "PROCESS_COLUMNS",
    "call_name",
    "process_facts",
    "process_row",
    "report_lines",
    "state_facts",
    "state_lines",
    "summary_facts",
]

PROCESS_COLUMNS = (
    Column("process"),
    Column("lifecycle"),
    Column("agent", cut=True),
    Column("updated", right=True),
    Column("owner", wide=True),
    Column("owned for", right=True, wide=True),
    Column("seq", right=True, wide=True),
    Column("last call", wide=True),
    Column("waits since", right=True, wide=True),
    *(Column(title, right=True, wide=True) for title in ("epoch", "mailbox", "newest offset", "behind")),
    Column("note", wraps=True),
)


_INTERNALS = ("seek point", "log", "last kind", "hash")


def process_facts(process_id: str, partition: int, state: State) -> dict[str, Any]:
    """Return the facts of a process from its state, as ``summary_facts`` has them."""
    from seekpoint.consumers.view.process_summary import summary_of

    return summary_facts(summary_of(partition, process_id.encode(), state), state)


def summary_facts(
    summary: Summary, state: State | None = None, behind: int = 0, has_worker: bool | None = None
) -> dict[str, Any]:
    """Return the facts of a process: an object of ``seekpoint ps --json``.

    ``state`` is its state if the log was read, ``behind`` how many offsets its view is behind. ``has_worker`` is False
    if it needs a worker and none has its code, and None if it needs none.
    """
    degraded = None if summary.degraded is None else {"reason": summary.degraded}
    if state is not None and state.degraded is not None:
        degraded = asdict(state.degraded)
    return {
        "process_id": summary.process_id,
        "agent": summary.agent,
        "version": summary.version,
        "lifecycle": str(summary.lifecycle),
        "owner_node": summary.owner_node,
        "owned_since": claimed_at(summary.owner),
        "on_hold": summary.on_hold,
        "has_worker": has_worker,
        "waits_for": list(summary.waits_for),
        "awaits": list(summary.awaits or summary.waits_for),
        "since": None if summary.since_us is None else iso_time(summary.since_us),
        "until": None if (until_us := summary.until_us or 0) <= now_us() else iso_time(until_us),
        "in_doubt": summary.in_doubt,
        "error": summary.error,
        "spent": None if summary.spent is None else dict(summary.spent),
        "started": iso_time(summary.started_us),
        "updated": iso_time(summary.updated_us),
        "epoch": summary.epoch,
        "seq": summary.seq,
        "mailbox": summary.mailbox,
        "last_kind": summary.last_kind,
        "last_call": summary.last_call,
        "last_call_kind": summary.last_call_kind,
        "degraded": degraded,
        "finished": summary.finished,
        "deleted": summary.is_deleted,
        "partition": summary.partition,
        "offset": summary.offset,
        "behind": behind,
    }


def process_row(facts: Mapping[str, Any]) -> list[object]:
    """Make the row of ``PROCESS_COLUMNS`` from the facts of a process."""
    special = next((name for name in ("deleted", "degraded", "finished") if facts[name]), None)
    return [
        facts["process_id"],
        special or facts["lifecycle"],
        facts["agent"] or "-",
        _ago(facts["updated"]),
        facts["owner_node"] or "-",
        "-" if facts["owned_since"] is None else _span(time.time() - facts["owned_since"]),
        facts["seq"],
        call_name(facts["last_call_kind"], facts["last_call"]) or "-",
        "-" if facts["since"] is None else _ago(facts["since"]),
        *(facts[name] for name in ("epoch", "mailbox", "offset", "behind")),
        "; ".join(_notes(facts)) or "-",
    ]


def _notes(facts: Mapping[str, Any]) -> list[str]:
    """Return what a person wants to know next: a missing worker, an error, what the process waits for."""
    if facts["finished"]:
        return []
    notes = ["no worker"] if facts["has_worker"] is False else []
    notes += ["on hold"] if facts["on_hold"] else []
    notes += [facts["error"]] if facts["error"] and facts["lifecycle"] == "failed" else []
    notes += [f"{facts['in_doubt']} in doubt"] if facts["in_doubt"] and facts["owner_node"] is None else []
    if facts["waits_for"]:
        until = f" until {facts['until']}" if facts["until"] else ""
        notes.append(f"waits for {', '.join(facts['awaits'])}{until}")
    return notes


def call_name(kind: str | None, key: str | None) -> str:
    """Return a call as lists name it; an empty text if there is none.

    >>> call_name("step", "refund:1"), call_name(None, "refund:1"), call_name(None, None)
    ('step refund:1', 'refund:1', '')
    """
    return " ".join(filter(None, (kind, key)))


def _ago(moment: str) -> str:
    return f"{_span(time.time() - datetime.fromisoformat(moment).timestamp())} ago"


def claimed_at(claim_id: bytes | None) -> float | None:
    """Return the time of a claim in seconds since 1970, by its owner's clock. A UUIDv7 begins with its time."""
    return None if claim_id is None else int.from_bytes(claim_id[:6], "big") / 1000


def _span(seconds: float) -> str:
    """Return a duration in its largest unit.

    >>> _span(75), _span(0.4), _span(200_000)
    ('1 min', '0 s', '2 d')
    """
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds // size:.0f} {unit}"
    return f"{max(0.0, seconds):.0f} s"


def state_facts(process_id: str, found: Recovered) -> dict[str, Any]:
    """Return a state and its recovery report as plain data: the output of ``seekpoint state --json``."""
    from seekpoint.consumers.view.process_summary import waits_of

    state = found.state
    return {
        "process_id": process_id,
        "lifecycle": str(state.lifecycle),
        "finished": state.finished,
        "content_dropped": state.content_dropped,
        "failure": state.failure and asdict(state.failure),
        "result": None if state.result_json is None else orjson.loads(state.result_json),
        "seq": state.seq,
        "epoch": state.epoch,
        "owner": id_text(state.owner),
        "owner_node": state.owner_node,
        "offset": state.offset,
        "first_offset": state.first_offset,
        "last_kind": state.last_kind,
        "context": _context(state),
        "conversation": _conversation(state),
        "invocations": state.invocations,
        "invocation": state.invocation
        and {
            "trigger": state.invocation.trigger,
            "payload": orjson.loads(state.invocation.payload_json),
            "started": state.invocation.started,
        },
        "mailbox": _mailbox(state),
        "attachments": [
            {"digest": digest, **asdict(one), "is_whole": one.is_whole} for digest, one in state.attachments.items()
        ],
        "lineage": asdict(state.lineage),
        "in_doubt": list(state.in_doubt),
        "first_in_doubt": state.first_in_doubt,
        "waits_for": {wait.name: wait.kind for wait in waits_of(state)},
        "awaits": [wait.text for wait in waits_of(state)],
        "folds": {name: _folded(state, name) for name in sorted({*state.folds, *registered()})},
        "degraded": None if state.degraded is None else asdict(state.degraded),
        "counters": {name: getattr(state, name) for name in COUNTERS},
        "hash": state.hash,
        "content_hash": state.content_hash,
        "report": found.report.to_dict(),
    }


def state_lines(facts: Mapping[str, Any], *, wide: bool = False) -> list[str]:
    """Return the facts of ``state_facts`` as lines for people, with ``wide`` also epoch, offset and last kind."""
    lines = [_headline(facts, wide=wide), *_notices(facts)]
    if facts["finished"]:
        lines += ["", f"result  {_text(facts['result'])}"]
    lines += _section("context", [f"{key} = {_text(value)}" for key, value in facts["context"].items()])
    lines += _section("conversation", [_message_line(message) for message in facts["conversation"]])
    lines += _section("folds", [f"{name} = {_fold_text(one)}" for name, one in facts["folds"].items()])
    lines += _section("attachments", [_attachment(one) for one in facts["attachments"]])
    lines += _section("mailbox", [_mail(item) for item in facts["mailbox"]])
    return lines


def _attachment(facts: Mapping[str, Any]) -> str:
    where = f" in {facts['store']}" if facts["store"] else ""
    rest = "" if facts["is_whole"] else f", {facts['received']:,} of them written"
    return f"{facts['digest'][:12]}  {facts['size']:,} bytes, {facts['media_type']}{where}{rest}"


def report_lines(report: Report, state: State, *, wide: bool = False) -> list[str]:
    """Return a recovery report as lines, one fact each, with ``wide`` also offsets, the last kind and the hash."""
    facts = {
        "tier": report.tier,
        "seek point": report.seek_point,
        "log": f"{report.log_start} to {report.log_end}",
        "scanned": f"{counted(report.entries_scanned, 'entry')}, {report.bytes / 1000:,.1f} kB",
        "applied": counted(report.entries_applied, "entry"),
        "took": f"{report.duration_s * 1000:,.1f} ms",
        "last kind": report.last_kind or "none",
        "hash": state.hash,
    }
    if report.first_in_doubt is not None:
        facts["in doubt"] = report.first_in_doubt
    if report.poison:
        facts["poison"] = f"{counted(report.poison, 'record')}: seekpoint dlq ls"
    if report.hidden:
        facts["hidden"] = f"{counted(report.hidden, 'offset')} behind {report.log_end}"
    notes = [f"note        {note}" for note in report.notes]
    return [f"{name:<12}{value}" for name, value in facts.items() if wide or name not in _INTERNALS] + notes


def _folded(state: State, name: str) -> dict[str, Any]:
    """Return the value of a fold, or the problem. A fold that is not registered here is shown as stored."""
    stored = state.folds.get(name)
    if name not in registered() and stored is not None:
        why = f"not registered here; as of {stored.customs} of {state.customs} custom entries"
        return {"version": stored.version, "value": orjson.loads(stored.value_json), "problem": why}
    version = registered()[name].version
    try:
        return {"version": version, "value": orjson.loads(dump(state.folded(name))), "problem": None}
    except FoldUnavailable as exc:
        return {"version": version, "value": None, "problem": exc.message}


def _fold_text(fold: Mapping[str, Any]) -> str:
    if fold["problem"] is None:
        return _text(fold["value"])
    return f"({fold['problem']})" if fold["value"] is None else f"{_text(fold['value'])} ({fold['problem']})"


def _context(state: State) -> dict[str, Any]:
    return {key: orjson.loads(text) for key, text in sorted(state.values_json.items())}


def _conversation(state: State) -> list[dict[str, Any]]:
    names = ("role", "content", "tool_calls", "tool_call_id", "name")
    # Values are shown as in the journal: values that JSON lacks are tagged objects.
    return [{name: orjson.loads(dump(getattr(message, name))) for name in names} for message in state.conversation]


def _mailbox(state: State) -> list[dict[str, Any]]:
    return [
        {
            "id": id_text(item.id),
            "kind": item.kind,
            "name": item.name,
            "payload": orjson.loads(item.payload_json),
            "actor": item.actor,
        }
        for item in state.mailbox.values()
    ]


def _headline(facts: Mapping[str, Any], *, wide: bool) -> str:
    owner = f"owned by {facts['owner_node']}" if facts["owner"] else "owned by nobody"
    condition = "finished" if facts["finished"] else owner
    internals = f", epoch {facts['epoch']}, offset {facts['offset']}, last kind {facts['last_kind'] or 'none'}"
    head = f"{facts['process_id']}: {facts['lifecycle']}, {condition}, seq {facts['seq']}"
    return head + (internals if wide else "")


def _notices(facts: Mapping[str, Any]) -> list[str]:
    lines = []
    if facts["content_dropped"]:
        past = f"seekpoint state {pasted(facts['process_id'])} --at-seq {facts['seq'] - 1}"
        lines.append(
            f"content dropped: the journal has its context, conversation and calls while it is not trimmed: {past}"
        )
    if (failure := facts["failure"]) and not facts["finished"]:
        lines.append(f"last error, at seq {failure['seq']}: {failure['type']}: {failure['message']}")
        lines += [f"  {failure['where']}"] if failure["where"] else []
    if degraded := facts["degraded"]:
        seqs = f"expected seq {degraded['expected_seq']}, found {degraded['found_seq']}"
        lines.append(f"degraded: {degraded['reason']} ({', '.join(filter(None, (seqs, degraded['detail'])))})")
    if facts["in_doubt"]:
        others = f" and {len(facts['in_doubt']) - 1} more" if len(facts["in_doubt"]) > 1 else ""
        lines.append(f"in doubt: {facts['first_in_doubt']}{others}, without an outcome: a resume goes on there")
    if waits := facts["awaits"]:
        lines.append(f"waits for: {', '.join(waits)}")
    counted = [f"{count} {name.replace('_', ' ')}" for name, count in facts["counters"].items() if count]
    if counted:
        lines.append(f"noticed: {', '.join(counted)}")
    return lines


def _section(title: str, lines: list[str]) -> list[str]:
    return ["", title, *(f"  {line}" for line in lines)] if lines else []


def _message_line(message: Mapping[str, Any]) -> str:
    content = message["content"]
    parts = [] if content is None else [content if isinstance(content, str) else _text(content)]
    parts += [f"calls {_text(message['tool_calls'])}"] if message["tool_calls"] else []
    parts += [f"(for {message['tool_call_id']})"] if message["tool_call_id"] else []
    who = f"{message['role']} {message['name']}" if message["name"] else message["role"]
    return f"{who}: {' '.join(parts)}"


def _mail(item: Mapping[str, Any]) -> str:
    sender = f" from {item['actor']}" if item["actor"] else ""
    return f"{item['kind']} {item['name']}{sender}: {_text(item['payload'])}"


def _text(value: Any) -> str:
    return orjson.dumps(value).decode()
