"""The failed runs of a journal: candidates for another attempt."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from seekpoint.consumers.recovery.open_processes import open_states
from seekpoint.consumers.recovery.recoverer import Recoverer
from seekpoint.consumers.view.process_summary import Summary
from seekpoint.schemas.errors import Refused
from seekpoint.schemas.frozen_struct import FrozenStruct
from seekpoint.schemas.state.lifecycle import Lifecycle
from seekpoint.schemas.state.process_state import State

_IN_DOUBT = ("step", "decision")


class FailedRun(FrozenStruct, frozen=True, kw_only=True):
    """A run that failed, and that a redrive tries again."""

    process_id: str
    agent: str
    failure: str | None
    """The newest exception that left its code: class and message."""
    runs_failed: int
    """How often runs of the process have failed."""
    in_doubt: int
    """The number of its steps and decisions that may or may not have run."""

    @classmethod
    def of(cls, process_id: str, state: State, *, may_wait: bool = False) -> FailedRun | None:
        """Return the failed run of a process, or with ``may_wait`` also one that waits; None if it has none."""
        is_meant = state.lifecycle is Lifecycle.FAILED or (may_wait and state.lifecycle is Lifecycle.AWAITING)
        if state.finished or state.agent is None or not is_meant:
            return None
        failure, failures = state.failure, state.run_failures
        return cls(
            process_id=process_id, agent=state.agent.name,
            failure=None if failure is None else f"{failure.type}: {failure.message}",
            runs_failed=0 if failures is None else failures.count,
            in_doubt=sum(call.status == "started" and call.kind in _IN_DOUBT for call in state.calls.values()),
        )  # fmt: skip


def run_to_redrive(process_id: str, state: State) -> FailedRun:
    """Return the run of a process that failed, or that waits. Raises ``Refused`` if it has none."""
    found = FailedRun.of(process_id, state, may_wait=True)
    if found is None:
        raise Refused(
            "the run of the process neither failed nor waits, nothing was sent",
            process_id=process_id, lifecycle=str(state.lifecycle),
            hint="seekpoint state PROCESS_ID shows what it waits for",
        )  # fmt: skip
    return found


def failed_runs(
    recoverer: Recoverer, agent: str | None, since_us: int | None, on_no_view: Callable[[str], object]
) -> Iterator[FailedRun]:
    """Yield the failed runs of ``agent`` (None: of all) with an entry since then, as of now. Blocks.

    The view's index of unfinished processes tells which they are. Without a usable view, ``on_no_view`` receives the
    reason, and they come from checkpoints, or from one scan.
    """

    def wants(one: Summary) -> bool:
        return (
            one.lifecycle == Lifecycle.FAILED
            and (agent is None or one.agent == agent)
            and (since_us is None or one.updated_us >= since_us)
        )

    for partition in range(recoverer.log.partitions):
        for process_id, state in open_states(recoverer, partition, wants, on_no_view):
            found = FailedRun.of(process_id, state)
            if found is not None:
                yield found
