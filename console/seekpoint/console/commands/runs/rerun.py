"""``seekpoint rerun``: run processes that have ended again, with other code, another model or another input."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from seekpoint.console.exit_codes import EXIT_FAULT
from seekpoint.console.render.history_plans import plan_lines
from seekpoint.console.render.output import clean, counted, emit, emit_json, say
from seekpoint.console.render.process_diffs import diff_columns, diff_rows, same_line
from seekpoint.console.render.tables import Column, emit_table
from seekpoint.console.services.arguments.chosen_agents import chosen_agents
from seekpoint.console.services.arguments.completion import complete_process_ids
from seekpoint.console.services.arguments.options import ActorName, AsJson, PriceFile, Reason, Since, Wide
from seekpoint.console.services.arguments.price_file import prices_in
from seekpoint.console.services.arguments.target import CommandTarget
from seekpoint.console.services.arguments.time_option import since_us
from seekpoint.console.services.calls.send_and_confirm import parse_json, user_name, with_node
from seekpoint.console.services.content_files import write_content

if TYPE_CHECKING:
    from seekpoint.console.services.histories.rerun_selection import ManyReruns
    from seekpoint.producers import Agent, Node, Prices, Rerun, ScoredRerun
    from seekpoint.producers.history.forks import ForkPlan

__all__ = ["rerun"]


def rerun(
    target: CommandTarget,
    process_id: Annotated[
        str | None,
        typer.Argument(
            metavar="[PROCESS_ID]",
            help="The process; none: those of --agent.",
            show_default=False,
            autocompletion=complete_process_ids,
        ),
    ] = None,
    new_id: Annotated[
        str | None,
        typer.Argument(
            metavar="[NEW_ID]",
            help="Of the rerun. Default: PROCESS_ID~MODEL, or PROCESS_ID~rerun.",
            show_default=False,
        ),
    ] = None,
    agent: Annotated[
        str | None,
        typer.Option("--agent", metavar="MODULE:FUNCTION", help="The agent; with -m the name of one of its agents."),
    ] = None,
    modules: Annotated[
        list[str] | None, typer.Option("--module", "-m", metavar="MODULE", help="The module that has the agents.")
    ] = None,
    model: Annotated[
        str | None, typer.Option("--model", metavar="NAME", help="The model that requests name instead of their own.")
    ] = None,
    input: Annotated[str | None, typer.Option("--input", metavar="JSON", help="Of one process: another input.")] = None,
    effects: Annotated[
        str,
        typer.Option("--effects", metavar="POLICY", help="recorded: equal effects are answered; refused: none."),
    ] = "recorded",
    since: Since = None,
    sample: Annotated[
        int | None, typer.Option("--sample", metavar="N", min=1, help="Of many: N of them, chosen by their ids.")
    ] = None,
    seed: Annotated[str, typer.Option("--seed", metavar="TEXT", help="Another seed chooses another sample.")] = "",
    label: Annotated[
        str | None,
        typer.Option(
            "--label",
            metavar="TEXT",
            help="Of many: the ids are PROCESS_ID~LABEL. Default: the model.",
        ),
    ] = None,
    score: Annotated[
        str | None,
        typer.Option("--score", metavar="MODULE:FUNCTION", help="A function of a Rerun that returns a number."),
    ] = None,
    report: Annotated[
        Path | None, typer.Option("--report", metavar="FILE", help="Write all comparisons as an HTML page.")
    ] = None,
    concurrency: Annotated[
        int, typer.Option("--concurrency", metavar="N", min=1, help="Of many: so many at a time.")
    ] = 8,
    budget: Annotated[
        str | None,
        typer.Option("--budget", metavar="USD", help="Of many: begin none once they have cost this; needs --prices."),
    ] = None,
    prices: PriceFile = None,
    timeout_s: Annotated[
        float, typer.Option("--timeout", metavar="SECONDS", min=0.1, help="Give up on a rerun after so long.")
    ] = 300.0,
    reason: Reason = None,
    by: ActorName = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be run again.")] = False,
    wide: Wide = False,
    json: AsJson = False,
) -> int:
    """Run finished or failed processes again as new ones, and compare them call by call, with cost.

    Records of the first run answer equal calls, so what did not change costs nothing. No effect is made. The same
    command goes on where it was interrupted. Exits with 1 if a rerun did not finish.
    """
    agents = chosen_agents(agent, modules or [])
    known = prices_in(prices)
    how: dict[str, Any] = {"model": model, "effects": effects}
    ways: dict[str, Any] = {"timeout_s": timeout_s, "reason": reason, "actor": by or user_name("--actor")}
    target.reachable()
    if process_id is not None:
        given = {"--since": since, "--sample": sample, "--label": label, "--score": score, "--report": report}
        _refuse({**given, "--budget": budget}, "it is for many processes: leave PROCESS_ID out")
        if input is not None:
            how["input"] = parse_json(input, "--input")
        return _one(target, agents, process_id, new_id, known, how, ways, dry_run=dry_run, wide=wide, as_json=json)
    _refuse({"--input": input}, "many processes keep their inputs: name one process")
    from seekpoint.console.services.arguments.import_path import import_object
    from seekpoint.console.services.histories.rerun_selection import ManyReruns

    if len(agents) > 1:
        raise typer.BadParameter(f"name one of {', '.join(sorted(agents))}", param_hint="--agent")
    many = ManyReruns(
        agent=next(iter(agents.values())), since_us=since_us(since), sample=sample, seed=seed,
        score=None if score is None else import_object(score, "--score", "MODULE:FUNCTION"), prices=known,
        how={**how, **ways, "label": label, "concurrency": concurrency, "budget_usd": budget},
    )  # fmt: skip
    return _many(target, many, report, dry_run=dry_run, wide=wide, as_json=json)


def _refuse(given: Mapping[str, object], why: str) -> None:
    for option, value in given.items():
        if value is not None:
            raise typer.BadParameter(why, param_hint=option)


# --- one process
def _one(
    target: CommandTarget, agents: Mapping[str, Agent], process_id: str, new_id: str | None, prices: Prices | None,
    how: dict[str, Any], ways: dict[str, Any], *, dry_run: bool, wide: bool, as_json: bool,
) -> int:  # fmt: skip
    agent = _agent_of(target, agents, process_id)
    if dry_run:
        plan = with_node(target.settings, lambda node: node.plan_rerun(agent, process_id, **how))
        _show_plan(plan, process_id, new_id, how["model"], as_json=as_json)
        return 0

    async def run(node: Node) -> Rerun:
        node.prices = prices
        return await node.rerun(agent, process_id, new_id, **how, **ways)

    found = with_node(target.settings, run)
    if as_json:
        emit_json(rerun_facts(found))
    else:
        rows = [*diff_rows(found.difference), ("result", _text(found.first_result), _text(found.result), "")]
        emit_table(diff_columns(found.process_id, found.rerun_id), rows, wide=wide)
        say(same_line(found.difference))
        if found.error is not None:
            say(clean(f"{found.rerun_id}: {found.error}"))
    return 0 if found.status == "finished" else EXIT_FAULT


def _agent_of(target: CommandTarget, agents: Mapping[str, Agent], process_id: str) -> Agent:
    """Return the only agent, or the one with the name of the process's."""
    from seekpoint.schemas.errors import Refused

    if len(agents) == 1:
        return next(iter(agents.values()))
    ran = target.recoverer.recover(process_id).state.agent
    if ran is None or ran.name not in agents:
        raise Refused(
            "none of these agents ran as the process", process_id=process_id, agent=None if ran is None else ran.name,
            hint="name the module of its agent with -m",
        )  # fmt: skip
    return agents[ran.name]


def _show_plan(plan: ForkPlan, process_id: str, new_id: str | None, model: str | None, *, as_json: bool) -> None:
    from msgspec import to_builtins

    from seekpoint.producers.history.rerunning import rerun_id_of

    name = new_id or rerun_id_of(process_id, model or "rerun")
    if as_json:
        emit_json({"process_id": name, "rerun_of": process_id, "model": model, **to_builtins(plan), "dry_run": True})
        return
    for line in plan_lines(plan, name):
        emit(clean(line))
    say("nothing was run")


def rerun_facts(found: Rerun) -> dict[str, Any]:
    """Return a rerun as plain values."""
    from msgspec import to_builtins

    facts: dict[str, Any] = to_builtins(found)
    return {**facts, "is_same_outcome": found.is_same_outcome}


def _text(value: Any) -> str:
    from seekpoint.schemas.values.json_values import dump

    return "-" if value is None else dump(value, with_models=True)


# --- many processes
_COLUMNS = (
    *(Column("process"), Column("first"), Column("rerun"), Column("changed", right=True), Column("cost", right=True)),
    *(Column("was", right=True, wide=True), Column("score", right=True), Column("why", wraps=True)),
)


def _many(
    target: CommandTarget, many: ManyReruns, report: Path | None, *, dry_run: bool, wide: bool, as_json: bool
) -> int:
    process_ids = many.sources(target)
    if dry_run:
        if as_json:
            emit_json({"processes": process_ids, "dry_run": True})
        else:
            emit("\n".join(process_ids) or "none")
            say(f"{counted(len(process_ids), 'process')} would be run again; nothing was run")
        return 0
    found = many.run(target, process_ids)
    summary = many.summary(found)
    if report is not None:
        from seekpoint.console.render.rerun_report import report_page

        write_content(report, report_page(summary, found).encode(), overwrite=True)
    if as_json:
        emit_json({"summary": summary, "reruns": [_scored_facts(one) for one in found]})
    else:
        emit_table(_COLUMNS, map(_row, found), wide=wide)
        say(clean(_told(summary)))
    if report is not None:
        say(f"wrote {report}")
    ended = [one.rerun is not None and one.rerun.status == "finished" and one.score_error is None for one in found]
    return 0 if all(ended) else EXIT_FAULT


def _told(summary: Mapping[str, Any]) -> str:
    """Return the summary as a line for people.

    >>> _told({"agent": "a", "model": "m", "reruns": 3, "finished": 2, "same_outcome": 1, "skipped": 0,
    ...     "cost_usd": "0.5", "first_cost_usd": None, "mean_score": 1 / 3})
    '3 reruns of a on m: 2 finished, 1 with the same outcome, 0 skipped; cost 0.5 USD; mean score 0.333'
    """
    model = "" if summary["model"] is None else f" on {summary['model']}"
    counts = f"{summary['finished']} finished, {summary['same_outcome']} with the same outcome, "
    counts += f"{summary['skipped']} skipped"
    parts = [f"{counted(summary['reruns'], 'rerun')} of {summary['agent']}{model}: {counts}"]
    if (cost := summary["cost_usd"]) is not None:
        first = summary["first_cost_usd"]
        parts.append(f"cost {cost} USD" + ("" if first is None else f", the first runs {first} USD"))
    if (score := summary["mean_score"]) is not None:
        parts.append(f"mean score {score:.3g}")
    return "; ".join(parts)


def _scored_facts(one: ScoredRerun) -> dict[str, Any]:
    rerun = None if one.rerun is None else rerun_facts(one.rerun)
    return {
        "process_id": one.process_id, "rerun": rerun, "score": one.score, "score_error": one.score_error,
        "skipped": one.skipped,
    }  # fmt: skip


def _row(one: ScoredRerun) -> tuple[object, ...]:
    found = one.rerun
    if found is None:
        return one.process_id, "", "skipped", "", "", "", "", one.skipped or ""
    calls = found.difference
    changed = len(calls.changed) + len(calls.only_left) + len(calls.only_right)
    score = "" if one.score is None else f"{one.score:g}"
    costs = calls.right.cost_usd or "-", calls.left.cost_usd or "-"
    return (
        one.process_id,
        found.first_status,
        found.status,
        changed,
        *costs,
        score,
        re.sub(r"\); .*", ")", found.error or one.score_error or ""),  # without the hint, which is for one process
    )
