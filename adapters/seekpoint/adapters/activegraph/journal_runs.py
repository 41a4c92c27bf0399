"""All runs of ActiveGraph in a journal, and the path by which ActiveGraph's own functions find them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from activegraph.store.base import RunRecord
from activegraph.store.sqlite import SQLiteEventStore

from seekpoint import State, SyncNode
from seekpoint.adapters.activegraph.pipelined_events import PipelinedEvents
from seekpoint.adapters.activegraph.run_process import ARCHIVE_KEY, RUN_KEY, RunProcess
from seekpoint.adapters.activegraph.store_errors import archived_event, event_not_found
from seekpoint.errors import Refused

if TYPE_CHECKING:
    from typing import Self

    from activegraph.runtime.runtime import Runtime

    from seekpoint import Node, Ref
    from seekpoint.adapters.activegraph.event_store import SeekpointEventStore


class SeekpointRuns:
    """The runs of ActiveGraph in a journal: ``SeekpointRuns(node)``.

    Its ``path`` takes the place of a file's path in ActiveGraph's calls: ``Runtime(graph, persist_to=runs.path)``,
    ``Runtime.load(runs.path)``, ``compact(runs.path, run_id)``. A runtime of such a run can be forked and promoted.

    ``unacknowledged_max``: how many events may be on their way. 0: each ``emit`` returns once its event is
    acknowledged and was read back. Otherwise ``emit`` returns before, and a crash may lose the newest events, at most
    so many: use the object with ``with``, which waits for all of them, or call ``flush``.
    """

    def __init__(self, node: SyncNode, *, prefix: str = "activegraph", unacknowledged_max: int = 0) -> None:
        if not isinstance(node, SyncNode):
            raise Refused("ActiveGraph's runtime is not async: its store needs a SyncNode", found=type(node).__name__)
        if unacknowledged_max < 0:
            raise Refused("the number of events on their way is not negative", found=str(unacknowledged_max))
        self.node = node
        self.prefix = prefix
        self.path = JournalPath.of(self)
        self._unacknowledged_max = unacknowledged_max
        self._loop: asyncio.AbstractEventLoop | None = None
        self._busy: dict[PipelinedEvents, str] = {}
        """The writers with events on their way, or with a failure, and their runs."""
        self._changing = threading.Lock()
        _take_paths_of_journals()

    def store(self, run_id: str) -> SeekpointEventStore:
        """Return the event store of a run. Its first append expects the run to be as it is now."""
        from seekpoint.adapters.activegraph.event_store import SeekpointEventStore

        return SeekpointEventStore(self.path, run_id=run_id)

    def process_id(self, run_id: str) -> str:
        """Return the id of the process that has a run."""
        return f"{self.prefix}/runs/{run_id}"

    def resume(self, run_id: str | None = None, **options: Any) -> Runtime:
        """Return a runtime that goes on where the run's program has ended, also in the middle of a behavior.

        Takes the options of ``Runtime.load``. The behaviors of the event that was under way are called again: what
        they had written is truncated, and calls of models, tools and embeddings that the journal has are answered from
        there. Call ``run_until_idle`` then. None: the run that was written to last. Raises ``ConcurrentWriterError`` if
        another program goes on with the run, and ``Refused`` if there is none.
        """
        from seekpoint.adapters.activegraph.resuming import resumed

        chosen = run_id or self.most_recent_run_id()
        if chosen is None:
            raise Refused(f"the journal has no run that could go on: no process begins with {self.process_id('')}")
        return resumed(self, chosen, options)

    # --- all runs
    def list_runs(self) -> list[RunRecord]:
        """Return the records of all runs, the oldest first."""
        found: list[tuple[str, int, RunRecord]] = []
        for key, state in self._states().items():
            record = record_of(self._run_id_of(key), state.context.get(RUN_KEY))
            if record is not None:
                found.append((record.created_at, state.started_us, record))
        return [record for *_, record in sorted(found, key=lambda one: one[:2])]

    def most_recent_run_id(self) -> str | None:
        """Return the id of the run that was written to last, by the clocks of the writers; None if there is none."""
        states = {key: state for key, state in self._states().items() if RUN_KEY in state.context}
        newest = max(states, key=lambda key: _recency(states[key]), default=None)
        return None if newest is None else self._run_id_of(newest)

    def fork_run(
        self, *, parent_run_id: str, new_run_id: str, at_event_id: str, label: str | None, created_at: str
    ) -> int:
        """Copy a run's events up to and with one into a new run; return how many. Raises ``EventNotFoundError``.

        The new run is listed once it is whole.
        """
        self.flush_run(parent_run_id)

        async def fork(node: Node) -> int:
            parent = self._log(node, parent_run_id)
            await parent.open()
            cut = parent.content.by_id.get(at_event_id)
            if cut is None:
                is_archived = any(one.row["id"] == at_event_id for one in await parent.archived())
                raise (archived_event if is_archived else event_not_found)(at_event_id, parent_run_id)
            child = self._log(node, new_run_id)
            if (await child.state()).seq:
                raise Refused(f"there is a run {new_run_id} already", hint="give the fork an id that no run has")
            rows = [one.row for one in parent.content.events if one.number <= cut.number]
            await child.append(rows)
            parents: Mapping[str, str | None] = (await parent.state()).context.get(RUN_KEY) or {}
            await child.describe({
                "parent_run_id": parent_run_id, "forked_at_event_id": at_event_id, "label": label,
                "created_at": created_at, "goal": parents.get("goal"), "frame_id": parents.get("frame_id"),
            })  # fmt: skip
            return len(rows)

        return self.node.call(fork)

    # --- snapshots
    def put_snapshot(self, state_hash: str, blob: str, created_at: str) -> None:
        """Store the snapshot of a state: its text is an attachment of a process of its own, which all runs share."""

        async def put(node: Node) -> None:
            process = await node.open(self._snapshot_id(state_hash), shared=True)
            ref = await process.attach(blob.encode(), media_type="application/json")
            if process.state.context.get("snapshot", {}).get("blob") != ref:
                await process.update("snapshot", {"blob": ref, "created_at": created_at})

        self.node.call(put)

    def get_snapshot(self, state_hash: str) -> str | None:
        """Return the snapshot with a hash; None if there is none."""

        async def get(node: Node) -> str | None:
            found = await node.recover(self._snapshot_id(state_hash), missing_ok=True)
            snapshot: Mapping[str, Any] | None = found.state.context.get("snapshot")
            if snapshot is None:
                return None
            ref: Ref = snapshot["blob"]
            return (await node.read_attachment(ref)).decode()

        return self.node.call(get)

    # --- pipelined writes
    def flush(self) -> None:
        """Return once all events of all stores are acknowledged. Raises the first failure, once."""
        self._flush(list(self._busy))

    def flush_run(self, run_id: str) -> None:
        """Return once all events of a run that stores of this object have taken are acknowledged, or failed."""
        for one in [one for one, run in list(self._busy.items()) if run == run_id]:
            one.wait()

    def close(self) -> None:
        """Wait until all events are acknowledged. Raises the first failure. The node stays open."""
        self.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def pipelined(self, log: RunProcess, run_id: str) -> PipelinedEvents | None:
        """Return what a store gives its events to; None: each append waits for its own."""
        if not self._unacknowledged_max:
            return None
        if self._loop is None:
            self._loop = self.node.call(_loop_of)

        def note(events: PipelinedEvents, is_busy: bool) -> None:
            with self._changing:
                if is_busy:
                    self._busy[events] = run_id
                else:
                    self._busy.pop(events, None)

        return PipelinedEvents(log, self._loop, self._unacknowledged_max, note)

    def _flush(self, busy: list[PipelinedEvents]) -> None:
        errors: list[BaseException] = []
        for one in busy:
            try:
                one.flush()
            except BaseException as exc:
                errors.append(exc)
                with self._changing:
                    self._busy.pop(one, None)
        if errors:
            raise errors[0]

    # --- processes
    def _log(self, node: Node, run_id: str) -> RunProcess:
        return RunProcess(node, self.process_id(run_id), run_id)

    def _run_id_of(self, process_id: str) -> str:
        return process_id.removeprefix(self.process_id(""))

    def _snapshot_id(self, state_hash: str) -> str:
        return f"{self.prefix}/snapshots/{state_hash}"

    def _states(self) -> dict[str, State]:
        for run_id in set(self._busy.values()):
            self.flush_run(run_id)

        async def states(node: Node) -> dict[str, State]:
            ids = [one.process_id async for one in node.processes(prefix=self.process_id(""))]
            return {key: one.state for key, one in (await node.recover_many(ids)).items() if one.known}

        return self.node.call(states)


class JournalPath(str):
    """A text that ActiveGraph takes for the path of a file. It stands for the runs of a journal."""

    __slots__ = ("runs",)
    runs: SeekpointRuns

    @classmethod
    def of(cls, runs: SeekpointRuns) -> JournalPath:
        """Return the path of ``runs``."""
        path = cls(f"seekpoint:{runs.prefix}")
        path.runs = runs
        return path

    def __eq__(self, other: object) -> bool:
        same = isinstance(other, JournalPath) and self.runs.node is other.runs.node
        return same and str.__eq__(self, str(other))

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = str.__hash__


def record_of(run_id: str, values: Mapping[str, Any] | None) -> RunRecord | None:
    """Return the record of a run by its context value."""
    return None if values is None else RunRecord(run_id=run_id, **values)


def _recency(state: State) -> tuple[bool, int, str]:
    """Return a key that orders runs by when they were written to: those without events come first."""
    archive = state.context.get(ARCHIVE_KEY)
    is_retired = archive is not None and archive["is_whole"] and archive["seq"] == state.seq
    return state.seq > 1 and not is_retired, state.updated_us, state.context[RUN_KEY]["created_at"]


async def _loop_of(_: Node) -> asyncio.AbstractEventLoop:
    return asyncio.get_running_loop()


_taking = threading.Lock()


def _take_paths_of_journals() -> None:
    """Let ``SQLiteEventStore`` hand the paths of journals over to ``SeekpointEventStore``.

    ActiveGraph has no registry of stores: ``Runtime.load``, ``fork`` and the functions of ``retention`` name this
    class. Every other path goes where it went before.
    """
    from seekpoint.adapters.activegraph.event_store import SeekpointEventStore

    with _taking:
        if "_seekpoint" in SQLiteEventStore.__dict__:
            return

        def new(cls: type[SQLiteEventStore], path: str | None = None, run_id: str | None = None) -> SQLiteEventStore:
            made = SeekpointEventStore if cls is SQLiteEventStore and isinstance(path, JournalPath) else cls
            return object.__new__(made)

        changes: dict[str, object] = {"_seekpoint": True, "__new__": new}
        for name in ("list_runs", "most_recent_run_id", "fork_run"):
            changes[name] = classmethod(_handed_over(getattr(SQLiteEventStore, name).__func__, name))
        for name, change in changes.items():
            setattr(SQLiteEventStore, name, change)


def _handed_over(original: Callable[..., Any], name: str) -> Callable[..., Any]:
    def call(cls: type[SQLiteEventStore], path: str, **how: Any) -> Any:
        return getattr(path.runs, name)(**how) if isinstance(path, JournalPath) else original(cls, path, **how)

    call.__doc__ = original.__doc__
    return call
