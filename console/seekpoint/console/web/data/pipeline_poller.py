"""Keep the facts of the pipeline up to date while somebody looks."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from seekpoint.console.web.data.poller import Poller
from seekpoint.console.web.failures import log_unexpected
from seekpoint.schemas.errors import SeekpointError
from seekpoint.schemas.frozen_struct import FrozenStruct

if TYPE_CHECKING:
    from seekpoint.console.services.arguments.target import CommandTarget
    from seekpoint.console.services.facts.pipeline_facts import PipelineFacts, PipelineReader

_INTERVAL_S = 2.0


class SeenPipeline(FrozenStruct, frozen=True, kw_only=True):
    """The pipeline as it was read last."""

    pipeline: PipelineFacts | None = None
    """None: nothing was read yet."""
    problem: str | None = None
    """Why it cannot be read now; None: it can."""


class PipelinePoller(Poller):
    """Reads the pipeline every two seconds while somebody looks."""

    def __init__(self, target: CommandTarget, threads: ThreadPoolExecutor, *, interval_s: float = _INTERVAL_S) -> None:
        super().__init__(threads, interval_s)
        self._target = target
        self._reader: PipelineReader | None = None
        self.seen = SeenPipeline()

    async def current(self, timeout_s: float = 10.0) -> SeenPipeline:
        """Return the pipeline, read at most an interval ago; if no read ends in time, as it was."""
        await self.wait_until_fresh(timeout_s)
        return self.seen

    def version(self) -> object:
        """Return what was read last."""
        return self.seen

    @property
    def is_loading(self) -> bool:
        """Whether nothing was read yet: then it is worth to wait for the next read."""
        return self.seen.pipeline is None

    def read(self) -> None:
        """Read the pipeline. An error is shown to viewers, and the next read tries again."""
        from seekpoint.console.services.facts.pipeline_facts import PipelineReader

        try:
            if self._reader is None:
                self._reader = PipelineReader(self._target)
            self.seen = SeenPipeline(pipeline=self._reader.read())
        except SeekpointError as exc:
            self._reader = None
            problem = self._target.scrub(f"{exc.message}; {exc.hint}")
            self.seen = SeenPipeline(pipeline=self.seen.pipeline, problem=problem)
        except Exception as exc:  # a reader that dies would leave all pages as they are, without a word
            log_unexpected(exc, self._target.scrub)
            self._reader = None
            problem = f"unexpected {type(exc).__name__}, see the console's log"
            self.seen = SeenPipeline(pipeline=self.seen.pipeline, problem=problem)
