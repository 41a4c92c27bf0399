"""The calls of a process as a tree for a terminal, and as lines for a pipe. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from seekpoint.console.render.call_errors import error_text
from seekpoint.console.render.output import clean

if TYPE_CHECKING:
    from rich.text import Text
    from rich.tree import Tree

    from seekpoint.console.services.histories.live_calls import LiveCalls
    from seekpoint.producers.durable.replay.call_records import Attempt, CallRecord
    from seekpoint.schemas.state.process_state import State

_STYLES = {"failed": "bold red", "stuck": "bold red", "unknown": "bold red", "succeeded": "green", "retry": "yellow"}
_TEXT_MAX = 80


def call_tree(process_id: str, found: LiveCalls, room: int) -> Tree:
    """Return the tree: turns, branches, calls, and the attempts of a call that took several.

    It has at most ``room`` calls, the newest ones.
    """
    from rich.text import Text
    from rich.tree import Tree

    from seekpoint.console.web.data.timeline import branch_of
    from seekpoint.schemas.state.calls import turn_of

    tree = Tree(Text(state_line(process_id, found.state), "bold"))
    left = len(found.calls) - room
    if left > 0:
        tree.add(Text(f"{left:,} earlier calls", "dim"))
    nodes: dict[tuple[str, ...], Tree] = {(): tree}
    for call in found.calls[max(left, 0) :]:
        turn, branch = turn_of(call.key), branch_of(call.key)
        places = (f"turn {turn}",) if turn else ()
        node = _node(nodes, (*places, *(f"branch {part}" for part in branch.split("/") if part)))
        shown = node.add(_call_text(call))
        for attempt in call.attempts if len(call.attempts) > 1 else ():
            shown.add(_attempt_text(attempt))
    return tree


def _node(nodes: dict[tuple[str, ...], Tree], path: tuple[str, ...]) -> Tree:
    from rich.text import Text

    if path not in nodes:
        nodes[path] = _node(nodes, path[:-1]).add(Text(clean(path[-1]), "cyan"))
    return nodes[path]


def _call_text(call: CallRecord) -> Text:
    from rich.text import Text

    status = _status(call)
    text = Text.assemble((f"{call.kind} ", "dim"), (_cut(call.key), "bold" if call.status == "failed" else ""))
    text.append(f"  {status}", _STYLES.get(call.status, "yellow" if _is_open(call) else ""))
    for part in _facts(call):
        text.append(f"  {part}", "dim")
    return text


def _attempt_text(attempt: Attempt) -> Text:
    from rich.text import Text

    outcome = attempt.outcome or "under way"
    text = Text.assemble((f"attempt {attempt.number} ", "dim"), (outcome, _STYLES.get(outcome, "")))
    text.append(f"  {_span(attempt.duration_us)}", "dim")
    if attempt.error is not None:
        text.append(f"  {_cut(_error(attempt.error))}")
    return text


def changed_calls(before: dict[int, Any], calls: Sequence[CallRecord]) -> Iterator[CallRecord]:
    """Yield the calls that are new or went on since the last call with this ``before``, which is updated."""
    for number, call in enumerate(calls):
        mark = (call.key, call.status, len(call.attempts), call.last.outcome)
        if before.get(number) != mark:
            before[number] = mark
            yield call


def call_line(call: CallRecord) -> str:
    """Return a call as one line of columns."""
    return f"{call.kind:<9} {_status(call):<11} {_cut(call.key)}  {'  '.join(_facts(call))}".rstrip()


def state_line(process_id: str, state: State) -> str:
    """Return where the process stands, on one line."""
    agent = "" if state.agent is None else f"  {state.agent.name} {state.agent.version}"
    from seekpoint.consumers.view.process_summary import waits_of

    waiting = ", ".join(wait.name for wait in waits_of(state))
    waits = f"  waits for {waiting}" if waiting else ""
    return clean(f"{process_id}{agent}  {'finished' if state.finished else state.lifecycle}{waits}")


def _status(call: CallRecord) -> str:
    if not _is_open(call):
        return call.status
    from seekpoint.console.web.data.timeline import WAITS

    return "waits" if call.kind in WAITS else "retries" if call.last.outcome == "retry" else call.status


def _is_open(call: CallRecord) -> bool:
    return call.status in ("started", "pending")


def _facts(call: CallRecord) -> Iterator[str]:
    if len(call.attempts) > 1:
        yield f"{len(call.attempts)} attempts"
    if call.last.duration_us is not None:
        yield _span(call.last.duration_us)
    if call.cost_usd is not None:
        yield f"{call.cost_usd:f} USD"
    if call.status == "failed" and call.last.error is not None:
        yield _cut(_error(call.last.error))


def _error(text: Any) -> str:
    import orjson

    return error_text(orjson.loads(text))


def _span(duration_us: int | None) -> str:
    from seekpoint.console.web.formats import span_text

    return "-" if duration_us is None else span_text(duration_us)


def _cut(text: str) -> str:
    shown = clean(text[: 4 * _TEXT_MAX])
    return shown if len(shown) <= _TEXT_MAX else shown[: _TEXT_MAX - 1] + "…"
