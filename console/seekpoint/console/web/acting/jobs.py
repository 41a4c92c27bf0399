"""Changes that take longer than a request: they go on in a thread, and a page shows how far they are."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import uuid4

from seekpoint.console.web.failures import ApiError, BadRequest, failure_of
from seekpoint.schemas.frozen_struct import FrozenStruct

_KEPT_MAX = 50
_AT_ONCE = 2


class JobFacts(FrozenStruct, frozen=True, kw_only=True):
    """A job as it is now."""

    id: str
    kind: str
    title: str
    actor: str
    reason: str
    state: str
    """``waiting``, ``running``, ``stopping``, ``stopped``, ``finished`` or ``failed``."""
    done: int
    total: int | None
    """None: nobody knows how much there is."""
    unit: str
    rate_per_s: float | None
    eta_s: float | None
    elapsed_s: float
    text: str
    """What became of it."""
    error: ApiError | None
    result: dict[str, Any]


class Job:
    """One job. Its thread calls ``progress``, and sets ``on_stop`` to what makes it end early."""

    def __init__(self, kind: str, title: str, actor: str, reason: str) -> None:
        self.id = uuid4().hex[:12]
        self.kind, self.title, self.actor, self.reason = kind, title, actor, reason
        self.on_stop: Callable[[], object] = lambda: None
        self.table: list[tuple[str, ...]] = []
        """Rows that its page shows beside the result."""
        self.is_stopping = False
        self.state = "waiting"
        self._progress: tuple[int, int | None, str] = (0, None, "")
        self._began = self._ended = 0.0
        self._first: int | None = None
        self._text = ""
        self._result: dict[str, Any] = {}
        self._error: ApiError | None = None

    def progress(self, done: int, total: int | None, unit: str) -> None:
        """Say how far it is."""
        self._progress = done, total, unit
        self._first = done if self._first is None else self._first  # one that goes on has done a part before

    def stop(self) -> None:
        """Make it end early. It may take a moment; what was done stays."""
        if self.state in ("waiting", "running"):
            self.is_stopping = True
            self.state = "stopping"
            self.on_stop()

    def facts(self) -> JobFacts:
        """Return how it is now."""
        done, total, unit = self._progress
        elapsed = (self._ended or time.monotonic()) - self._began if self._began else 0.0
        ahead = done - (self._first or 0) or done
        rate = ahead / elapsed if ahead and elapsed > 0 else None
        left = None if total is None or self._ended else max(0, total - done)
        eta = None if left is None or rate is None else left / rate
        return JobFacts(
            id=self.id, kind=self.kind, title=self.title, actor=self.actor, reason=self.reason, state=self.state,
            done=done, total=total, unit=unit, rate_per_s=rate, eta_s=eta,
            elapsed_s=round(elapsed, 3), text=self._text, error=self._error, result=self._result,
        )  # fmt: skip

    def run(self, work: Callable[[Job], tuple[str, dict[str, Any]]], scrub: Callable[[str], str]) -> None:
        """Do the work; keep what came out of it, or the error."""
        self._began = time.monotonic()
        try:
            if not self.is_stopping:
                self.state = "running"
                self._text, self._result = work(self)
            self.state = "stopped" if self.is_stopping else "finished"
        except BaseException as error:
            if self.is_stopping:
                self.state, self._text = "stopped", "it was stopped"
            else:
                unforeseen = error if isinstance(error, Exception) else RuntimeError(type(error).__name__)
                self._error = failure_of(unforeseen, scrub)[1]
                self.state = "failed"
        finally:
            self._ended = time.monotonic()


class Jobs:
    """The jobs of a console, the newest first."""

    def __init__(self, scrub: Callable[[str], str]) -> None:
        self._jobs: OrderedDict[str, Job] = OrderedDict()
        self._scrub = scrub
        self._threads: ThreadPoolExecutor | None = None
        self._lock = threading.Lock()

    def start(self, job: Job, work: Callable[[Job], tuple[str, dict[str, Any]]]) -> None:
        """Begin a job: at once, or after those that were begun before. ``work`` returns its text and its result."""
        with self._lock:
            if self._threads is None:
                self._threads = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="seekpoint-console-job")
            self._jobs[job.id] = job
            for old in [one.id for one in self._jobs.values() if one.facts().state in _OVER][:-_KEPT_MAX]:
                del self._jobs[old]
            self._threads.submit(job.run, work, self._scrub)

    def of(self, job_id: str) -> Job:
        """Return a job. Raises ``BadRequest``."""
        found = self._jobs.get(job_id)
        if found is None:
            raise BadRequest(
                404, "NoSuchJob", "there is no such job", "a console forgets its jobs when it is restarted"
            )
        return found

    def listed(self) -> list[JobFacts]:
        """Return all jobs that it remembers."""
        return [one.facts() for one in reversed(self._jobs.values())]

    def close(self) -> None:
        """Stop all jobs, and wait until they have ended. Blocks."""
        for one in [*self._jobs.values()]:
            one.stop()
        if self._threads is not None:
            self._threads.shutdown()


_OVER = ("stopped", "finished", "failed")
