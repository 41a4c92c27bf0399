"""Follow a page as a reader does: write its files, and run its commands in order. Pictures are runs on a terminal."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import selectors
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Command", "FollowedPage", "commands_of", "files_of", "same_words", "with_outputs"]

_CONSOLE = re.compile(r"^```console\n(?P<lines>.*?)^```\n(?:\n!\[[^\]]*\]\((?P<picture>[^)]+\.svg)\))?", re.M | re.S)
_FILE = re.compile(r"`(?P<name>[\w.]+)`[^`]*:\n\n```\w+\n(?P<text>.*?)^```", re.M | re.S)
_PATIENCE_S = 90.0
_READY = "Ctrl-C stops it"


@dataclass(frozen=True, slots=True)
class Command:
    """A command of the page, and what the page shows as its output."""

    text: str
    shown: str
    picture: str | None
    """The path of the picture that follows its block; the block itself then has no output."""

    @property
    def is_background(self) -> bool:
        """Whether it goes on while the next commands run."""
        return self.text.endswith(" &")


def commands_of(text: str) -> list[Command]:
    """Return the commands of a page in order. The picture behind a block is that of its last command."""
    return [one for block in _CONSOLE.finditer(text) for one in _commands(block)]


def _commands(block: re.Match[str]) -> Iterator[Command]:
    parts = re.split(r"^\$ (.*)\n", block["lines"], flags=re.M)[1:]
    for at in range(0, len(parts), 2):
        yield Command(parts[at], parts[at + 1], block["picture"] if at == len(parts) - 2 else None)


def files_of(text: str) -> dict[str, str]:
    """Return the files that the page tells the reader to write: a name in backticks before the block."""
    return {match["name"]: match["text"] for match in _FILE.finditer(text)}


def with_outputs(text: str, outputs: Mapping[str, str]) -> str:
    """Return the page with these outputs behind its commands."""

    def written(block: re.Match[str]) -> str:
        lines = "".join(
            f"$ {one.text}\n" + ("" if block["picture"] else outputs.get(one.text, "")) for one in _commands(block)
        )
        return block[0].replace(block["lines"], lines, 1)

    return _CONSOLE.sub(written, text)


def same_words(text: str) -> list[str]:
    """Return the lines of an output, with one blank between words and without what differs in every run."""
    for pattern, instead in _DIFFERS:
        text = re.sub(pattern, instead, text, flags=re.M)
    return [" ".join(line.split()) for line in text.splitlines()]


_DIFFERS = (
    (r"\d{4}-\d\d-\d\dT[\d:.]+(Z|\+00:00)", "TIME"),
    (r"^TIME +(\d+|-)", "TIME SEQ"),
    (r"\b[\d,]+\.\d ms", "MS"),
    (r"\bseq \d+", "seq N"),
    (r"^(entries|seconds)( +)[\d.]+( +)[\d.]+", r"\1 N N"),
    (r"\b\d+ (s|min|h|d) ago", "N ago"),
)


class FollowedPage:
    """Runs the commands of a page in a folder. Background programs end with the ``with`` block."""

    def __init__(self, folder: Path, environ: Mapping[str, str]) -> None:
        self._folder = folder
        self._environ = {**environ, "LOGNAME": "ann", "TERM": "xterm-256color"}
        self._running: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> FollowedPage:
        return self

    def __exit__(self, *_: object) -> None:
        for one in self._running:
            os.killpg(one.pid, signal.SIGKILL)
            one.wait()

    def run(self, command: Command) -> str:
        """Return what a command prints in a pipe, data and messages. Read-only ``ps`` is repeated until it fits."""
        if command.is_background:
            self._begin(command)
            return ""
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            output = self._piped(command)
            fits = not command.shown or same_words(output) == same_words(command.shown)
            if fits or not command.text.startswith("seekpoint ps") or time.monotonic() > deadline:
                return output
            time.sleep(0.2)

    def _piped(self, command: Command) -> str:
        ran = subprocess.run(
            ["bash", "-c", command.text], cwd=self._folder, env=self._environ, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=_PATIENCE_S, check=False,
        )  # fmt: skip
        return ran.stdout

    def _begin(self, command: Command) -> None:
        log = self._folder / f"background-{len(self._running)}.log"
        with log.open("w") as out:
            begun = subprocess.Popen(
                ["bash", "-c", f"exec {command.text.removesuffix(' &')}"], cwd=self._folder, env=self._environ,
                stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True,
            )  # fmt: skip
        self._running.append(begun)
        deadline = time.monotonic() + _PATIENCE_S
        while _READY not in log.read_text():
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.05)

    def on_terminal(self, command: Command, columns: int) -> str:
        """Return what a command prints on a terminal of this width, with its colours. Messages come through a pipe.

        So there are no progress bars, and a message stands where it came.
        """
        leader, follower = pty.openpty()
        fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 60, columns, 0, 0))
        environ = {name: value for name, value in self._environ.items() if name not in ("COLUMNS", "NO_COLOR")}
        program = subprocess.Popen(
            ["bash", "-c", command.text], cwd=self._folder, env=environ, stdin=subprocess.DEVNULL, stdout=follower,
            stderr=subprocess.PIPE,
        )  # fmt: skip
        os.close(follower)
        assert program.stderr is not None
        with program, selectors.DefaultSelector() as selector:
            selector.register(leader, selectors.EVENT_READ, 0)
            selector.register(program.stderr.fileno(), selectors.EVENT_READ, 1)
            pieces = b"".join(_pieces(selector))
        os.close(leader)
        return pieces.decode().replace("\r\n", "\n")


def _pieces(selector: selectors.BaseSelector) -> Iterator[bytes]:
    """Yield what comes, of the terminal first where both have something."""
    while selector.get_map():
        for key, _ in sorted(selector.select(_PATIENCE_S), key=lambda one: int(one[0].data)):
            try:
                piece = os.read(key.fd, 65_536)
            except OSError:  # the terminal, when the program has ended
                piece = b""
            if not piece:
                selector.unregister(key.fd)
            yield piece
