"""A terminal for tests of what people see."""

from __future__ import annotations

import io
import sys

import pytest

__all__ = ["Terminal", "on_terminal"]


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def on_terminal(monkeypatch: pytest.MonkeyPatch, columns: int = 40) -> Terminal:
    """From here on stdout is a terminal. (A fixture cannot: pytest exchanges the streams after the set-up.)"""
    stream = Terminal()
    monkeypatch.setattr(sys, "stdout", stream)
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    return stream
