"""Paths of mask rules: ``context.customer.email``, ``message.*``, ``**.password``. List indexes are left out.

>>> Path.parse('context."e.mail"').matches(("context", "e.mail"))
True
>>> Path.parse("**.email").matches(("context", "customers", "email"))
True
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from seekpoint.schemas.errors import InvalidSetting
from seekpoint.schemas.frozen_struct import FrozenStruct

_PART = re.compile(r'"((?:[^"\\]|\\.)*)"|([^".]+)')


class Path(FrozenStruct, frozen=True):
    """A path: ``*`` matches one name, ``**`` any number of names. A name with a dot is quoted."""

    parts: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> Path:
        """Parse ``text``. Raises ``InvalidSetting`` if it is no path."""
        parts, at = [], 0
        while at < len(text):
            match = _PART.match(text, at)
            if match is None:
                break
            quoted, bare = match.groups()
            parts.append(re.sub(r"\\(.)", r"\1", quoted) if quoted is not None else bare)
            at = match.end()
            if at < len(text) and text[at] == ".":
                at += 1
                if at == len(text):
                    break
            elif at < len(text):
                break
        else:
            if parts:
                return cls(tuple(parts))
        raise InvalidSetting("no path of a mask rule", path=text[:200], hint='write context.customer.email, or "a.b".c')

    def matches(self, names: Sequence[str]) -> bool:
        """Return whether the path matches the value at ``names``, not only values inside it."""
        return _matches(self.parts, tuple(names))

    def may_lie_below(self, names: Sequence[str]) -> bool:
        """Return whether the path may match a value inside the one at ``names``."""
        return any(_matches(self.parts[:length], tuple(names)) for length in range(len(self.parts)))


def _matches(parts: tuple[str, ...], names: tuple[str, ...]) -> bool:
    """Match by dynamic programming, so that the time is the product of both lengths for any pattern."""
    row = [True] + [False] * len(names)
    for part in parts:
        if part == "**":
            for at in range(len(names)):
                row[at + 1] = row[at + 1] or row[at]
        else:
            row = [False, *(row[at] and part in ("*", name) for at, name in enumerate(names))]
    return row[-1]
