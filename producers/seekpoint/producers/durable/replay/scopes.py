"""The scopes of calls: the main code, the body of a call, a task, an explicit branch. Each has an order of its own.

A context variable carries the scope, so the calls of a branch are counted apart whatever the event loop does.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Collection, Coroutine
from contextvars import ContextVar, Token
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from seekpoint.schemas.errors import InvalidName, UnserializableValue

if TYPE_CHECKING:
    from seekpoint.producers.durable.branches.branch_schedule import BranchTask
    from seekpoint.producers.durable.replay.further_attempts import FurtherAttempt
    from seekpoint.producers.durable.replay.scope_tracker import ScopeTracker
    from seekpoint.schemas.state.calls import Call

BRANCH: Final = "~"
"""Begins the scope of a task, ``~1/``, and of an explicit branch, ``~1.2/``: the second of the first group."""
PARENTS: Final = "%parent/"
"""Begins the key of a parent's later call whose record answers an equal request of a fork. No call of any code has such
a key, because names are escaped."""
WRITE: Final = "#"
"""Begins the key of a content write: ``#3``, its position."""
_CHARACTERS_MAX = 400
_EXPLICIT = r"~[0-9]+\.[0-9]+/"
_EXPLICIT_AT_END = r"(?:(?<=/)|^)(?:~[0-9]+\.[0-9]+/)+$"


class Scope:
    """One order of calls. Its keys begin with ``prefix``, which is None until a task has made its first call."""

    __slots__ = (
        "again", "awaited", "body", "branch_task", "branches", "closed", "explicit_branches", "groups", "groups_open",
        "guests", "is_of_a_task", "keys", "ordinals", "outer", "parent", "position", "prefix", "runs_again",
        "starts_branches", "task", "token", "tracker", "waits",
    )  # fmt: skip

    token: Token[Scope | None]

    def __init__(
        self,
        tracker: ScopeTracker,
        prefix: str | None,
        *,
        task: asyncio.Task[Any] | None,
        parent: Scope | None = None,
        outer: Scope | None = None,
        again: FurtherAttempt | None = None,
        is_body: bool = False,
        runs_again: bool = False,
        branch_task: BranchTask | None = None,
        awaited: Coroutine[Any, Any, Any] | None = None,
    ) -> None:
        self.tracker = tracker
        self.prefix = prefix
        self.task = task
        self.guests: Collection[object] = ()
        """Tasks whose calls are this scope's too: those of a wait that has no task in other versions of Python."""
        self.awaited = awaited
        """The coroutine whose calls these are, where ``asyncio.wait_for`` awaits it in the task of other code."""
        self.parent = parent
        self.outer = outer
        """The value of the context variable before: a scope of this tracker or of another one."""
        self.again = again
        """What a further attempt of a body keeps of the earlier ones; None in all other code."""
        self.is_of_a_task = prefix is None
        """Whether a task that ``asyncio`` started runs here."""
        around = None if parent is None else parent.body
        self.body: str | None = prefix if around is None and is_body else around
        """The scope of the outermost body that runs here, or that started the task that does; None in other code."""
        self.runs_again = runs_again
        """Whether the body of a call in doubt runs here that has to make its recorded calls again."""
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
        self.waits: list[Scope] = []
        """The scopes that tasks started here claimed inside ``asyncio.wait_for``, before a call of their own."""
        self.explicit_branches: list[Scope] = []
        """The scopes of the explicit branches that were started here, while one of their groups is open."""
        self.closed = False

    def __enter__(self) -> Self:
        """Put the code that runs from here on, and the tasks it starts, into this scope."""
        self.token = CURRENT.set(self)
        if self.runs_again:
            self.tracker.bodies_again.add(str(self.prefix))
        return self

    def __exit__(self, *exc: object) -> None:
        """End the scope: a task that still runs in it may make no more calls."""
        self.closed = True
        CURRENT.reset(self.token)
        self.tracker.bodies_again.discard(self.prefix)

    def next_branches(self) -> str:
        """Return what the scopes of the next group of explicit branches begin with: the number of each follows."""
        self.groups += 1
        return f"{self.prefix}{BRANCH}{self.groups}."

    @property
    def is_awaited_no_more(self) -> bool:
        """Whether this is the scope of a coroutine that has ended, in a task that goes on with other code."""
        return self.awaited is not None and getattr(self.awaited, "cr_frame", None) is None

    @property
    def is_over(self) -> bool:
        """Whether the turn or the body it belongs to has ended."""
        scope: Scope | None = self
        while scope is not None:
            if scope.closed:
                return True
            scope = scope.parent
        return False


class CallPlace(NamedTuple):
    """The place of a call in the program's order, and its record in the history."""

    key: str
    position: int
    record: Call | None
    scope: Scope


CURRENT: ContextVar[Scope | None] = ContextVar("seekpoint_scope", default=None)
"""The scope of the code that runs. One variable serves all trackers; ``Scope.tracker`` tells them apart."""


def parent_scope(key: str) -> str:
    """Return the scope of a key: the text up to its last slash."""
    head, slash, _ = key.rpartition("/")
    return head + slash


def is_explicit(key: str) -> bool:
    """Whether the code of an explicit branch made the call ``key``, or the body of a call around it."""
    return BRANCH in key and re.search(_EXPLICIT, key) is not None


def root_scope(key: str) -> str:
    """Return the scope whose code started the explicit branches that ``key`` stands in; else the scope of ``key``."""
    scope = parent_scope(key)
    return re.sub(_EXPLICIT_AT_END, "", scope) if BRANCH in scope else scope


def escaped_name(name: str) -> str:
    """Return ``name`` as part of a key. A slash separates scopes, so it becomes ``%2F``. Raise ``InvalidName``."""
    if type(name) is not str or not 1 <= len(name) <= _CHARACTERS_MAX:
        raise InvalidName(
            "the name of a call is a text of 1 to 400 characters, and comes first", name=repr(name)[:80],
            hint='for example: process.step("look up", look_up, order)',
        )  # fmt: skip
    return _escaped(name)


@lru_cache(maxsize=4096)
def _escaped(name: str) -> str:
    if name != name.encode("utf-8", "ignore").decode():
        raise UnserializableValue(
            "a text with a lone surrogate cannot be journaled", path="$.name", hint="leave out what is no character",
            found=ascii(name[:60]),
        )  # fmt: skip
    return name.replace("%", "%25").replace("/", "%2F")


def escaped_key(key: str) -> str:
    """Return a user's key as part of a whole one, unlike a turn, a branch or a write. Raise ``InvalidName``."""
    text = escaped_name(key)
    if text[0] in BRANCH + WRITE or (text.isascii() and text.isdigit()):
        return f"%{ord(text[0]):02X}{text[1:]}"
    return text
