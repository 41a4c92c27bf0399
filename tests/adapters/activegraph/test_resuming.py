"""A run goes on in the middle of a behavior: what was under way is called again, and recorded calls are answered."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from activegraph import Event, Graph, Runtime, behavior, clear_registry, llm_behavior
from activegraph.llm import LLMResponse

from activegraph_models import Claim, ClaimList, ScriptedProvider
from seekpoint import MemoryLog, SyncNode
from seekpoint.adapters.activegraph import SeekpointRuns
from seekpoint.adapters.activegraph.resuming import last_event_before_unfinished_work
from seekpoint.errors import Refused


class Killed(BaseException):
    """Ends a program in the middle of what it does."""


class Model(ScriptedProvider):
    """Counts its calls, and ends the program at some of them, before they answer."""

    def __init__(self, *killed_at: int) -> None:
        super().__init__(lambda messages, schema: ClaimList(claims=[Claim(text="claimed", confidence=0.5)]))
        self._killed_at = killed_at

    def complete(self, **asked: Any) -> LLMResponse:
        """Answer."""
        answer = super().complete(**asked)
        if len(self.call_log) in self._killed_at:
            raise Killed
        return answer


@pytest.fixture(autouse=True)
def called() -> Iterator[list[str]]:
    """Three behaviors of one event: two that ask the model, and one that does not."""
    calls: list[str] = []
    clear_registry()

    @behavior(name="first", on=["goal.created"])
    def first(event: Any, graph: Any, ctx: Any) -> None:
        calls.append("first")
        graph.add_object("note", {"text": "of the first"})

    for name in ("second", "third"):

        @llm_behavior(name=name, on=["goal.created"], description=name, output_schema=ClaimList, deterministic=True)
        def asks(event: Any, graph: Any, ctx: Any, llm_output: ClaimList, name: str = name) -> None:
            calls.append(name)
            graph.add_object("claim", {"text": llm_output.claims[0].text, "by": name})

    yield calls
    clear_registry()


@pytest.fixture
def runs() -> Iterator[list[SeekpointRuns]]:
    """The same runs by two nodes."""
    log = MemoryLog()
    with SyncNode.in_memory(log, node_id="n0") as one, SyncNode.in_memory(log, node_id="n1") as other:
        yield [SeekpointRuns(node) for node in (one, other)]


def begun(runs: SeekpointRuns, model: Model) -> None:
    """Begin the run ``r``."""
    Runtime(Graph(run_id="r"), persist_to=runs.path, llm_provider=model).run_goal("offers")


def objects(runtime: Runtime) -> list[tuple[str, Any]]:
    """The objects of a runtime."""
    return [(one.type, one.data.get("by")) for one in runtime.graph.all_objects()]


ALL = [("note", None), ("claim", "second"), ("claim", "third")]


def test_the_work_of_a_killed_program_is_done_once(runs: list[SeekpointRuns], called: list[str]) -> None:
    """By another node. Only the call in flight is made again; the finished run has the events of one without a kill."""
    model = Model(2)
    with pytest.raises(Killed):
        begun(runs[0], model)
    after = runs[1].resume("r", llm_provider=model)
    after.run_until_idle()
    assert objects(after) == ALL
    assert len(model.call_log) == 3
    assert called == ["first", "second", "first", "second", "third"]
    whole = SeekpointRuns(runs[0].node, prefix="whole")
    begun(whole, Model())
    one, other = (list(store.iter_events()) for store in (runs[0].store("r"), whole.store("r")))
    assert [(event.id, event.type, event.caused_by) for event in one] == [
        (event.id, event.type, event.caused_by) for event in other
    ]


def test_an_answer_is_found_in_what_two_resumes_have_dropped(runs: list[SeekpointRuns]) -> None:
    """The second program is killed before it has written what the first one's model has answered."""
    model = Model(2)
    with pytest.raises(Killed):
        begun(runs[0], model)
    runs[1].resume("r", llm_provider=model)  # killed before it goes on
    after = runs[0].resume(llm_provider=model)
    after.run_until_idle()
    assert objects(after) == ALL
    assert len(model.call_log) == 3


def test_a_behavior_that_had_not_begun_is_called(runs: list[SeekpointRuns]) -> None:
    """The program was killed between two behaviors of one event: ``Runtime.load`` calls neither again."""
    model = Model()
    begun(runs[0], model)
    store = runs[0].store("r")
    ended = [event for event in store.iter_events() if event.type == "behavior.completed"]
    store.truncate_after(ended[1].id)
    loaded = Runtime.load(runs[0].path, "r", llm_provider=model)
    loaded.run_until_idle()
    assert objects(loaded) == ALL[:2]
    runs[0].store("r").truncate_after(ended[1].id)
    after = runs[1].resume("r", llm_provider=model)
    after.run_until_idle()
    assert objects(after) == ALL
    assert len(model.call_log) == 2


def test_a_finished_run_is_loaded_as_it_is(runs: list[SeekpointRuns]) -> None:
    """Nothing is truncated, and nothing is called."""
    model = Model()
    begun(runs[0], model)
    runs[0].store("r").append(Event(id="evt_900", type="noted", timestamp="2026"))
    count = runs[0].store("r").count()
    after = runs[1].resume("r", llm_provider=model)
    assert len(after.graph.events) == count
    assert not runs[1].store("r").dropped_events()
    assert len(model.call_log) == 2


def test_what_others_have_written_is_never_dropped(runs: list[SeekpointRuns]) -> None:
    """Behind behaviors that are finished the run goes on; behind one that is not, it is refused."""
    with pytest.raises(Killed):
        begun(runs[0], Model(2))
    store = runs[0].store("r")
    store.append(Event(id="evt_900", type="noted", timestamp="2026"))
    with pytest.raises(Refused, match="behind a behavior that is not finished") as refused:
        runs[1].resume("r")
    assert "Runtime.load" in str(refused.value)
    (last, *_) = [event.id for event in store.iter_events() if event.type == "behavior.completed"]
    store.truncate_after(last)
    store.append(Event(id="evt_900", type="noted", timestamp="2026"))
    assert runs[1].resume("r", llm_provider=Model()).graph.events[-1].id == "evt_900"


def test_there_has_to_be_a_run() -> None:
    """To resume the most recent one."""
    with SyncNode.in_memory() as node, pytest.raises(Refused, match="no run"):
        SeekpointRuns(node).resume()


def entry(number: int, type: str, caused_by: int | None = None, of: int | None = None) -> Event:
    """Return an event of a log."""
    payload = {} if of is None else {"event_id": str(of)}
    return Event(id=str(number), type=type, payload=payload, caused_by=None if caused_by is None else str(caused_by))


def test_what_announces_a_behavior_is_dropped_with_it() -> None:
    """A pattern that matched is written before the behavior begins. What the event before has caused stays."""
    events = [
        entry(1, "goal.created"), entry(2, "behavior.started", 1, of=1), entry(3, "noted", 1), entry(4, "noted", 1),
        entry(5, "behavior.completed", 1, of=1), entry(6, "pattern.matched", 3, of=3),
        entry(7, "relation_behavior.started", 3, of=3), entry(8, "approval.proposed"), entry(9, "llm.requested", 3),
        entry(10, "llm.responded", 9),
    ]  # fmt: skip
    assert last_event_before_unfinished_work(events) == "5"
    assert last_event_before_unfinished_work(events[:5]) == "1"
    assert last_event_before_unfinished_work(events[:1]) is None
    assert last_event_before_unfinished_work([*events, entry(11, "runtime.idle")]) is None
    assert last_event_before_unfinished_work([*events[:5], entry(6, "runtime.budget_exhausted")]) is None
