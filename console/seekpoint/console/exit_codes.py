"""The exit codes of the command line. docs/cli.md lists them.

This module imports nothing of Seekpoint, so ``--help`` stays fast; ``error_exit_codes`` maps errors to these codes.
"""

from __future__ import annotations

EXIT_FAULT = 1
EXIT_USAGE = 2
EXIT_UNREACHABLE = 3
EXIT_REFUSED = 4
EXIT_INTERRUPTED = 130
EXIT_BROKEN_PIPE = 141  # 128 + SIGPIPE: what shells expect of a program whose reader has gone
EXIT_TERMINATED = 143  # 128 + SIGTERM, as shells show it
