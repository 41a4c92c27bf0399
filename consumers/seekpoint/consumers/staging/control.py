"""Pause, resume and stop a running replay from any thread."""

from __future__ import annotations

import threading


class Control:
    """The pause and stop flags of one replay. Thread-safe."""

    def __init__(self) -> None:
        self._go = threading.Event()
        self._go.set()
        self.is_stopped = False

    def pause(self) -> None:
        """Send no more records until ``resume``. Records already sent are still acknowledged."""
        self._go.clear()

    def resume(self) -> None:
        """Continue. The due times of a paced replay move by the length of the pause."""
        self._go.set()

    def stop(self) -> None:
        """End once all sent records are acknowledged. The progress file allows to resume the replay."""
        self.is_stopped = True
        self._go.set()

    @property
    def is_paused(self) -> bool:
        """Whether the replay waits for ``resume``."""
        return not self._go.is_set()
