"""Print the demo for a newcomer: what happens, then the take-overs, and the verdict in numbers."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TextIO

import orjson
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from seekpoint.compose.setup_phases import SetupPhase
from seekpoint.console.demo.aftermath import LONG_PROCESS, Aftermath, Flush
from seekpoint.console.demo.journal_reading import Placed
from seekpoint.console.demo.outcome import DemoOutcome, Kill, TakeOver
from seekpoint.console.demo.outside_ledger import Note, Opened
from seekpoint.console.demo.transcripts import Transcript
from seekpoint.console.render.output import clean
from seekpoint.schemas import bodies as b

_BEFORE, _AFTER = 4, 6
_TEXT_MAX = 60
_ROWS_MAX = 12
_FETCHED_EVERY_S = 4.0
_PIPE_COLUMNS = 118


class DemoStory:
    """Prints what happens to ``file``, in colour on a terminal."""

    def __init__(self, file: TextIO | None = None) -> None:
        self._console = Console(file=file or sys.stdout, highlight=False, markup=False, emoji=False)
        if not self._console.is_terminal:
            self._console.width = _PIPE_COLUMNS
        self._began = time.monotonic()
        self._fetched_at = self._began
        self._told = 0

    # --- during the demo
    def open(self, cases: Sequence[Transcript], nodes: int) -> None:
        """Print what the demo is going to do."""
        calls = sum(transcript.model_calls for transcript in cases)
        self._say("Seekpoint demo: workers on Kafka; one is killed, and the others take over its runs", "bold")
        self._say(
            f"A client submits {len(cases)} support cases. {nodes} workers, each a process of its own, run them with "
            f"{calls} model calls, each of which costs money. A worker writes every message, tool call and change to a "
            "journal in Kafka, and goes on when Kafka has acknowledged it. In the middle of the work the demo kills "
            "one worker (SIGKILL). The others notice that it died, claim its cases, read them from the journal, and go "
            "on with the next step.\n"
        )

    def step(self, what: str) -> None:
        """Print a step of the demo."""
        self._console.print(Text.assemble((f"{time.monotonic() - self._began:6.1f} s  ", "dim"), clean(what)))

    def progress(self, phase: SetupPhase, share: float | None = None, /) -> None:
        """Print what the local cluster is doing; for a long download also its share, every few seconds."""
        now = time.monotonic()
        if not share:
            self.step(phase.text)
        elif now - self._fetched_at > _FETCHED_EVERY_S:
            self.step(f"{phase.text}: {share:.0%}")
        else:
            return
        self._fetched_at = now

    def killed(self, kill: Kill, nodes: int) -> None:
        """Print which worker was killed, and what it was doing."""
        held = ", ".join(f"{case} (after {_count(done, 'model call')})" for case, done in kill.held.items())
        doubt = "no model call" if not kill.under_way else _count(kill.under_way, "model call")
        self._console.print(
            Text.assemble(
                (f"{time.monotonic() - self._began:6.1f} s  ", "dim"),
                (f"{kill.node} is killed", "bold red"),
                f" (kill -9 {kill.pid}) in the middle of {held}; {doubt} in progress",
            )
        )
        self.step(f"the other {nodes - 1} go on with their own cases, and notice that it died")

    def saw(self, notes: Iterable[Note]) -> None:
        """Print the take-overs among ``notes``."""
        for note in notes:
            if isinstance(note, Opened) and note.epoch > 1:
                self._told += 1
                if self._told <= _ROWS_MAX:
                    at = f"after model call {note.model_calls_done}" if note.model_calls_done else "from its beginning"
                    self.step(f"{note.node} takes over {note.case} and continues {at}")

    # --- after the demo
    def close(self, outcome: DemoOutcome, log: Sequence[Placed]) -> None:
        """Print the take-overs, an excerpt of the journal, and the verdict."""
        if outcome.take_overs:
            self._take_overs(outcome.take_overs)
            self._excerpt(outcome.take_overs[0].case, log)
        if outcome.aftermath is not None:
            self._flush(outcome.aftermath.flush)
            self._tiers(outcome.aftermath)
        self._verdict(outcome)

    def _take_overs(self, rows: Sequence[TakeOver]) -> None:
        self._say("\nTake-overs, and the cost of each recovery", "bold")
        table = self._table("case", "from", "to", "tier", "seek point", "scanned", "applied", "took", "after the kill")
        for row in rows[:_ROWS_MAX]:
            report = row.report
            since = "-" if row.after_kill_s is None else f"{row.after_kill_s:.1f} s"
            cost = (report["tier"], report["seek_point"], report["entries_scanned"], report["entries_applied"])
            self._row(table, row.case, row.from_node, row.node, *cost, f"{1000 * report['duration_s']:.1f} ms", since)
        self._console.print(table)
        if len(rows) > _ROWS_MAX:
            self._say(f"... and {len(rows) - _ROWS_MAX} more")
        self._say(
            "Scanned is the number of entries read from the seek point on; applied is the number of those that belong "
            "to the case. After the kill is the time until another worker had the case. Took is the duration of the "
            "recovery alone.",
            "dim",
        )

    def _excerpt(self, case: str, log: Sequence[Placed]) -> None:
        self._say(f"\nThe take-over of {clean(case)} in the journal", "bold")
        table = self._table("offset", "worker", "epoch", "seq", "entry", "what")
        for row in excerpt(case, log):
            self._row(table, *row)
        self._console.print(table)

    def _flush(self, flush: Flush) -> None:
        self._say("\nRecovery without Redis", "bold")
        found = ", ".join(f"{count} from {_TIER_WORDS[tier]}" for tier, count in flush.tiers.items())
        same = "all states unchanged" if flush.mismatches == 0 else f"{flush.mismatches} states changed"
        self._say(
            f"The demo deleted {flush.keys} keys, while no projector ran. Then it recovered every case again: {found}, "
            f"{same}, each in {1000 * flush.median_s:.1f} ms (median). Agents do not notice the loss: all data in "
            "Redis is derived from the journal."
        )

    def _tiers(self, aftermath: Aftermath) -> None:
        rows = [row.report for row in aftermath.tiers]
        self._say(f"\nOne long process ({rows[-1]['entries_applied']:,} entries), recovered from each tier", "bold")
        table = self._table("tier", "starts from", "seek point", "scanned", "applied", "took", "state")
        for row, report in zip(aftermath.tiers, rows, strict=True):
            cost = (report["seek_point"], report["entries_scanned"], report["entries_applied"])
            took = f"{1000 * report['duration_s']:.1f} ms"
            self._row(table, row.tier, _TIER_WORDS[row.tier], *cost, took, row.hash[:12])
        self._console.print(table)
        self._say(
            "All tiers give the same state. The first two read only the entries since the seek point, however long the "
            "history is. The scan reads the whole partition, to check the others."
            if aftermath.is_one_state
            else "The states differ.",
            "dim" if aftermath.is_one_state else "red",
        )

    def _verdict(self, outcome: DemoOutcome) -> None:
        verdict = outcome.verdict
        self._say("\nThe verdict of a checker that reads the log itself and does not trust the workers", "bold")
        rows = [
            (verdict.acknowledged_lost, f"of {verdict.acknowledged} acknowledged entries lost"),
            (
                verdict.duplicate_calls,
                f"of {verdict.model_calls} model calls repeated although the answer was recorded",
            ),
            (verdict.hash_mismatches, f"of {verdict.processes} processes with a state that differs from a full refold"),
        ]
        for count, what in rows:
            self._console.print(Text.assemble((f"{count:6}  ", "bold red" if count else "bold green"), what))
        for count, what in (
            (
                verdict.in_doubt_calls,
                "model calls repeated because their worker died before it recorded the answer",
            ),
            (
                verdict.fenced,
                "acknowledged entries that do not count: their worker had lost the case, and was notified of it",
            ),
        ):
            self._console.print(Text.assemble((f"{count:6}  ", "bold"), what))
        for complaint in verdict.complaints[:_ROWS_MAX]:
            self._say(f"        {clean(complaint)}", "red")
        if len(verdict.complaints) > _ROWS_MAX:
            self._say(f"        ... and {len(verdict.complaints) - _ROWS_MAX} more", "red")
        well = "All is well" if outcome.ok else "The demo failed"
        numbers = f"{verdict.entries} entries of {verdict.processes} processes, {outcome.duration_s:.1f} s in all"
        self._say(f"{well}: {numbers}.", "bold green" if outcome.ok else "bold red")

    def farewell(self, outcome: DemoOutcome, directory: Path | None) -> None:
        """Print commands that show more."""
        command = _command()
        if directory is None:
            self._say(f"\nKafka is stopped and its data is deleted. To keep it: {command} demo --keep")
            return
        case = shlex.quote(outcome.take_overs[0].case if outcome.take_overs else "case-01")
        where = f"--journal {outcome.journal}"
        self._say(f"\nThe cluster keeps running, with its data in {directory}. Commands to try:", "bold")
        looks = ["ps", f"log {case}", f"state {case} --at-seq 12", f"recover {case}", f"verify {case}"]
        if outcome.aftermath is not None:
            looks += [f"recover {LONG_PROCESS} --tier checkpoint", "checkpoints ls", "lag"]
        for what in looks:
            self._say(f"  {command} {what} {where}")
        self._say("Stop the cluster and delete its data:")
        self._say(f"  {command} down && rm -r {shlex.quote(str(directory))}")

    # --- printing
    def _say(self, text: str, style: str = "") -> None:
        self._console.print(Text(text, style=style))

    @staticmethod
    def _table(*titles: str) -> Table:
        table = Table(box=SIMPLE_HEAD, header_style="bold", pad_edge=False, show_edge=False)
        for title in titles:
            table.add_column(title, justify="right" if title in _NUMBERS else "left")
        return table

    @staticmethod
    def _row(table: Table, *cells: object) -> None:
        table.add_row(*(Text(clean(cell)) for cell in cells))


_TIER_WORDS = {"view": "the view in Redis", "checkpoint": "a checkpoint in Kafka", "scan": "the journal's beginning"}
_NUMBERS = {"seek point", "scanned", "applied", "took", "after the kill", "offset", "epoch", "seq"}


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _command() -> str:
    """Return how to call this command in any shell: by its path, if possible relative to the working directory."""
    path = Path(sys.argv[0])
    if path.name != "seekpoint" or not path.is_absolute():
        return "seekpoint"
    return shlex.quote(str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path))


def excerpt(case: str, log: Sequence[Placed]) -> list[tuple[object, ...]]:
    """Return offset, node, epoch, seq, kind and summary of the entries around the case's last claim."""
    rows: list[tuple[object, ...]] = []
    node, epoch, last = "", 0, 0
    for _, offset, entry in log:
        if entry.process_id != case:
            continue
        if isinstance(entry.body, b.Claim) and entry.body.expected_epoch == epoch:
            node, epoch, last = entry.body.node_id, epoch + 1, len(rows)
        seq = "-" if entry.seq is None else entry.seq
        rows.append((offset, entry.actor or node, epoch, seq, entry.kind, _summary(entry.body)))
    return rows[max(0, last - _BEFORE) : last + _AFTER]


def _summary(body: b.Body) -> str:
    if isinstance(body, b.MessageSaid):
        text = f"{body.role}: {body.content if body.tool_calls is None else _calls(body.tool_calls)}"
    elif isinstance(body, b.ContextUpdated):
        text = f"{body.key} = {body.value}"
    elif isinstance(body, b.ContextUpdatedMany):
        text = ", ".join(f"{key} = {value}" for key, value in body.values.items())
    elif isinstance(body, b.DecisionStarted | b.DecisionMade):
        text = body.key
    elif isinstance(body, b.Claim):
        text = f"{body.node_id} claims the process"
    else:
        text = ""
    return text if len(text) <= _TEXT_MAX else f"{text[: _TEXT_MAX - 1]}…"


def _calls(text: str) -> str:
    functions = [call.get("function", {}) for call in orjson.loads(text)]
    return ", ".join(f"{each.get('name')}({each.get('arguments')})" for each in functions)
