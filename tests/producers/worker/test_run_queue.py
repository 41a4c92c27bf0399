"""Which of the runs that are ready begins next."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from seekpoint.producers.worker.run_queue import ReadyRun, RunQueue


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


OPERATIONS = st.lists(
    st.tuples(st.sampled_from(["add", "take", "end", "remove"]), st.integers(0, 8), st.integers(0, 2)), max_size=60
)


@given(OPERATIONS)
def test_each_run_that_is_added_begins_once_within_the_limits(operations: list[tuple[str, int, int]]) -> None:
    """Against a plain model: sets of what is ready and what runs."""
    queue, ready, running = RunQueue(3, {"agent-0": 1}), dict[str, str](), dict[str, str]()
    for action, number, agent in operations:
        name = f"p{number}"
        if action == "add" and name not in ready and name not in running:
            ready[name] = f"agent-{agent}"
        if action == "add":
            queue.add(ReadyRun(name, f"agent-{agent}", number % 3, float(number)))
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
