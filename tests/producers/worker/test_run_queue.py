"""Which of the runs that are ready begins next."""

from __future__ import annotations

from math import inf
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seekpoint.producers import Rate, agent
from seekpoint.producers.worker.run_queue import ReadyRun, RunQueue
from seekpoint.schemas.errors import InvalidSetting


def names(queue: RunQueue) -> list[str]:
    """The runs in the order in which they begin, until there is no room."""
    taken = iter(queue.take, None)
    return [run.process_id for run in taken]


def test_the_highest_priority_begins_first_and_then_the_oldest() -> None:
    """Whatever order they came in."""
    queue = RunQueue(10)
    for number, (name, priority, since_s) in enumerate([("c", 0, 3.0), ("a", 5, 4.0), ("b", 0, 1.0)]):
        queue.add(ReadyRun(name, f"agent-{number % 2}", priority, since_s))
    assert queue.oldest_s == 1.0
    assert names(queue) == ["a", "b", "c"]
    assert queue.oldest_s is None


def test_no_more_run_at_once_than_there_is_room_for() -> None:
    """In all, and of one agent: others pass it."""
    queue = RunQueue(3, {"slow": 1})
    for number in range(3):
        queue.add(ReadyRun(f"slow-{number}", "slow", 9))
        queue.add(ReadyRun(f"fast-{number}", "fast"))
    assert names(queue) == ["slow-0", "fast-0", "fast-1"]
    queue.ended("slow-0")
    assert names(queue) == ["slow-1"]
    queue.ended("fast-0")
    assert names(queue) == ["fast-2"]
    assert len(queue) == 1


def test_a_process_is_ready_once_and_not_while_it_runs() -> None:
    """What wakes it twice runs it once."""
    queue = RunQueue(5)
    queue.add(ReadyRun("a", "one"))
    queue.add(ReadyRun("a", "one", 9))
    assert names(queue) == ["a"]
    queue.add(ReadyRun("a", "one"))
    assert names(queue) == []
    queue.ended("a")
    queue.add(ReadyRun("a", "one"))
    assert names(queue) == ["a"]


def test_what_was_removed_does_not_begin() -> None:
    """Its partition went to another worker; added again it is ready again."""
    queue = RunQueue(5)
    queue.add(ReadyRun("a", "one"))
    queue.remove("a")
    queue.remove("b")
    assert names(queue) == []
    queue.add(ReadyRun("a", "one"))
    assert names(queue) == ["a"]


def begun(queue: RunQueue, now_s: float) -> list[str]:
    """The runs that begin at this moment."""
    return [run.process_id for run in iter(lambda: queue.take(now_s), None)]


def test_new_runs_of_an_agent_begin_at_its_rate_and_the_highest_priority_first() -> None:
    """A run that goes on is not held back, nor are those of other agents."""
    queue = RunQueue(99, rates={"mail": Rate(2, per_s=10)})
    for number in range(5):
        queue.add(ReadyRun(f"new-{number}", "mail", number, begins=True))
    queue.add(ReadyRun("goes-on", "mail"))
    queue.add(ReadyRun("other", "shop", begins=True))
    assert queue.wait_s(0.0) is None
    assert begun(queue, 0.0) == ["new-4", "new-3", "goes-on", "other"]
    assert queue.wait_s(4.0) == 6.0
    queue.add(ReadyRun("goes-on, too", "mail"))
    assert begun(queue, 9.9) == ["goes-on, too"]
    assert begun(queue, 10.0) == ["new-2", "new-1"]
    queue.add(ReadyRun("urgent", "mail", 9, begins=True))
    assert begun(queue, 20.0) == ["urgent", "new-0"]
    assert queue.wait_s(20.0) is None


@given(
    st.integers(1, 4),
    st.floats(0.5, 20.0),
    st.lists(st.tuples(st.floats(0.0, 5.0), st.integers(0, 3)), min_size=1, max_size=40),
)
def test_no_span_of_time_has_more_beginnings_than_the_rate(
    runs: int, per_s: float, arrivals: list[tuple[float, int]]
) -> None:
    """Whenever runs come; each begins as soon as the rate lets it, and in the order of the queue."""
    queue = RunQueue(10_000, rates={"mail": Rate(runs, per_s=per_s)})
    now_s, begins = 0.0, list[float]()
    for number, (after_s, priority) in enumerate(arrivals):
        now_s += after_s
        queue.add(ReadyRun(f"p{number}", "mail", priority, now_s, begins=True))
        begins += [now_s] * len(begun(queue, now_s))
    while len(queue):
        wait_s = queue.wait_s(now_s)
        assert wait_s is not None
        now_s += wait_s + 1e-9
        begins += [now_s] * len(begun(queue, now_s))
    assert len(begins) == len(arrivals)
    for first, later in zip(begins, begins[runs:], strict=False):
        assert later - first >= per_s - 1e-6


@pytest.mark.parametrize("limits", [{"runs": 0}, {"runs": 1.5}, {"runs": 1, "per_s": 0}, {"runs": 1, "per_s": inf}])
def test_a_rate_that_limits_nothing_is_refused(limits: dict[str, Any]) -> None:
    """Where it is made; and whatever is no rate, where the agent is made."""
    with pytest.raises(InvalidSetting):
        Rate(**limits)
    with pytest.raises(InvalidSetting):
        agent("mail", rate=10)  # type: ignore[arg-type]


OPERATIONS = st.lists(
    st.tuples(st.sampled_from(["add", "take", "end", "remove"]), st.integers(0, 8), st.integers(0, 2)), max_size=60
)


@given(OPERATIONS)
def test_each_run_that_is_added_begins_once_within_the_limits(operations: list[tuple[str, int, int]]) -> None:
    """Against a plain model: sets of what is ready and what runs."""
    queue, ready, running = RunQueue(3, {"agent-0": 1}), dict[str, str](), dict[str, str]()
    for action, number, agent_number in operations:
        name = f"p{number}"
        if action == "add" and name not in ready and name not in running:
            ready[name] = f"agent-{agent_number}"
        if action == "add":
            queue.add(ReadyRun(name, f"agent-{agent_number}", number % 3, float(number)))
        elif action == "remove":
            queue.remove(name)
            ready.pop(name, None)
        elif action == "end":
            queue.ended(name)
            running.pop(name, None)
        else:
            taken = queue.take()
            may = [one for one, of in ready.items() if of != "agent-0" or "agent-0" not in running.values()]
            assert (taken is None) == (len(running) == 3 or not may)
            if taken is not None:
                assert taken.process_id in may
                running[taken.process_id] = ready.pop(taken.process_id)
        assert dict(queue.running) == running
        assert len(queue) == len(ready)
