"""Search texts of strangers for the regex of a mask rule. A search that takes too long counts as a match of it all.

The patterns are those of ``re``. The package ``regex`` reads them the same way, and can stop: with ``re`` a text of
100,000 letters keeps a pattern such as ``\\w+@`` busy for a minute.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

_TIMEOUT_S: Final = 0.1
_TIMEOUTS_MAX: Final = 2
"""After so many in one value its other texts are not searched any more."""


@lru_cache(maxsize=256)
def _compiled(pattern: re.Pattern[str]) -> Any:
    import regex  # only replays with masks need it

    # The pattern has its flags inline. As numbers they differ: that of re.ASCII is another syntax for regex.
    return regex.compile(pattern.pattern, regex.VERSION0)


class Matching:
    """Searches the texts of one value after another. The time is that of the processor."""

    def __init__(self) -> None:
        self._timeouts = 0

    def begin(self) -> None:
        """Begin another value."""
        self._timeouts = 0

    def is_in(self, pattern: re.Pattern[str], text: str) -> bool:
        """Return whether the pattern matches somewhere, or may."""
        return bool(self._bounded(lambda limit: _compiled(pattern).search(text, timeout=limit) is not None, True))

    def replaced(self, pattern: re.Pattern[str], text: str, replacement: Callable[[str], str]) -> str:
        """Return the text with its matches replaced, or what replaces all of it."""
        sub = _compiled(pattern).sub
        found: str | None = self._bounded(
            lambda limit: sub(lambda match: replacement(match[0]), text, timeout=limit), None
        )
        return found if found is not None else replacement(text)

    def spans(self, pattern: re.Pattern[str], text: str) -> list[tuple[int, int]]:
        """Return where the matches are; everything is one if the search takes too long."""
        found = _compiled(pattern).finditer
        spans: list[tuple[int, int]] = self._bounded(
            lambda limit: [match.span() for match in found(text, timeout=limit)], [(0, len(text))]
        )
        return spans

    def _bounded(self, search: Callable[[float], Any], otherwise: Any) -> Any:
        if self._timeouts < _TIMEOUTS_MAX:
            try:
                return search(_TIMEOUT_S)
            except TimeoutError:
                self._timeouts += 1
        return otherwise
