"""Break a rule, run its tests, expect a failure: each mutant of tests/mutants.toml, in a copy of the tree.

    [[mutant]]
    rule = "O2"                                  # the rule of the contract that it breaks
    why = "a claim with another expected epoch wins"
    file = "schemas/seekpoint/schemas/folding/fold.py"
    find = "claim.expected_epoch == state.epoch" # occurs exactly once in the file
    replace = "True"
    tests = ["tests/schemas/folding/test_fold.py"]       # what pytest gets; no long, no three_brokers

caught: a test failed. survived: none did, so nothing tests the rule. broken: the run says nothing about the rule (the
text to find is gone, the tests fail without the mutant too, do not even load with it, hang, or look at other code).
Exit code 0: all caught. 1: some not. 2: nothing to run, or tests/mutants.toml is wrong.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, fields
from pathlib import Path
from queue import SimpleQueue
from typing import Literal

from _table import Table, arguments, progress

__all__ = ["Mutant", "MutantError", "Outcome", "load", "main", "run_bounded", "run_mutants"]

ROOTS = ("api", "schemas", "consumers", "producers", "adapters", "console", "compose")
CHECKOUT = Path(__file__).resolve().parent.parent
PYTEST = (sys.executable, "-m", "pytest", "-x", "-q", "--rootdir=.", "-p", "no:cacheprovider", "-p", "_witness")


class MutantError(Exception):
    """tests/mutants.toml does not say something that can be run; the message names the entry."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """One small patch that breaks one rule, and the tests that must notice."""

    rule: str
    why: str
    file: str
    find: str
    replace: str
    tests: tuple[str, ...]

    def applied_to(self, source: str) -> str:
        """The broken source text. Raises `MutantError` unless ``find`` occurs in it exactly once."""
        if (count := source.count(self.find)) != 1:
            raise MutantError(f"{self.rule}: `find` occurs {count} times in {self.file}, not once: {self.find!r}")
        return source.replace(self.find, self.replace)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The verdict on a mutant. ``told`` is the first failing test if caught, the reason if broken."""

    mutant: Mutant
    verdict: Literal["caught", "survived", "broken"]
    told: str
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    exit_code: int | None
    """None: it still ran when its time was over."""
    failed: str | None
    strangers: tuple[str, ...]
    output: str
    seconds: float


def load(tree: Path) -> list[Mutant]:
    """The mutants of ``tree/tests/mutants.toml``, in its order. Raises `MutantError` with the entry that is wrong."""
    entries = tomllib.loads((tree / "tests" / "mutants.toml").read_text()).get("mutant", [])
    return [_parsed(number, entry) for number, entry in enumerate(entries, 1)]


def _parsed(number: int, entry: dict[str, object]) -> Mutant:
    wanted = {field.name for field in fields(Mutant)}
    if odd := sorted(wanted ^ entry.keys()):
        raise MutantError(f"mutant {number}: missing or unknown: {', '.join(odd)}")
    tests = entry["tests"]
    texts = {name: entry[name] for name in sorted(wanted - {"tests"})}
    if not isinstance(tests, list) or not tests or not all(isinstance(text, str) for text in [*tests, *texts.values()]):
        raise MutantError(f"mutant {number}: every key is a text, and tests a list of at least one")
    return Mutant(**{name: str(text) for name, text in texts.items()}, tests=tuple(tests))


def run_mutants(tree: Path, mutants: Sequence[Mutant], *, jobs: int = 1, timeout_s: float = 300.0) -> Iterator[Outcome]:
    """Run each in a copy of the tree, after its tests passed once without it; outcomes in the order given.

    Each job has one copy, which it mends after each mutant: the bytecode of the files that did not change is kept.
    """
    suites = list(dict.fromkeys(mutant.tests for mutant in mutants))

    def unmutated(tests: tuple[str, ...]) -> str | None:
        progress(f"unmutated: {' '.join(tests)}")
        with _borrowed(copies) as copy:
            return _unfit(_pytest(copy, tests, timeout_s, keeps_bytecode=True))

    def mutated(mutant: Mutant) -> Outcome:
        progress(f"{mutant.rule}: {mutant.why}")
        if reason := unfit[mutant.tests]:
            return Outcome(mutant=mutant, verdict="broken", told=reason, seconds=0.0)
        with _borrowed(copies) as copy:
            return _outcome(copy, mutant, timeout_s)

    with ExitStack() as stack:
        copies: SimpleQueue[Path] = SimpleQueue()
        for _ in range(jobs):
            copies.put(stack.enter_context(_copy_of(tree)))
        pool = stack.enter_context(ThreadPoolExecutor(jobs))
        unfit = dict(zip(suites, pool.map(unmutated, suites), strict=True))
        yield from pool.map(mutated, mutants)


@contextmanager
def _borrowed(copies: SimpleQueue[Path]) -> Iterator[Path]:
    copy = copies.get()
    try:
        yield copy
    finally:
        shutil.rmtree(copy / ".hypothesis", ignore_errors=True)  # examples that failed with another mutant
        copies.put(copy)


def _outcome(copy: Path, mutant: Mutant, timeout_s: float) -> Outcome:
    try:
        with _mutated(copy / mutant.file, mutant):
            run = _pytest(copy, mutant.tests, timeout_s)
    except (OSError, MutantError) as error:
        return Outcome(mutant=mutant, verdict="broken", told=str(error), seconds=0.0)
    if run.exit_code == 0 and not run.strangers:
        return Outcome(mutant=mutant, verdict="survived", told="", seconds=run.seconds)
    if run.exit_code == 1 and run.failed and not run.strangers:
        return Outcome(mutant=mutant, verdict="caught", told=run.failed, seconds=run.seconds)
    return Outcome(mutant=mutant, verdict="broken", told=_odd(run), seconds=run.seconds)


@contextmanager
def _mutated(file: Path, mutant: Mutant) -> Iterator[None]:
    """Break the file, and mend it afterwards. Its bytecode is told by the second in which it was written."""
    source, before = file.read_text(), file.stat()
    file.write_text(mutant.applied_to(source))
    try:
        yield
    finally:
        file.write_text(source)
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


def _unfit(run: _Run) -> str | None:
    """Why a suite cannot judge its mutants; None if it can."""
    if run.exit_code == 0 and not run.strangers:
        return None
    return f"fails without the mutant too: {run.failed}" if run.failed else f"without the mutant: {_odd(run)}"


def _odd(run: _Run) -> str:
    if run.exit_code is None:
        return f"still ran after {run.seconds:.0f} s"
    if run.strangers:
        return f"imported from elsewhere than the copy: {', '.join(run.strangers)}"
    return f"pytest exited with {run.exit_code}: {(run.output.strip() or 'no output').splitlines()[-1]}"


@contextmanager
def _copy_of(tree: Path) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="seekpoint-mutant-", ignore_cleanup_errors=True) as folder:
        copy = Path(folder).resolve()
        for name in (*ROOTS, "tests", "docs"):
            if (tree / name).is_dir():
                shutil.copytree(tree / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        for file in (tree / "pyproject.toml", *tree.glob("*.md")):  # some tests hold the pages to the code
            shutil.copy2(file, copy)
        yield copy


def _pytest(copy: Path, tests: Iterable[str], timeout_s: float, *, keeps_bytecode: bool = False) -> _Run:
    testimony = copy / "witness.json"
    testimony.unlink(missing_ok=True)
    started = time.monotonic()
    # The fixtures that an editable install registers would be imported from there, where the copy has none.
    ours = [] if (copy / "console/seekpoint/console/pytest_plugin.py").exists() else ["-p", "no:seekpoint"]
    exit_code, output = run_bounded(
        [*PYTEST, *ours, "-m", "not long and not three_brokers", "--hypothesis-seed=0", *tests],
        cwd=copy,
        env=_environment(copy, testimony, keeps_bytecode),
        timeout_s=timeout_s,
    )
    told = json.loads(testimony.read_text()) if testimony.exists() else {"failed": None, "strangers": []}
    return _Run(
        exit_code=exit_code,
        failed=told["failed"],
        strangers=tuple(told["strangers"]),
        output=output,
        seconds=time.monotonic() - started,
    )


def _environment(copy: Path, testimony: Path, keeps_bytecode: bool) -> dict[str, str]:
    """The copy's roots come before an editable install's, in pytest and in every interpreter that it starts."""
    places = [copy / root for root in ROOTS] + [CHECKOUT / "scripts"]
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    return inherited | {
        "PYTHONPATH": os.pathsep.join(map(str, places)),
        "PYTHONDONTWRITEBYTECODE": "" if keeps_bytecode else "1",
        "MUTANT_WITNESS": str(testimony),
    }


def run_bounded(command: Sequence[str], *, cwd: Path, env: dict[str, str], timeout_s: float) -> tuple[int | None, str]:
    """Return the exit code (None: out of time) and the output. The command's session is killed, on Ctrl-C too."""
    # Into a file: a pipe would be held open by whatever a broken test left running.
    with (cwd / "output.txt").open("w+") as output:
        child = subprocess.Popen(
            command, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
        )
        try:
            exit_code: int | None = child.wait(timeout_s)
        except subprocess.TimeoutExpired:
            exit_code = None
        finally:
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
        output.seek(0)
        return exit_code, output.read()


def _listing(mutants: Iterable[Mutant]) -> Table:
    table = Table("mutants")
    for mutant in mutants:
        table.row(rule=mutant.rule, why=mutant.why, file=mutant.file, tests=" ".join(mutant.tests))
    return table


def _report(outcomes: Sequence[Outcome]) -> Table:
    table = Table("mutants")
    for outcome in outcomes:
        table.row(
            rule=outcome.mutant.rule,
            why=outcome.mutant.why,
            verdict=outcome.verdict,
            **{"reason" if outcome.verdict == "broken" else "caught_by": outcome.told},
            seconds=round(outcome.seconds, 1),
        )
    caught = sum(outcome.verdict == "caught" for outcome in outcomes)
    table.at_least("mutants caught", bar=len(outcomes), value=caught)
    return table


def _parser() -> argparse.ArgumentParser:
    parser = arguments(__doc__)
    parser.add_argument("--only", action="append", metavar="RULE", help="only this rule's mutants; may be repeated")
    parser.add_argument("--list", action="store_true", help="say what there is, run nothing")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="how many at once (default: 1)")
    parser.add_argument(
        "--timeout", type=float, default=300.0, metavar="S", help="seconds a run may take (default: 300)"
    )
    parser.add_argument("--tree", type=Path, default=CHECKOUT, help=argparse.SUPPRESS)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """The command line; the exit code."""
    options = _parser().parse_args(argv)
    try:
        mutants = [each for each in load(options.tree) if not options.only or each.rule in options.only]
    except (MutantError, OSError, tomllib.TOMLDecodeError) as error:
        print(f"tests/mutants.toml: {error}", file=sys.stderr)
        return 2
    if not mutants:
        print("no such mutant: scripts/mutants --list shows what there is", file=sys.stderr)
        return 2
    if options.list:
        return _listing(mutants).finish(json=options.json)
    outcomes = list(run_mutants(options.tree, mutants, jobs=options.jobs, timeout_s=options.timeout))
    return _report(outcomes).finish(json=options.json)


if __name__ == "__main__":
    sys.exit(main())
