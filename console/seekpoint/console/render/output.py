"""Write data to stdout and messages to stderr. What comes from agents is made safe for a terminal."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from itertools import chain, islice
from typing import Any, TextIO, TypeVar

_T = TypeVar("_T")

_is_json = False


def clean(text: object) -> str:
    """Return ``text`` as one line that is safe to print: text of agents is not trusted.

    Control characters, bidirectional marks and invisible characters become escapes.

    >>> clean("a\\x1b[31m\\nb")
    'a\\\\x1b[31m\\\\nb'
    """
    line = str(text)
    if line.isascii() and line.isprintable():
        return line
    return _unsafe_characters().sub(lambda match: match[0].encode("unicode_escape").decode(), line)


@cache
def _unsafe_characters() -> re.Pattern[str]:
    from seekpoint.schemas.values.process_ids import INVISIBLE  # importing it takes half of the time of --help

    return re.compile(f"[\x00-\x1f\x7f-\x9f\ud800-\udfff{INVISIBLE}]")


def pasted(*texts: object) -> str:
    """Return ids and names as a shell takes them. A command's help does not load the module that knows how."""
    from seekpoint.schemas.values.process_ids import pasted as quoted

    return quoted(*texts)


def emit(line: str = "") -> None:
    """Write lines of data to stdout, made safe by ``clean``."""
    sys.stdout.write("\n".join(map(clean, line.split("\n"))) + "\n")


def emit_json(document: Any, *, line: bool = False) -> None:
    """Write a JSON document: indented on a terminal, as one line in a pipe or with ``line``."""
    import orjson

    pretty = sys.stdout.isatty() and not line
    text = orjson.dumps(document, option=orjson.OPT_INDENT_2 if pretty else 0).decode()
    sys.stdout.write(_json_escaped(text) + "\n")
    if line:
        sys.stdout.flush()


def emit_json_list(
    head: Mapping[str, Any], name: str, items: Iterable[Any], tail: Mapping[str, Any] | None = None
) -> None:
    """Write the document ``{**head, name: [*items], **tail}`` item by item, without keeping items in memory.

    ``tail`` is read after the last item, so the iterator of items may fill it. If the first item raises, nothing is
    written.
    """
    import orjson

    pretty = sys.stdout.isatty()
    option, first, more = (orjson.OPT_INDENT_2, "\n    ", ",\n    ") if pretty else (0, "", ",")
    empty = orjson.dumps({**head, name: []}, option=option).decode()
    begin = empty[: empty.rindex("[") + 1]
    items = with_first(items)
    sys.stdout.write(_json_escaped(begin))
    between, end = first, ""
    with report_incomplete("\n"):
        for item in items:
            text = _json_escaped(orjson.dumps(item, option=option).decode())
            sys.stdout.write(between + (text.replace("\n", "\n    ") if pretty else text))
            between, end = more, "\n  " if pretty else ""
    rest = orjson.dumps({name: [], **(tail or {})}, option=option).decode()
    sys.stdout.write(_json_escaped(f"{end}{rest[rest.index('[') + 1 :]}\n"))


def with_first(items: Iterable[_T]) -> Iterator[_T]:
    """Compute the first item now, so that its error is raised before anything is written. Return all items."""
    items = iter(items)
    return chain(list(islice(items, 1)), items)


@contextmanager
def report_incomplete(end: str) -> Iterator[None]:
    """If an error interrupts a list, write ``end`` and warn that the list is incomplete."""
    try:
        yield
    except OSError:  # stdout is full or closed
        raise
    except Exception:
        sys.stdout.write(end)
        warn("the list is incomplete: the error below ended it")
        raise


def _json_escaped(text: str) -> str:
    """Return the JSON with unsafe characters as JSON escapes, which loses nothing."""
    if text.isascii() and "\x7f" not in text:
        return text
    return _unsafe_characters().sub(lambda match: match[0] if match[0] == "\n" else _json_escape(match[0]), text)


def _json_escape(character: str) -> str:
    units = character.encode("utf-16-be").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


def counted(number: int, noun: str) -> str:
    """Return a number with its noun.

    >>> counted(1, "entry"), counted(2, "entry"), counted(0, "record"), counted(3, "process")
    ('1 entry', '2 entries', '0 records', '3 processes')
    """
    plural = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}es" if noun.endswith("s") else f"{noun}s"
    return f"{number:,} {noun if number == 1 else plural}"


def is_abandoned(stream: TextIO) -> bool:
    """Whether the reader of a pipe has closed it, so that ``--follow`` can end before the next entry."""
    import select

    if not hasattr(select, "poll"):  # Windows: the next write fails, which ends the command too
        return False
    watch = select.poll()
    try:
        watch.register(stream, 0)
        return any(event & select.POLLERR for _, event in watch.poll(0))
    except (OSError, ValueError):  # not a file, such as a test's buffer
        return False


def say(message: str) -> None:
    """Print a message to stderr as one line, made safe by ``clean``."""
    _write_stderr(clean(message))


def announce(event: str, message: str, **facts: Any) -> None:
    """Print an event of a service to stderr; after ``--json`` as a line of JSON to stdout."""
    if _is_json:
        emit_json({"event": event, **facts}, line=True)
    else:
        say(message)


def _write_stderr(message: str) -> None:
    sys.stdout.flush()  # keep the order of data and messages, also with 2>&1
    sys.stderr.write(message + "\n")
    sys.stderr.flush()


def warn(message: str) -> None:
    """Print a warning to stderr."""
    _write_stderr(f"{_tinted('warning:', '33')} {clean(message)}")


def set_json(is_requested: bool) -> None:
    """Remember whether ``--json`` was given, so that errors and the events of services are JSON documents too."""
    global _is_json
    _is_json = is_requested


def fail(message: str, *, code: str = "Failed", about: Mapping[str, Any] | None = None) -> None:
    """Print an error to stderr. A log excerpt in the message keeps its lines.

    After ``--json`` it is one line of JSON: ``{"error": {"code": ..., "message": ..., "advice": ...}}``. ``about`` has
    what differs from the line for people, such as the advice on its own.
    """
    if _is_json:
        import orjson

        document = {"error": {"code": code, "message": message, "advice": "", **(about or {})}}
        _write_stderr(_json_escaped(orjson.dumps(document).decode()))
        return
    _write_stderr(f"{_tinted('error:', '31')} {chr(10).join(map(clean, message.splitlines()))}")


def _tinted(word: str, colour: str) -> str:
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" or not sys.stderr.isatty()
    return word if plain else f"\x1b[1;{colour}m{word}\x1b[0m"


def ranges(numbers: Iterable[int]) -> str:
    """Return ascending numbers as ranges.

    >>> ranges([0, 1, 2, 5, 7, 8])
    '0-2, 5, 7-8'
    """
    spans: list[list[int]] = []
    for number in numbers:
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return ", ".join(f"{first}" if first == last else f"{first}-{last}" for first, last in spans) or "-"
