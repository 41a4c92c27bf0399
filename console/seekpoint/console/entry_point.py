"""The program ``seekpoint``: it loads the command line, and runs it."""

from __future__ import annotations

import signal


def main() -> int:
    """Run the command line of this program, and return its exit code.

    Loading takes a moment. Ctrl-C then ends the program without a traceback: nothing has begun that could be closed.
    """
    was = signal.getsignal(signal.SIGINT)
    if was is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from seekpoint.console.cli import main as run

    if was is signal.default_int_handler:
        signal.signal(signal.SIGINT, was)
    return run()
