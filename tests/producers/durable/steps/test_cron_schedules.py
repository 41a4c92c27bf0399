"""When a schedule fires, and what it makes of firings that were missed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seekpoint.producers import agent
from seekpoint.producers.durable.steps.cron_schedules import PLANNED_MAX, Schedule, firing_id
from seekpoint.schemas.errors import InvalidSetting

BERLIN = "Europe/Berlin"


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def firings(schedule: Schedule, after: str, until: str) -> list[str]:
    return [f"{one:%d %H:%M}" for one in schedule.firings(at(after), at(until))]


def test_a_schedule_fires_by_its_time_zone() -> None:
    """The moments are in UTC; the first one is after the given moment, the last one may be at its limit."""
    daily = Schedule("0 7 * * *", BERLIN)
    assert firings(daily, "2026-11-22 06:00", "2026-11-24 06:00") == ["23 06:00", "24 06:00"]
    assert daily.next_after(at("2026-07-01 00:00")) == at("2026-07-01 05:00")
    assert daily.newest(at("2026-11-01 00:00"), at("2026-11-24 05:59")) == at("2026-11-23 06:00")
    assert daily.newest(at("2026-11-23 06:00"), at("2026-11-24 05:59")) is None


def test_a_fixed_time_that_the_clocks_skip_fires_at_the_first_moment_after_it() -> None:
    """In Berlin 02:00 to 03:00 does not exist on 29 March 2026; 03:00 is 01:00 in UTC."""
    daily = Schedule("30 2 * * *", BERLIN)
    assert firings(daily, "2026-03-27 12:00", "2026-03-30 12:00") == ["28 01:30", "29 01:00", "30 00:30"]


def test_a_fixed_time_that_comes_twice_fires_once() -> None:
    """In Berlin 02:00 to 03:00 comes twice on 25 October 2026; the first 02:30 is 00:30 in UTC."""
    daily = Schedule("30 2 * * *", BERLIN)
    assert firings(daily, "2026-10-24 12:00", "2026-10-26 12:00") == ["25 00:30", "26 01:30"]
    for after in ("2026-10-25 00:30", "2026-10-25 01:10", "2026-10-25 01:30"):
        assert firings(daily, after, "2026-10-25 12:00") == []
    assert daily.newest(at("2026-10-24 12:00"), at("2026-10-25 01:10")) == at("2026-10-25 00:30")


@pytest.mark.parametrize("day", ["2026-03-29", "2026-10-25"])
def test_a_schedule_by_the_hour_fires_by_the_time_that_passed(day: str) -> None:
    """Whatever the clocks do meanwhile."""
    start = at(f"{day} 00:00") - timedelta(hours=2)
    found = list(Schedule("0 * * * *", BERLIN).firings(start, start + timedelta(hours=30)))
    assert [one - start for one in found] == [timedelta(hours=number) for number in range(1, 31)]


CRONS = st.sampled_from(
    ["* * * * *", "*/15 * * * *", "0 * * * *", "30 2 * * *", "0 3 * * *", "15,45 1-3 * * *", "0 0 * * 1", "0 9 1 * *"]
)
ZONES = st.sampled_from(["UTC", BERLIN, "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata"])
NEAR_CHANGES = st.sampled_from(
    ["2026-03-29 01:00", "2026-10-25 01:00", "2026-03-08 07:00", "2026-11-01 06:00", "2026-04-04 15:00", "2026-06-15"]
)
MINUTES = st.integers(-3_000, 3_000)


@given(CRONS, ZONES, NEAR_CHANGES, MINUTES, st.integers(0, 3_000))
def test_the_firings_of_a_span_do_not_depend_on_where_the_search_begins(
    cron: str, zone: str, near: str, first_min: int, span_min: int
) -> None:
    """Else a new leader would find other firings than the one before it; also around changes of the clocks."""
    schedule = Schedule(cron, zone)
    after = at(near) + timedelta(minutes=first_min, seconds=17)
    until = after + timedelta(minutes=span_min)
    found = [*schedule.firings(after, until)]
    assert found == sorted({*found})
    from_before = schedule.firings(after - timedelta(days=3), until)
    assert found == [one for one in from_before if one > after]
    assert schedule.newest(after, until) == (found[-1] if found else None)


@given(st.sampled_from(["skip", "once", "all"]), MINUTES, st.integers(0, 4_000), st.integers(0, 59))
def test_a_plan_has_what_is_due_and_of_what_was_missed_what_the_policy_says(
    missed: str, first_min: int, span_min: int, second: int
) -> None:
    """A firing is missed once it is a minute late."""
    schedule = Schedule("*/5 * * * *", "UTC", missed)
    last = at("2026-06-15") + timedelta(minutes=first_min)
    now = last + timedelta(minutes=span_min, seconds=second)
    due = [*schedule.firings(last, now)]
    late = [one for one in due if one <= now - timedelta(seconds=60)]
    punctual = due[len(late) :]
    wanted = {"skip": punctual, "once": late[-1:] + punctual, "all": due[:PLANNED_MAX]}
    assert schedule.plan(last, now) == wanted[missed]


@pytest.mark.parametrize(
    "wrong",
    [
        {"schedule": "0 7 * *"}, {"schedule": "61 * * * *"}, {"schedule": "0 0 30 2 *"}, {"schedule": "0 0 0 7 * *"},
        {"schedule": "0 7 * * *", "timezone": "Europe/Bonn"}, {"schedule": "0 7 * * *", "timezone": "../etc/passwd"},
        {"schedule": "0 7 * * *", "missed": "twice"}, {"schedule": "0 7 * * *", "name": "n" * 190},
    ],
)  # fmt: skip
def test_what_is_no_schedule_is_refused_where_the_agent_is_made(wrong: dict[str, Any]) -> None:
    """Five fields, a time zone that exists, a policy, and a name that leaves room for the moment in an id."""
    with pytest.raises(InvalidSetting):
        agent(**{"name": "report", **wrong})


def test_the_id_of_a_firing_is_made_of_agent_and_moment() -> None:
    """In UTC, whatever the time zone."""
    moment = Schedule("0 7 * * *", BERLIN).next_after(at("2026-11-22 12:00"))
    assert moment is not None
    assert firing_id("report", moment) == "report@2026-11-23T06:00:00Z"
