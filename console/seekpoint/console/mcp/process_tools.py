"""Tools about processes: which there are, the state, the calls and the entries of one, and what differs between two."""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta

from seekpoint.console.mcp.tool_declarations import (
    Arguments,
    Document,
    Limit,
    ProcessId,
    Tool,
    ToolCall,
    ToolFailed,
    whole,
)
from seekpoint.console.services.arguments.process_query import SORTS, STATUSES, ProcessQuery
from seekpoint.producers.durable.replay.call_records import CALL_KINDS

if TYPE_CHECKING:
    from seekpoint.console.services.histories.judged_entries import JudgedEntry
    from seekpoint.producers.durable.replay.call_records import CallRecord

__all__ = ["PROCESS_TOOLS"]

_TEXT_MAX = 400
"""The most characters of a request or an answer that a list of calls shows."""

Time = Annotated[
    str,
    Meta(
        description="So long ago (30s, 90m, 2h, 7d), a date such as 2026-11-22T14:30:00+00:00, or seconds since 1970."
    ),
]


# --- list_processes ---------------------------------------------------------------------------------------------------
class _ListProcesses(Arguments, frozen=True, kw_only=True, forbid_unknown_fields=True):
    agent: Annotated[str, Meta(description="Only processes of this agent.")] | None = None
    lifecycle: (
        Annotated[str, Meta(description="Only processes in this state.", extra_json_schema={"enum": list(STATUSES)})]
        | None
    ) = None
    failed: Annotated[bool, Meta(description="Only processes whose run failed.")] = False
    waiting: Annotated[bool, Meta(description="Only those that wait for a timer, gate, signal, child or retry.")] = (
        False
    )
    open: Annotated[bool, Meta(description="Only those that have not finished.")] = False
    since: Annotated[Time, Meta(description="Only processes with an entry since then.")] | None = None
    sort: Annotated[
        str,
        Meta(
            description="`id` upwards; `updated`, `started` and `cost` begin with the newest or the most expensive.",
            extra_json_schema={"enum": list(SORTS)},
        ),
    ] = "id"
    limit: Limit = 20
    after: (
        Annotated[str, Meta(description="With sort=id: only ids behind this one, `next` of the answer before.")] | None
    ) = None


def _list_processes(call: ToolCall, given: _ListProcesses) -> Document:
    from seekpoint.console.render.listing import listed
    from seekpoint.console.render.states import summary_facts
    from seekpoint.console.services.arguments.time_option import since_us
    from seekpoint.consumers.heartbeats.worker_code import worker_code

    _check_word("lifecycle", given.lifecycle, STATUSES)
    _check_word("sort", given.sort, SORTS)
    if given.after is not None and given.sort != "id":
        raise ToolFailed("InvalidArgument", "after needs sort=id", "leave sort out, or raise limit")
    query = ProcessQuery(
        agent=given.agent, status=given.lifecycle, failed=given.failed, waiting=given.waiting, unfinished=given.open,
        since_us=since_us(given.since), sort=given.sort, limit=given.limit + 1, after=given.after,
    )  # fmt: skip
    found = list(listed(call.target, query, tell=call.note))
    shown = found[: given.limit]
    code = worker_code(call.target.log) if shown else None
    has_more = len(found) > len(shown)
    processes = [
        _told(summary_facts(one.summary, one.state, one.behind, None if code is None else code.can_run(one.summary)))
        for one in shown
    ]
    page = (
        call.page("processes", processes, [one.summary.process_id for one in shown], has_more=has_more)
        if given.sort == "id"
        else {"processes": processes, "next": None}
    )
    return {"journal": call.target.settings.journal, **page, "has_more": has_more}


def _told(facts: Document) -> Document:
    return {name: value for name, value in facts.items() if value is not None and value != []}


def _check_word(option: str, word: str | None, words: tuple[str, ...]) -> None:
    if word not in (None, *words):
        raise ToolFailed("InvalidArgument", f"there is no {option} {word!r}", f"give one of {', '.join(words)}")


# --- show_state -------------------------------------------------------------------------------------------------------
class _ShowState(Arguments, frozen=True, kw_only=True, forbid_unknown_fields=True):
    process_id: ProcessId
    at_seq: Annotated[int, whole(1, "The state right after the entry with this seq.")] | None = None
    at_offset: Annotated[int, whole(0, "The state as of this offset of the log, inclusive.")] | None = None
    at_time: Annotated[Time, Meta(description="The state before this time.")] | None = None


def _show_state(call: ToolCall, given: _ShowState) -> Document:
    from seekpoint.console.render.states import state_facts
    from seekpoint.console.services.arguments.time_option import parse_time
    from seekpoint.consumers.recovery.points import Point

    time = None if given.at_time is None else parse_time(given.at_time, "at_time")
    point = Point(seq=given.at_seq, offset=given.at_offset, time=time)
    return state_facts(given.process_id, call.target.recoverer.recover(given.process_id, point=point))


# --- list_calls, show_call --------------------------------------------------------------------------------------------
class _ListCalls(Arguments, frozen=True, kw_only=True, forbid_unknown_fields=True):
    process_id: ProcessId
    kind: (
        Annotated[str, Meta(description="Only calls of this kind.", extra_json_schema={"enum": sorted(CALL_KINDS)})]
        | None
    ) = None
    status: (
        Annotated[str, Meta(description="Only calls with this status, such as started, succeeded, failed or unknown.")]
        | None
    ) = None
    first: Annotated[
        int, Meta(description="The number of the first call to show, from 0 on; -10 shows the last ten.")
    ] = 0
    limit: Limit = 40


def _list_calls(call: ToolCall, given: _ListCalls) -> Document:
    found = _calls(call, given.process_id)
    chosen = [
        (number, one)
        for number, one in enumerate(found)
        if given.kind in (None, one.kind) and given.status in (None, one.status)
    ]
    first = max(0, given.first if given.first >= 0 else len(chosen) + given.first)
    shown = chosen[first : first + given.limit]
    calls = [{"number": number, **_brief(one)} for number, one in shown]
    cursors = range(first + 1, first + len(shown) + 1)
    return {
        "process_id": given.process_id,
        "calls_in_all": len(found),
        "chosen": len(chosen),
        **call.page("calls", calls, cursors, has_more=first + len(shown) < len(chosen)),
    }


def _brief(call: CallRecord) -> Document:
    """Return a call on few lines: its request, its answer and its error are JSON texts, shortened."""
    from seekpoint.console.render.call_errors import error_text

    facts = call.to_dict()
    told = {name: facts[name] for name in ("key", "kind", "seq", "status", "duration_us", "cost_usd")}
    told |= {"attempts": len(call.attempts), "input": _short(call.input), "output": _short(facts["output"])}
    if facts["error"] is not None:
        told["error"] = error_text(facts["error"])[:_TEXT_MAX]
    return _told(told | {name: call.facts[name] for name in ("inherited_from", "promoted_from") if name in call.facts})


def _short(value: Any) -> str | None:
    import orjson

    if value is None:
        return None
    text = orjson.dumps(value).decode()
    return text if len(text) <= _TEXT_MAX else f"{text[:_TEXT_MAX]}…"


class _ShowCall(Arguments, frozen=True, kw_only=True, forbid_unknown_fields=True):
    process_id: ProcessId
    key: Annotated[str, Meta(min_length=1, description="The key of the call, such as charge:1, from list_calls.")]


def _show_call(call: ToolCall, given: _ShowCall) -> Document:
    found = [one.to_dict() for one in _calls(call, given.process_id) if one.key == given.key]
    if not found:
        raise ToolFailed(
            "UnknownCall", f"the code of {given.process_id} has made no call {given.key}", "list_calls lists its calls"
        )
    return {"process_id": given.process_id, "calls": found}


def _calls(call: ToolCall, process_id: str) -> list[CallRecord]:
    from seekpoint.console.services.histories.process_scan import entries_of
    from seekpoint.producers.history.inherited_calls import calls_of

    return calls_of(lambda name: entries_of(call.target, name), process_id, call.target.log.limits)


# --- list_entries -----------------------------------------------------------------------------------------------------
class _ListEntries(Arguments, frozen=True, kw_only=True, forbid_unknown_fields=True):
    process_id: ProcessId
    kinds: Annotated[
        tuple[Annotated[str, Meta(min_length=1, max_length=200)], ...],
        Meta(
            max_length=50, description="Only entries of these kinds, such as step_ended, message_said, error_recorded."
        ),
    ] = ()
    from_offset: Annotated[
        int,
        whole(0, "Only entries at this offset of the log and behind it: `next` of the answer before."),
    ] = 0
    from_seq: Annotated[int, whole(1, "Only from the entry with this seq on.")] | None = None
    newest: Annotated[bool, Meta(description="The last entries instead of the first ones, in log order.")] = False
    limit: Limit = 20


def _list_entries(call: ToolCall, given: _ListEntries) -> Document:
    from seekpoint.console.render.entry_lines import entry_facts
    from seekpoint.console.services.histories.judged_entries import judged_entries
    from seekpoint.schemas.bodies.entry import process_key
    from seekpoint.schemas.log.partition import partition_of

    partition = partition_of(process_key(given.process_id), call.target.log.partitions)
    judged = (
        one
        for batch in judged_entries(call.target, given.process_id, partition, tell=call.note)
        for one in batch
        if _is_wanted(one, given)
    )
    shown = list(deque(judged, given.limit) if given.newest else islice(judged, given.limit))
    entries = [entry_facts(logged, partition, verdict) for logged, verdict in shown]
    if given.newest:
        return {"process_id": given.process_id, "entries": entries, "next": None}
    cursors = [logged.offset + 1 for logged, _ in shown]
    has_more = next(judged, None) is not None
    return {"process_id": given.process_id, **call.page("entries", entries, cursors, has_more=has_more)}


def _is_wanted(judged: JudgedEntry, given: _ListEntries) -> bool:
    logged, _ = judged
    body, seq = logged.entry.body, logged.entry.seq
    return (
        logged.offset >= given.from_offset
        and (given.from_seq is None or (seq is not None and seq >= given.from_seq))
        and (not given.kinds or not {body.KIND, getattr(body, "kind", body.KIND)}.isdisjoint(given.kinds))
    )


# --- compare_processes ------------------------------------------------------------------------------------------------
_SIDE = "A process id, or PROCESS_ID@SEQ: the process right after its entry with that seq."


class _CompareProcesses(Arguments, frozen=True, kw_only=True, forbid_unknown_fields=True):
    left: Annotated[str, Meta(min_length=1, max_length=220, description=_SIDE)]
    right: Annotated[str, Meta(min_length=1, max_length=220, description=_SIDE)]


def _compare_processes(call: ToolCall, given: _CompareProcesses) -> Document:
    from seekpoint.console.services.histories.process_diff import diff_facts, process_diff

    found = process_diff(call.target, given.left, given.right)
    return {"is_same": found.is_empty, **diff_facts(found)}


PROCESS_TOOLS = (
    Tool(
        name="list_processes", title="List processes", arguments=_ListProcesses, answer=_list_processes,
        description="List the processes of the journal: lifecycle, agent, owner, what each waits for, its newest"
        " error and what it cost. A process is one job, such as one customer's refund, usually run by"
        " an agent. Begin here, for example with failed=true, or open=true and sort=updated.",
    ),
    Tool(
        name="show_state", title="Show the state of a process", arguments=_ShowState, answer=_show_state,
        description="Show one process, as it is now or as it was at a moment of its past: context values,"
        " conversation, mailbox, waits, calls in doubt, the newest failure with file and line, and the"
        " result. Give at most one of at_seq, at_offset and at_time.",
    ),
    Tool(
        name="list_calls", title="List the calls of a process", arguments=_ListCalls, answer=_list_calls,
        description="List the calls that a process's code has made, in order: steps, model calls (decisions),"
        " effects, timers, gates, children. Each has status, attempts, duration, cost, and its"
        " request, answer and error shortened. Calls of earlier turns and of finished processes are"
        " included.",
    ),
    Tool(
        name="show_call", title="Show one call", arguments=_ShowCall, answer=_show_call,
        description="Show one call of a process with its whole request and answer, every attempt, usage and cost:"
        " for a model call the messages that were sent. Several calls may have the key if the process"
        " went back.",
    ),
    Tool(
        name="list_entries", title="List the entries of a process", arguments=_ListEntries, answer=_list_entries,
        description="List the entries of a process as the log has them, in log order, each with its content, who"
        " wrote it and the verdict of the fold (applied, stale, gap, claim_lost, ...). Use it for"
        " ownership, lost claims, signals, and errors with tracebacks (kinds=[\"error_recorded\"]).",
    ),
    Tool(
        name="compare_processes", title="Compare two processes", arguments=_CompareProcesses, answer=_compare_processes,
        description="Compare two processes, or two moments of one (case-17@42): lifecycle, context, conversation,"
        " calls, cost and duration. Each call that differs has the place where the requests or the"
        " answers first differ. Use it for a fork or a rerun and its original, or for a good run and a"
        " bad one.",
    ),
)  # fmt: skip
