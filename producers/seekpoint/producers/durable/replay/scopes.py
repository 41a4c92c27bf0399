"""Where a call stands: the main code, the body of another call, or a task of its own. Each has its own order.

A context variable carries the scope, so whatever the event loop does, the calls of one branch count for themselves.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from contextvars import ContextVar, Token
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Self

from seekpoint.schemas.errors import InvalidName

if TYPE_CHECKING:
    from seekpoint.producers.durable.branches.branch_schedule import BranchTask
    from seekpoint.schemas.state.calls import Call

__all__ = [
    "BRANCH", "CURRENT", "WRITE", "Scope", "escaped_key", "escaped_name", "is_explicit", "parent_scope", "root_scope",
]  # fmt: skip

BRANCH: Final = "~"
"""Begins the scope of a task, ``~1/``, and of an explicit branch, ``~1.2/``: the second of the first group."""
WRITE: Final = "#"
"""Begins the key of a content write: ``#3``, its position."""
_CHARACTERS_MAX = 400
_EXPLICIT = re.compile(r"~[0-9]+\.[0-9]+/")
_EXPLICIT_AT_END = re.compile(r"(?:(?<=/)|^)(?:~[0-9]+\.[0-9]+/)+$")


class Scope:
    """One order of calls. ``prefix`` is what its keys begin with, None until a task made its first call."""

    __slots__ = (
        "branch_task", "branches", "closed", "desk", "groups", "groups_open", "in_body", "is_of_a_task", "keys",
        "lenient_below_seq", "ordinals", "outer", "parent", "position", "prefix", "records", "starts_branches", "task",
        "token",
    )  # fmt: skip

    token: Token[Scope | None]

    def __init__(
        self,
        desk: object,
        prefix: str | None,
        *,
        task: asyncio.Task[Any] | None,
        records: Mapping[str, Call],
        parent: Scope | None = None,
        outer: Scope | None = None,
        lenient_below_seq: int | None = None,
        in_body: bool = False,
        branch_task: BranchTask | None = None,
    ) -> None:
        self.desk = desk
        self.prefix = prefix
        self.task = task
        self.records = records
        self.parent = parent
        self.outer = outer
        """What the context variable held before: of this desk or of another one's."""
        self.lenient_below_seq = lenient_below_seq
        """A further attempt of a body: what succeeded is kept, what failed up to this seq is repeated."""
        self.is_of_a_task = prefix is None
        """Whether a task that ``asyncio`` started runs here."""
        self.in_body: bool = in_body or (parent is not None and parent.in_body)
        """Whether a call's body runs here, or a task that one started."""
        self.branch_task = branch_task
        """The task of the explicit branch that runs here; of other code only while branches that it started run."""
        self.groups = 0
        """How many groups of explicit branches were made here."""
        self.groups_open = 0
        self.starts_branches = False
        """Whether the schedule of its branches began here."""
        self.position = 0
        self.ordinals: dict[str, int] = {}
        self.keys: set[str] = set()
        self.branches: set[str] = set()
        self.closed = False

    def __enter__(self) -> Self:
        """The code that runs from here on, and the tasks it starts, stand in this scope."""
        self.token = CURRENT.set(self)
        return self

    def __exit__(self, *exc: object) -> None:
        """Here it ends: a task that is left over may ask nothing more."""
        self.closed = True
        CURRENT.reset(self.token)

    def next_branches(self) -> str:
        """Return what the scopes of the next group of explicit branches begin with: the number of each follows."""
        self.groups += 1
        return f"{self.prefix}{BRANCH}{self.groups}."

    @property
    def is_over(self) -> bool:
        """Whether the turn or the body it belongs to has ended."""
        scope: Scope | None = self
        while scope is not None:
            if scope.closed:
                return True
            scope = scope.parent
        return False


CURRENT: ContextVar[Scope | None] = ContextVar("seekpoint_scope", default=None)
"""The scope of the code that runs. One variable for all desks: they are told apart by ``Scope.desk``."""


def parent_scope(key: str) -> str:
    """The scope a key belongs to: everything up to its last slash."""
    head, slash, _ = key.rpartition("/")
    return head + slash


def is_explicit(key: str) -> bool:
    """Whether the code of an explicit branch made the call ``key``, or the body of a call around it."""
    return BRANCH in key and _EXPLICIT.search(key) is not None


def root_scope(key: str) -> str:
    """Return the scope whose code started the explicit branches that ``key`` stands in; else the scope of ``key``."""
    scope = parent_scope(key)
    return _EXPLICIT_AT_END.sub("", scope) if BRANCH in scope else scope


def escaped_name(name: str) -> str:
    """``name`` as part of a key: a slash separates scopes, so a name's own is written ``%2F``. ``InvalidName``."""
    if type(name) is not str or not 1 <= len(name) <= _CHARACTERS_MAX:
        raise InvalidName(
            "the name of a call is a text of 1 to 400 characters, and comes first", name=repr(name)[:80],
            hint='for example: process.step("look up", look_up, order)',
        )  # fmt: skip
    return _escaped(name)


@lru_cache(maxsize=4096)
def _escaped(name: str) -> str:
    return name.replace("%", "%25").replace("/", "%2F")


def escaped_key(key: str) -> str:
    """An explicit key, as part of a whole one: never mistaken for a turn, a branch or a write. ``InvalidName``."""
    text = escaped_name(key)
    if text[0] in BRANCH + WRITE or (text.isascii() and text.isdigit()):
        return f"%{ord(text[0]):02X}{text[1:]}"
    return text
