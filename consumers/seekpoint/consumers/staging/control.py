"""Who runs a replay, and who stops it: from any thread."""

from __future__ import annotations

import threading

__all__ = ["Control"]


class Control:
    """Pause, resume and stop, from any thread."""

    def __init__(self) -> None:
        self._go = threading.Event()
        self._go.set()
        self.is_stopped = False

    def pause(self) -> None:
        """Send nothing more until ``resume``; what was sent is still acknowledged."""
        self._go.clear()

    def resume(self) -> None:
        """Go on; what is due moves by as long as it was paused."""
        self._go.set()

    def stop(self) -> None:
        """End after what was sent is acknowledged. The replay can be resumed from its progress file."""
        self.is_stopped = True
        self._go.set()

    @property
    def is_paused(self) -> bool:
        """Whether it waits for ``resume``."""
        return not self._go.is_set()
