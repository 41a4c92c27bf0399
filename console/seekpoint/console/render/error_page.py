"""Generate docs/errors.md: ``python -m seekpoint.console.render.error_page > docs/errors.md``."""

from __future__ import annotations

import re
from collections.abc import Iterator

from seekpoint.console.error_exit_codes import exit_code_of
from seekpoint.schemas import errors
from seekpoint.schemas.errors import SeekpointError

_HEAD = """# Errors

Every error is a `SeekpointError`. Four subclasses group the errors by what you can do about them; catch a group by its
class. Facts are typed attributes of an error: each has `process_id`, `topic`, `partition`, `offset`, `seq`, `epoch` and
`key`, and many classes have more. A fact that is not known is `None`. The dict `facts` contains those that are known.
The message ends with what to do next. The last column is the exit code of the command line.
"""
_COLUMNS = "| class | when | what you do | exit code |\n|---|---|---|---|\n"


def error_page() -> str:
    """Return the page: a table for each of the four kinds of errors."""
    tables = [f"\n## {kind.__name__}\n\n{_summary(kind)}\n\n{error_table(kind)}" for kind in _children(SeekpointError)]
    return _HEAD + "".join(tables)


def error_table(kind: type[SeekpointError] = SeekpointError) -> str:
    """Return a Markdown table of ``kind`` and all its subclasses."""
    return _COLUMNS + "".join(_row(each) for each in _family(kind))


def _family(kind: type[SeekpointError]) -> Iterator[type[SeekpointError]]:
    yield kind
    for child in _children(kind):
        yield from _family(child)


def _children(kind: type[SeekpointError]) -> list[type[SeekpointError]]:
    """Return the subclasses that Seekpoint defines, without those of the user."""
    return [child for child in kind.__subclasses__() if child.__module__ == errors.__name__]


def _row(kind: type[SeekpointError]) -> str:
    return f"| `{kind.__name__}` | {_summary(kind)} | {_cell(kind.hint)} | {exit_code_of(kind)} |\n"


def _summary(kind: type[SeekpointError]) -> str:
    return _cell(" ".join((kind.__doc__ or "").split()))


def _cell(text: str) -> str:
    return re.sub(r"``([^`]+)``", r"`\1`", text).replace("|", "\\|")


if __name__ == "__main__":
    print(error_page(), end="")
