"""The sweep: it finds what every other way missed, and wakes the worker that is responsible.

    view: unfinished processes ── overdue? ──> state from the log ── still? ──> the submission again ──> a worker looks

A worker follows the journal and knows the moments of its processes, so nothing should ever be found: ``found`` counts
what is. The sweep writes no owner's entry. It sends a process's submission once more, which the fold refuses, and which
makes the worker of that partition look at the process. Of schedules it submits the missed firings, under the ids that
every worker gives them. So any number of sweeps may run at once. It runs on the leader's timer of the reactors' group.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from itertools import islice

from seekpoint.consumers.heartbeats.worker_code import WorkerCode, worker_code
from seekpoint.consumers.view.process_summary import Summary, summary_of
from seekpoint.consumers.view.view_store import ViewBrowser
from seekpoint.producers.client import Client
from seekpoint.producers.client_runtime import ClientRuntime
from seekpoint.producers.runs.schedule_table import TABLE_NAME, ScheduleTable
from seekpoint.producers.runs.skipped_submissions import SkippedSubmissions, TakenInbox
from seekpoint.producers.runs.submission_sender import send_submission
from seekpoint.producers.worker.assessment import Assessment, Next, next_of
from seekpoint.producers.worker.scheduler import Scheduler
from seekpoint.schemas.errors import Retryable, SeekpointError
from seekpoint.schemas.log.submissions import SubmissionRecord
from seekpoint.schemas.state.process_state import State
from seekpoint.schemas.values.clock import now_us

logger = logging.getLogger("seekpoint.producers")

_PAGE = 500
_FOUND_MAX = 200
"""How many processes of a partition one look recovers. The next look finds the others."""
_WAKING: Mapping[str, frozenset[str]] = {
    "cancel_requested": frozenset({"created", "starting", "running", "awaiting", "suspended", "failed"}),
    "effect_verdict": frozenset({"awaiting"}),
    "redrive_requested": frozenset({"awaiting", "failed"}),
    "resume_requested": frozenset({"created", "suspended"}),
    "submitted": frozenset({"created"}),
}
"""The external entries after which a worker acts at once, and in which lifecycles. A signal may be one that the code
does not want. What changes nothing stays the newest entry: who resumes a process that waits, wakes nobody."""
_RUNS = frozenset({"starting", "running"})


def overdue(one: Summary, now_us: int, margin_us: int) -> str | None:
    """Return what somebody should have done about an unowned process ``margin_us`` ago; None: nothing. Pure.

    ``moment``: its timer, gate, start or retry is due. ``mail``: its newest entry asks a worker to act. ``run``: its
    owner released it in the middle of its run.
    """
    if one.owner is not None or one.finished or one.on_hold or one.degraded is not None or one.agent is None:
        return None
    late_us = now_us - margin_us
    if one.until_us is not None and one.until_us < late_us:
        return "moment"
    if one.updated_us >= late_us or one.lifecycle in ("stopping", "stopped"):
        return None
    if _asks(one):
        return "mail"
    return "run" if one.lifecycle in _RUNS else None


def _asks(one: Summary) -> bool:
    """Return whether the newest entry of an unowned process asks a worker to act at once."""
    kind = one.last_kind or ""
    if one.lifecycle not in _WAKING.get(kind, ()):
        return False
    if kind == "effect_verdict":
        return one.unsettled > 0
    return "start" not in one.waits_for or kind == "cancel_requested"


class Sweep:
    """The sweep of one journal. ``margin_s``: how late somebody has to be before the sweep acts."""

    def __init__(
        self,
        client: Client,
        view: ViewBrowser,
        *,
        margin_s: float = 30.0,
        clock_us: Callable[[], int] = now_us,
        inbox: TakenInbox | None = None,
    ) -> None:
        self.found: Counter[str] = Counter()
        """How often the sweep acted, by reason: those of ``overdue``, ``schedule`` and ``skipped``."""
        self._client = client
        self._runtime: ClientRuntime = client._runtime
        self._view = view
        self._margin_us = round(margin_s * 1_000_000)
        self._clock_us = clock_us
        self._skipped = None if inbox is None else SkippedSubmissions(inbox, self._runtime.recovery)

    async def look(self) -> None:
        """Look at the whole view and the table of schedules once. An error is logged: the next look tries again."""
        try:
            await self._client.start()
            code = await asyncio.to_thread(worker_code, self._runtime.reader)
            for partition in range(self._runtime.reader.partitions):
                for one in await asyncio.to_thread(self._suspects, partition, code):
                    await self._look_at(one, code)
            await self._fire(code)
            await self._send_skipped()
        except SeekpointError as exc:
            logger.warning("the sweep is not complete: %s", exc)

    # --- processes
    def _suspects(self, partition: int, code: WorkerCode) -> list[Summary]:
        """Return the processes of a partition that the view shows as overdue, and that a worker should run."""
        late = (one for one in self._unfinished(partition) if overdue(one, self._clock_us(), self._margin_us))
        return list(islice((one for one in late if code.should_run(one)), _FOUND_MAX))

    def _unfinished(self, partition: int) -> Iterator[Summary]:
        after = b""
        while True:
            page = self._view.page(partition, after, b"", _PAGE, open_only=True)
            yield from page.summaries
            if len(page.summaries) < _PAGE:
                return
            after = page.summaries[-1].process_id.encode()

    async def _look_at(self, seen: Summary, code: WorkerCode) -> None:
        """Wake a process. One that cannot be recovered does not keep the sweep from the others."""
        try:
            await self._wake(seen, code)
        except Retryable:
            raise
        except SeekpointError as exc:
            logger.warning("the sweep cannot look at %s: %s", seen.process_id, exc)

    async def _wake(self, seen: Summary, code: WorkerCode) -> None:
        """Send the submission of a process again if the log agrees that it is overdue: a view may be behind."""
        state = (await self._runtime.recover(seen.process_id, missing_ok=True)).state
        one = summary_of(seen.partition, seen.process_id.encode(), state)
        reason = overdue(one, self._clock_us(), self._margin_us)
        if reason is None or not code.should_run(one):
            return
        run = Assessment(Next.RUN, one.agent or "")
        if next_of(state, run, (), self._clock_us()).next is not Next.RUN:
            return  # nothing can come of the request any more
        logger.error("the sweep wakes %s, which no worker went on with (%s)", seen.process_id, reason)
        self.found[reason] += 1
        await self._send(_submission_of(seen.process_id, state, self._clock_us()))

    async def _send_skipped(self) -> None:
        """Send the submissions once more that a group has passed over: the same ids, so each is one run."""
        if self._skipped is None:
            return
        for one in await self._skipped.look((self._clock_us() - self._margin_us) // 1_000):
            logger.error("the sweep sends the submission of %s again, which a group has passed over", one.process_id)
            self.found["skipped"] += 1
            await self._send(one)

    async def _send(self, submission: SubmissionRecord) -> None:
        await send_submission(submission, self._runtime.reader, self._runtime.inbox)

    # --- schedules
    async def _fire(self, code: WorkerCode) -> None:
        """Submit the firings that the workers of the agents missed. Without a worker nobody is to fire."""
        shared = self._runtime.shared(TABLE_NAME)
        table = ScheduleTable.of((await shared.get()).value)
        before = datetime.fromtimestamp((self._clock_us() - self._margin_us) / 1_000_000, UTC)
        missed = {
            row.agent: row.schedule
            for row in table.rows
            if row.agent not in table.paused and code.has(row.agent)
            if row.last < before - timedelta(seconds=1) and row.schedule.plan(row.last, before)
        }
        if not missed:
            return
        logger.error("the sweep fires schedules that no worker fired: %s", ", ".join(missed))
        self.found["schedule"] += len(missed)
        await Scheduler(missed, shared, self._send, self._clock_us).look()


def _submission_of(process_id: str, state: State, ts: int) -> SubmissionRecord:
    """Return the submission with which the process could have begun. Its id differs from that of the real one."""
    wanted, began = state.submission, state.agent
    if began is not None:
        agent, input_json = began.name, began.input_json
    else:
        assert wanted is not None
        agent, input_json = wanted.agent, wanted.input_json
    digest = blake2b(f"{process_id}\0sweep\0{state.offset}".encode(), digest_size=16).digest()
    return SubmissionRecord(id=digest, process_id=process_id, agent=agent, input=input_json, actor="sweep", ts=ts)
