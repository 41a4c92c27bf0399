"""Run children on any worker: submit them to the inbox, and wait for their end by the log."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from hashlib import blake2b
from typing import Any

from seekpoint.producers.durable.waits.children import ChildFailure
from seekpoint.producers.node_runtime import NodeRuntime
from seekpoint.producers.node_services import ChildRequest
from seekpoint.producers.runs.run_outcomes import failure_text_of, has_failed, is_over, refuse_other_run, run_result
from seekpoint.producers.runs.submission_sender import check_submission, send_submission
from seekpoint.producers.writer.outbox import Outbox
from seekpoint.schemas import bodies as b
from seekpoint.schemas.log.submissions import SubmissionRecord
from seekpoint.schemas.state.calls import input_digest
from seekpoint.schemas.state.process_state import State
from seekpoint.schemas.values.clock import now_us
from seekpoint.schemas.values.json_values import dump


class SubmittedChildren:
    """Runs the children of one worker's processes on any worker. ``agents``: the names of those it does this for."""

    def __init__(self, runtime: NodeRuntime, inbox: Outbox, agents: Collection[str]) -> None:
        self._runtime = runtime
        self._inbox = inbox
        self._agents = agents

    def takes(self, agent: str) -> bool:
        """Whether children of this agent are submitted: workers have its code."""
        return agent in self._agents

    async def run(self, request: ChildRequest) -> Any:
        """Return the result of a child. Submit it, or ask for another attempt of it, if nobody has yet.

        Raises ``ChildFailure``, ``Cancelled``, ``AgentMismatch``, and what a submission raises.
        """
        child_id, changed = request.child_id, asyncio.Event()
        submission = self._submission(request)
        check_submission(submission, self._runtime.reader)
        digest, asked, is_known = input_digest(submission.input), False, False
        followed = self._runtime.values.begin(child_id, changed.set)
        try:
            while True:
                changed.clear()
                now = followed.peek()
                if now is not None and (not is_known or is_over(now)):
                    state = now.snapshot()
                    refuse_other_run(child_id, state, request.agent, digest)
                    is_known = state.run_identity is not None
                    if not is_known and not asked:
                        asked = True
                        await send_submission(submission, self._runtime.reader, self._inbox, self._runtime.tracer)
                        continue
                    if (redrive_id := _redrive_id(request, state)) is not None and not asked:
                        asked = True
                        reason = b.RedriveRequested("its parent is tried again")
                        await self._runtime.append_external(child_id, reason, entry_id=redrive_id)
                        continue
                    if redrive_id is None and is_over(state):
                        return _result(child_id, state)
                await changed.wait()
        finally:
            self._runtime.values.end(followed, changed.set)

    def _submission(self, request: ChildRequest) -> SubmissionRecord:
        return SubmissionRecord(
            id=_request_id(request, "submit"), process_id=request.child_id, agent=request.agent,
            input=dump(request.input, self._runtime.reader.limits), correlation_id=request.correlation_id,
            spawned_by=request.spawned_by, ts=now_us(),
        )  # fmt: skip


def _request_id(request: ChildRequest, purpose: str) -> bytes:
    """Return the id of what the call asks for: the same in each run of the parent."""
    return blake2b(f"{request.idempotency_key}\0{purpose}".encode(), digest_size=16).digest()


def _redrive_id(request: ChildRequest, state: State) -> bytes | None:
    """Return the id of the request to try a failed child again; None if nobody asks for it, or it was made already."""
    if request.aside_seq is None or not has_failed(state):
        return None
    found = _request_id(request, f"redrive {request.aside_seq}")
    return None if found in state.remembered else found


def _result(child_id: str, state: State) -> Any:
    if has_failed(state):
        raise ChildFailure(failure_text_of(state))
    return run_result(child_id, state)
