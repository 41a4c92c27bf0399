"""The parts that all routes share: the journal, the board of processes, authentication, templates."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from seekpoint.console.services.arguments.target import CommandTarget
    from seekpoint.console.web.acting.jobs import Jobs
    from seekpoint.console.web.acting.plans import PlanKeeper
    from seekpoint.console.web.auth.authentication import Authentication
    from seekpoint.console.web.auth.oidc_sign_in import OidcSignIn
    from seekpoint.console.web.console_options import ConsoleOptions
    from seekpoint.console.web.data.board_poller import BoardPoller
    from seekpoint.console.web.data.histories import Histories
    from seekpoint.console.web.data.history_streams import HistoryStreams
    from seekpoint.console.web.data.letter_index import LetterIndex
    from seekpoint.console.web.data.moments import Moments
    from seekpoint.console.web.data.pipeline_poller import PipelinePoller
    from seekpoint.console.web.data.streams import Streams
    from seekpoint.console.web.rendering import Templates
    from seekpoint.console.web.static_bundle import StaticBundle

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleParts:
    """The parts of one running console."""

    version: str
    """Of Seekpoint."""
    target: CommandTarget
    authentication: Authentication
    oidc: OidcSignIn | None
    templates: Templates
    bundle: StaticBundle
    board: BoardPoller
    streams: Streams
    """Of the board."""
    pipeline: PipelinePoller
    pipeline_streams: Streams
    letters: LetterIndex
    histories: Histories
    moments: Moments
    history_streams: HistoryStreams
    plans: PlanKeeper
    jobs: Jobs
    options: ConsoleOptions
    threads: ThreadPoolExecutor
    """Of pages and calls."""
    background: ThreadPoolExecutor
    """Of what follows the journal."""

    def close_streams(self) -> None:
        """End the streams of all viewers."""
        self.streams.close()
        self.pipeline_streams.close()
        self.history_streams.close()

    def end_threads(self) -> None:
        """End the threads when their calls end."""
        self.threads.shutdown()
        self.background.shutdown()

    async def in_thread(self, call: Callable[..., T], *arguments: Any) -> T:
        """Return the result of a blocking call, such as a read of the journal, that runs in a thread."""
        return await asyncio.get_running_loop().run_in_executor(self.threads, call, *arguments)
