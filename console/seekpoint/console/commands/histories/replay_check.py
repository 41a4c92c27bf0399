"""``seekpoint replay-check``: check code against the recorded histories of one process or of many."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from seekpoint.console.exit_codes import EXIT_FAULT
from seekpoint.console.render.output import clean, counted, emit, emit_json, emit_json_list, say
from seekpoint.console.render.tables import Column, emit_table
from seekpoint.console.services.arguments.chosen_agents import chosen_agents
from seekpoint.console.services.arguments.options import AsJson, OptionalProcessId, Since, Wide
from seekpoint.console.services.arguments.process_query import ProcessQuery
from seekpoint.console.services.arguments.target import CommandTarget
from seekpoint.console.services.arguments.time_option import since_us

if TYPE_CHECKING:
    from seekpoint.console.services.histories.replay_checks import CheckedProcess
    from seekpoint.consumers.recovery.process_history import Logged
    from seekpoint.producers import Agent, ReplayCheck

_COLUMNS = (Column("process"), Column("agent"), Column("outcome"), Column("at"), Column("why", wraps=True))
_OUTCOMES = {"same": "the same", "differs": "different", "pinned": "pinned to other code", "unchecked": "not checked"}


def replay_check(
    target: CommandTarget,
    process_id: OptionalProcessId = None,
    history: Annotated[
        Path | None,
        typer.Option("--history", metavar="FILE", help="Read this export or capture instead of the journal."),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Check all processes of the agents in the journal.")] = False,
    agent: Annotated[
        str | None,
        typer.Option("--agent", metavar="MODULE:FUNCTION", help="The agent; with -m the name of one of its agents."),
    ] = None,
    modules: Annotated[
        list[str] | None, typer.Option("--module", "-m", metavar="MODULE", help="Check the agents of this module.")
    ] = None,
    unfinished: Annotated[bool, typer.Option("--open", help="Check those whose runs have not ended.")] = False,
    since: Since = None,
    limit: Annotated[int | None, typer.Option("--limit", metavar="N", min=1, help="At most so many.")] = None,
    timeout_s: Annotated[
        float,
        typer.Option("--timeout", metavar="SECONDS", min=0.1, help="Of many runs, give up on one after so long."),
    ] = 60.0,
    detail: Annotated[
        str, typer.Option("--detail", help="The detail the processes ran with: full, checkpoint or none.")
    ] = "full",
    wide: Wide = False,
    json: AsJson = False,
) -> int:
    """Check code against recorded histories without executing it: of one process, of a file, or of all.

    Exits with 1 if the code of any process diverges.
    """
    from seekpoint.producers import Detail

    every = every or unfinished
    if (process_id is not None) + (history is not None) + every != 1:
        raise typer.BadParameter("name a process, a file with --history, or --open or --all", param_hint="PROCESS_ID")
    if not every and since is not None:
        raise typer.BadParameter("it selects processes of --open or --all", param_hint="--since")
    if detail not in list(Detail):
        raise typer.BadParameter(f"{detail} is not one of {', '.join(Detail)}", param_hint="--detail")
    agents = chosen_agents(agent, modules or [])
    if every:
        from seekpoint.console.services.histories.replay_checks import check_journal

        query = ProcessQuery(agent=_only(agents), unfinished=unfinished, since_us=since_us(since))
        return _report(check_journal(target, agents, query, limit, detail, timeout_s), wide=wide, as_json=json)
    if process_id is not None:
        return _check_one(_entries(target, process_id), process_id, agents, detail, as_json=json)
    assert history is not None
    return _check_file(history, agents, limit, detail, timeout_s, wide=wide, as_json=json)


def _only(agents: Mapping[str, Agent]) -> str | None:
    return next(iter(agents)) if len(agents) == 1 else None


def _entries(target: CommandTarget, process_id: str) -> list[Logged]:
    from seekpoint.consumers.recovery.process_history import history

    return [one for batch in history(target.recoverer, process_id) for one in batch]


def _check_file(
    path: Path,
    agents: Mapping[str, Agent],
    limit: int | None,
    detail: str,
    timeout_s: float,
    *,
    wide: bool,
    as_json: bool,
) -> int:
    from seekpoint.console.services.histories.replay_checks import check_captured
    from seekpoint.consumers.staging.capture.process_file import histories_in
    from seekpoint.schemas.errors import ReplayRefused

    captured = histories_in(path)
    if not captured:
        hint = "make it with seekpoint export PROCESS_ID FILE"
        raise ReplayRefused("the file holds no process", path=str(path), hint=hint)
    if len(captured) > 1:
        return _report(check_captured(captured, agents, limit, detail, timeout_s), wide=wide, as_json=as_json)
    [(process_id, entries)] = captured.items()
    return _check_one(entries, process_id, agents, detail, as_json=as_json)


# --- one process ------------------------------------------------------------------------------------------------------
def _check_one(
    entries: Iterable[Logged], process_id: str, agents: Mapping[str, Agent], detail: str, *, as_json: bool
) -> int:
    import asyncio

    from seekpoint.producers import check_replay
    from seekpoint.schemas.bodies import AgentStarted
    from seekpoint.schemas.errors import Refused

    history = list(entries)
    began = next((one.entry.body.agent for one in history if isinstance(one.entry.body, AgentStarted)), None)
    agent = next(iter(agents.values())) if len(agents) == 1 else agents.get(began or "")
    if agent is None:
        raise Refused(
            "none of these agents began the process", process_id=process_id, agent=began,
            hint="name the module of its agent with -m",
        )  # fmt: skip
    found = asyncio.run(check_replay(agent, history, detail=detail))
    if as_json:
        emit_json(found.to_dict())
    else:
        _show(found)
    return 0 if found.ok else EXIT_FAULT


def _show(found: ReplayCheck) -> None:
    emit(clean(f"{found.process_id}: {found}"))
    if found.divergence is not None:
        for name in ("kind", "key", "seq", "expected", "actual", "difference"):
            value = getattr(found.divergence, name)
            if value not in (None, ""):
                emit(clean(f"{name:<12}{value}"))
    if found.version != found.recorded_version:
        say(clean(f"recorded by {found.agent} {found.recorded_version}, checked with {found.version}"))


# --- many processes ---------------------------------------------------------------------------------------------------
def _report(checked: Iterable[CheckedProcess], *, wide: bool, as_json: bool) -> int:
    """Write all outcomes as JSON, or those that are not the same as a table, and the counts. Return the exit code."""
    counts: Counter[str] = Counter()

    def tallied() -> Iterator[CheckedProcess]:
        for one in checked:
            counts[one.outcome] += 1
            yield one

    if as_json:
        tail: dict[str, int] = {}

        def items() -> Iterator[dict[str, object]]:
            for one in tallied():
                yield one.to_dict()
            tail.update({name: counts[name] for name in _OUTCOMES})

        emit_json_list({}, "processes", items(), tail)
    else:
        emit_table(_COLUMNS, (_row(one) for one in tallied() if one.outcome != "same"), wide=wide)
    parts = [f"{counts[name]:,} {text}" for name, text in _OUTCOMES.items() if counts[name]]
    say(f"{counted(sum(counts.values()), 'run')}: {', '.join(parts)}" if parts else "there is no run of these agents")
    return EXIT_FAULT if counts["differs"] else 0


def _row(one: CheckedProcess) -> Sequence[object]:
    found = None if one.check is None else one.check.divergence
    why = one.why
    if found is not None:
        why = found.difference or f"expected {found.expected}, found {found.actual}"
    return one.process_id, one.agent, one.outcome, "" if found is None else found.key, why
