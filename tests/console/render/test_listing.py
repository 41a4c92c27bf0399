"""Listings from the view: what they find, in which order, and how little of the view they read."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest
import typer

from owners import Owner
from seekpoint.console.commands.control import effects, gates
from seekpoint.console.commands.processes import costs, ps
from seekpoint.console.render import states
from seekpoint.console.render.states import process_row, summary_facts
from seekpoint.console.services.arguments.process_query import ProcessQuery
from seekpoint.console.services.arguments.time_option import since_us
from seekpoint.consumers import Recoverer
from seekpoint.consumers.heartbeats.heartbeat import WorkerStatus
from seekpoint.consumers.heartbeats.worker_code import WorkerCode
from seekpoint.consumers.view.memory_view import MemoryView
from seekpoint.consumers.view.process_summary import Summary
from seekpoint.consumers.view.view_store import Page, Pointer
from seekpoint.schemas import MemoryLog, Settings
from seekpoint.schemas import bodies as b
from seekpoint.schemas.state.lifecycle import Lifecycle

DAY_US = 86_400_000_000
Run = Callable[..., Any]


class Counted(MemoryView):
    """A view that counts the summaries that lists read, and may run something before a page."""

    def __init__(self) -> None:
        super().__init__(1)
        self.summaries = 0
        self.before_page: Callable[[], object] = lambda: None

    def page(self, *arguments: Any, **named: Any) -> Page:
        return self._counted(super().page(*arguments, **named))

    def newest_page(self, *arguments: Any) -> Page:
        page = self._counted(super().newest_page(*arguments))
        self.before_page()
        return page

    def _counted(self, page: Page) -> Page:
        self.summaries += len(page.summaries)
        return page


class Target:
    """A journal in memory, with a view or without one."""

    settings = Settings(redis_url=None)

    def __init__(self) -> None:
        self.log = MemoryLog(partitions=1)
        self.view: Counted | None = Counted()
        self.recoverer = Recoverer(self.log)
        self.dead_letters = self.checkpoints = None

    def reachable(self, *, may_create: bool = False) -> Settings:
        return self.settings

    def owner(self, process_id: str) -> Owner:
        owner = Owner(self.log.append, 1, process_id)
        owner.claim()
        return owner

    def project(self, **clocks: int) -> None:
        """Put all states of the log into the view. ``clocks`` gives processes another time of their newest entry."""
        assert self.view is not None
        found = {name: one.state for name, one in self.recoverer.recover_partition(0).items()}
        for name, at_us in clocks.items():
            draft = found[name].thaw()
            draft.updated_us = at_us
            found[name] = draft.freeze()
        token = self.view.install(0, self.log.topic_id)
        self.view.put(0, token, {name.encode(): (state, Pointer(0, 0)) for name, state in found.items()})
        self.view.ready(0, token, self.log.watermarks(0).high - 1, -1)


@pytest.fixture
def target() -> Target:
    """Five processes: two gates, an effect in doubt, a failed run, one finished, their costs, and a shared value."""
    target = Target()
    waits = target.owner("a-waits")
    waits.own(b.AgentStarted("refund", "1", "d1", "null"))
    waits.own(b.GateOpened("ok:1", 1, "ok", deadline_us=2 * DAY_US))
    waits.own(b.Released())
    pays = target.owner("b-pays")
    pays.own(b.EffectIntended("pay:1", 1, "pay", semantics="at_most_once", idempotency_key="k"))
    fails = target.owner("c-fails")
    fails.own(b.AgentStarted("triage", "2", "d2", "null"))
    fails.own(b.BudgetSet("{}"))
    fails.own(b.DecisionStarted("ask:1", 1, "m", "d"))
    fails.own(b.DecisionMade("ask:1", 1, "succeeded", usage='{"input_tokens":3,"output_tokens":4}', cost_usd="0.25"))
    fails.own(b.LifecycleChanged("failed"))
    ends = target.owner("d-ends")
    ends.own(b.GateOpened("ok:1", 1, "ok"))
    ends.own(b.Finished("1"))
    target.owner("e-bare").own(b.GateOpened("late:1", 1, "late"))
    Owner(target.log.append, 1, "shared:rate").external(b.SharedSet("1", -1))
    target.project()
    return target


@pytest.fixture(params=["view", "log"])
def either(request: pytest.FixtureRequest, target: Target) -> Target:
    """The same journal with its view, and without one."""
    if request.param == "log":
        target.view = None
    return target


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def call(command: Callable[..., None], target: Any, **options: Any) -> Any:
        command(target, json=True, **options)
        return json.loads(capsys.readouterr().out)

    return call


def ids(found: Any) -> list[str]:
    return [one["process_id"] for one in found["processes"]]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, ["a-waits", "b-pays", "c-fails", "d-ends", "e-bare"]),
        ({"agent": "refund"}, ["a-waits"]),
        ({"failed": True}, ["c-fails"]),
        ({"waiting": True}, ["a-waits", "e-bare"]),
        ({"lifecycle": "finished"}, ["d-ends"]),
        ({"lifecycle": "created"}, ["b-pays", "e-bare"]),
        ({"lifecycle": "running"}, ["a-waits"]),
        ({"limit": 2}, ["a-waits", "b-pays"]),
        ({"sort": "updated", "limit": 2}, ["e-bare", "d-ends"]),
        ({"sort": "started"}, ["e-bare", "d-ends", "c-fails", "b-pays", "a-waits"]),
        ({"sort": "cost", "limit": 1}, ["c-fails"]),
        ({"since": "1970-01-01"}, ["a-waits", "b-pays", "c-fails", "d-ends", "e-bare"]),
        ({"since": "9999-01-01"}, []),
        ({"shared": True}, ["a-waits", "b-pays", "c-fails", "d-ends", "e-bare", "shared:rate"]),
        ({"shared": True, "sort": "started", "limit": 2}, ["shared:rate", "e-bare"]),
        ({"shared": True, "unfinished": True}, ["a-waits", "b-pays", "c-fails", "e-bare"]),
        ({"shared": True, "lifecycle": "created"}, ["b-pays", "e-bare"]),
    ],
)
def test_ps_lists_what_its_options_say(either: Target, run: Run, options: dict[str, Any], expected: list[str]) -> None:
    """From the view as from the log."""
    assert ids(run(ps.ps, either, **options)) == expected


def test_ps_shows_why_a_process_does_not_go_on(either: Target, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its agent, what it waits for until when, its costs, and that no worker has its code; no moment that is past."""
    assert run(ps.ps, either)["processes"][0]["until"] is None
    monkeypatch.setattr(states, "now_us", lambda: 0)
    by_id = {one["process_id"]: one for one in run(ps.ps, either)["processes"]}
    waits = by_id["a-waits"]
    assert (waits["agent"], waits["has_worker"], waits["waits_for"]) == ("refund", False, ["gate"])
    assert waits["awaits"] == ["gate ok:1"]
    assert waits["until"] == "1970-01-03T00:00:00+00:00"
    assert by_id["b-pays"]["in_doubt"] == 1
    assert by_id["c-fails"]["spent"].items() >= {"usd": "0.25", "tokens": "7", "model_calls": "1"}.items()
    assert (by_id["d-ends"]["waits_for"], by_id["d-ends"]["has_worker"]) == ([], None)


def test_gates_and_effects_in_doubt_are_found_without_reading_the_finished_processes(
    either: Target, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    """A finished process waits for nothing. Without a view the whole log is read, and stderr says so."""
    assert [(one["process_id"], one["key"]) for one in run(gates.ls, either)["gates"]] == [
        ("a-waits", "ok:1"), ("e-bare", "late:1"),
    ]  # fmt: skip
    assert [one["process_id"] for one in run(effects.ls, either, in_doubt=True)["effects"]] == ["b-pays"]
    effects.ls(either, in_doubt=True)  # type: ignore[arg-type]
    assert ("reading from the log: the settings name no Redis" in capsys.readouterr().err) == (either.view is None)
    if either.view is not None:
        assert either.view.summaries == 3 * 4


def test_costs_are_summed_by_agent_and_day(either: Target, run: Run) -> None:
    """Exact sums; runs that recorded no usage are counted apart."""
    found = run(costs.costs, either, by="agent,day")
    day = found["costs"][0].pop("day")
    assert len(day) == len("2026-11-22")
    assert found["costs"] == [{"agent": "triage", "processes": 1, "usd": "0.25", "tokens": "7", "model_calls": "1"}]
    assert (found["by"], found["without_usage"]) == (["agent", "day"], 1)


def test_the_newest_processes_are_listed_without_reading_the_others(target: Target, run: Run) -> None:
    """A page of each partition is read; it is read on while processes within it are new enough."""
    for number in range(2_000):
        target.owner(f"f-{number:04}")
    target.project(**{"c-fails": 5 * DAY_US})
    assert target.view is not None
    target.view.summaries = 0
    assert ids(run(ps.ps, target, sort="updated", limit=3)) == ["f-1999", "f-1998", "f-1997"]
    assert target.view.summaries <= 1_000
    assert "c-fails" not in ids(run(ps.ps, target, since="1970-01-07"))


def test_a_process_that_goes_on_during_the_listing_is_in_it(target: Target, run: Run) -> None:
    """It moves past the pages that were read, so the newest are read once more."""
    for number in range(600):
        target.owner(f"f-{number:04}")
    target.project()
    view = target.view
    assert view is not None

    def go_on() -> None:
        view.before_page = lambda: None
        Owner(target.log.append, 1, "a-waits").external(b.Signal("go"))
        target.project()

    view.before_page = go_on
    assert "a-waits" in ids(run(ps.ps, target, since="1970-01-01"))


def test_a_view_that_is_damaged_or_away_is_replaced_by_the_log(
    target: Target, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is missing from the list, and the reason is on stderr."""
    assert target.view is not None
    target.view.damage(0, b"e-bare")
    assert len(run(gates.ls, target)["gates"]) == 2
    target.view.down()
    gates.ls(target)  # type: ignore[arg-type]
    assert "reading from the log: the view in memory is down" in capsys.readouterr().err


# --- pure -------------------------------------------------------------------------------------------------------------
RUN = Summary(lifecycle=Lifecycle.AWAITING, offset=1, agent="refund", definition="d1")


@pytest.mark.parametrize(
    ("worker", "expected"),
    [
        (WorkerStatus(group="g", agents=("refund",)), True),
        (WorkerStatus(group="g", agents=("refund",), pinned={"refund": "d1"}), True),
        (WorkerStatus(group="g", agents=("refund",), pinned={"refund": "d2"}), False),
        (WorkerStatus(group="g", agents=("refund",), draining=True), False),
        (WorkerStatus(group="g", agents=("triage",)), False),
    ],
)
def test_a_run_has_a_worker_if_one_has_its_code(worker: WorkerStatus, expected: bool) -> None:
    """A pinned agent resumes only what began with its own definition, and begins anything."""
    assert WorkerCode([worker]).can_run(RUN) is expected
    assert WorkerCode([]).can_run(RUN) is False


def test_a_process_that_has_an_owner_or_has_ended_needs_no_worker() -> None:
    """Nor one on hold, degraded, stopped, without an agent, or failed without a next attempt."""

    changes: list[dict[str, Any]] = [
        {"owner": bytes(16)}, {"finished": True}, {"on_hold": True}, {"degraded": "gap"}, {"agent": None},
        {"lifecycle": Lifecycle.STOPPED}, {"lifecycle": Lifecycle.FAILED},
    ]  # fmt: skip
    assert [WorkerCode([]).can_run(replace(RUN, **change)) for change in changes] == [None] * len(changes)
    retried = replace(RUN, lifecycle=Lifecycle.FAILED, waits_for=("retry",))
    assert WorkerCode([]).can_run(retried) is False
    for asked in ("redrive_requested", "cancel_requested"):
        assert WorkerCode([]).can_run(replace(RUN, lifecycle=Lifecycle.FAILED, last_kind=asked)) is False


@pytest.mark.parametrize("text", ["", "h", "2x", "-2h", "yesterday", "nan"])
def test_a_moment_that_is_none_is_refused(text: str) -> None:
    """It is so long ago, a date, or seconds since 1970; the error names all of them."""
    with pytest.raises(typer.BadParameter, match=r"is not a time; give so long ago .*, a date, .*, or seconds"):
        since_us(text)


def test_a_moment_is_so_long_ago_a_date_or_seconds() -> None:
    """A date without a zone is local."""
    now = time.time() * 1e6
    for text, ago_s in (
        ("30s", 30),
        ("90m", 5_400),
        ("90min", 5_400),
        ("2h", 7_200),
        ("2h ago", 7_200),
        ("7d", 604_800),
    ):
        assert since_us(text) == pytest.approx(now - ago_s * 1e6, abs=5e6)
    assert since_us("2026-11-22") == datetime(2026, 11, 22).astimezone().timestamp() * 1e6
    assert since_us("1970-01-01T01:00:00+01:00") == since_us("0") == 0


def test_only_queries_of_unfinished_processes_use_their_index() -> None:
    """A finished process may be degraded, too."""
    assert ProcessQuery(unfinished=True).open_only
    assert [word for word in ("running", "finished", "degraded") if ProcessQuery(status=word).open_only] == ["running"]


def test_a_query_of_unfinished_processes_wants_no_finished_one() -> None:
    """Whatever its lifecycle was."""
    query = ProcessQuery(unfinished=True)
    assert [query.wants(replace(RUN, finished=finished)) for finished in (False, True)] == [True, False]


def test_a_deleted_process_is_listed_only_where_it_is_asked_for() -> None:
    """Whatever else is asked; the column says what it is."""
    deleted = Summary(process_id="p", lifecycle=Lifecycle.CREATED, offset=7, seq=3, last_kind="deleted")
    facts = summary_facts(deleted, None, 0, None)
    assert (facts["deleted"], process_row(facts)[1]) == (True, "deleted")
    for query in (ProcessQuery(), ProcessQuery(unfinished=True), ProcessQuery(status="created")):
        assert not query.wants(deleted)
        assert query.wants(replace(deleted, last_kind="context_updated"))
    asked = ProcessQuery(status="deleted")
    assert asked.wants(deleted)
    assert not asked.open_only
