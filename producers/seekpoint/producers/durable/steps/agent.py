"""An agent: a function of the user with a name, a version, and a digest that changes when its code does."""

from __future__ import annotations

import inspect
import io
import sys
import tokenize
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from textwrap import dedent
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeAlias, overload

from seekpoint.producers.durable.steps.call_options import retry_of
from seekpoint.producers.durable.steps.retries import Retry
from seekpoint.schemas.errors import InvalidName, InvalidSetting, Refused

if TYPE_CHECKING:
    from collections.abc import Mapping

    from seekpoint.producers.durable.steps.annotations import AgentTypes
    from seekpoint.producers.durable.steps.cron_schedules import Schedule
    from seekpoint.producers.durable.steps.rates import Rate

__all__ = ["Agent", "Input", "InputT", "Output", "OutputT", "agent", "check_is_agent"]

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    InputT = TypeVar("InputT", contravariant=True, default=Any)
    OutputT = TypeVar("OutputT", covariant=True, default=Any)
else:
    from typing import TypeVar

    InputT = TypeVar("InputT", contravariant=True)
    OutputT = TypeVar("OutputT", covariant=True)
Input = TypeVar("Input")
Output = TypeVar("Output")

Run: TypeAlias = Callable[[Any, Any], Any]
"""Takes the process and the input: a ``Process`` if it is async, a ``SyncProcess`` if it is a plain function."""

_LAYOUT = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING}
_NAME_CHARACTERS_MAX = 200
_NOT_GIVEN: Any = object()
_NAMED = {inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD}


@dataclass(frozen=True)
class Agent(Generic[InputT, OutputT]):
    """A function ``run(process, input)``, async or plain, with a name and a version. Made by ``@agent``.

    ``Agent[Order, Receipt]`` takes an ``Order`` and returns a ``Receipt``, as the annotations of its function say.
    """

    name: str
    version: str
    run: Callable[[Any, InputT], Awaitable[OutputT] | OutputT]
    pinned: bool = False
    """A process that began under another definition is not resumed (``ReplayDivergence``, kind ``definition``)."""
    retry_steps: Retry | None = None
    """How its steps and decisions without ``retry`` are tried again; None: three attempts for transient errors."""
    retry: Retry | None = None
    """How a worker tries a failed run again; None: it stays failed."""
    rate: Rate | None = None
    """How many of its runs each worker begins in a span of time; None: as many as it has room for."""
    schedule: Schedule | None = None
    """When workers submit runs of it by themselves; None: never."""
    owner_deaths_max: int | None = None
    """After how many deaths of owners without progress a run is parked; None: as the setting says."""

    def __call__(self, process: Any, input: InputT = _NOT_GIVEN) -> Any:  # the word users know
        """Call the function itself: in a test, or from another agent of the same kind (async or plain)."""
        return self.run(process, self.default_input if input is _NOT_GIVEN else input)

    @property
    def is_plain(self) -> bool:
        """Whether its function is not async: it runs in a thread. A callable object is awaited, whatever it does."""
        return inspect.isroutine(self.run) and not inspect.iscoroutinefunction(self.run)

    @cached_property
    def definition(self) -> str:
        """BLAKE2b-128 of the function's source without comments and layout; of its name where there is no source."""
        return blake2b(_source_of(self.run).encode("utf-8", "replace"), digest_size=16).hexdigest()

    @cached_property
    def types(self) -> AgentTypes:
        """Return what the annotations of its function say of its input and its output."""
        return _types_of(self.run)

    @property
    def needs_input(self) -> bool:
        """Whether its function's second parameter has no default, and a name that does not begin with ``_``."""
        asked = self._input_parameter
        return asked is not None and asked.default is asked.empty and not asked.name.startswith("_")

    @property
    def default_input(self) -> Any:
        """The default of its function's second parameter; None if it has none."""
        asked = self._input_parameter
        return None if asked is None or asked.default is asked.empty else asked.default

    @property
    def _input_parameter(self) -> inspect.Parameter | None:
        """The second parameter of its function; None if it has no such one, or tells nothing of itself."""
        try:
            parameters = [*inspect.signature(self.run).parameters.values()]
        except (TypeError, ValueError):
            return None
        return next((one for one in parameters[1:2] if one.kind in _NAMED), None)


class _AgentDecorator(Protocol):
    @overload
    def __call__(self, run: Callable[[Any, Input], Awaitable[Output]], /) -> Agent[Input, Output]: ...
    @overload
    def __call__(self, run: Callable[[Any, Input], Output], /) -> Agent[Input, Output]: ...


def agent(
    name: str,
    version: str | int = "1",
    *,
    pinned: bool = False,
    retry_steps: Retry | None = None,
    retry: Retry | None = None,
    rate: Rate | None = None,
    schedule: str | None = None,
    timezone: str = "UTC",
    missed: str = "once",
    owner_deaths_max: int | None = None,
) -> _AgentDecorator:
    """Make an agent of ``async def run(process, input)``; a plain ``def`` runs in a thread, with a ``SyncProcess``.

    ``version`` is yours to count; claims record it, beside a digest of the code. ``pinned``: a process that began under
    another digest is not resumed. ``retry_steps``: the ``Retry`` of its steps and decisions that have none. ``retry``:
    the ``Retry`` of a failed run on a worker; its failed calls are made again, and what succeeded stays. ``rate``: how
    many runs each worker begins in a span of time. ``schedule``: a cron expression of five fields, by which workers
    submit runs as ``NAME@2026-11-23T07:00:00Z``, with that text as the input; ``timezone``: the IANA name of the time
    zone it is meant in; ``missed``: of the firings that nobody submitted within a minute, ``skip`` makes none, ``once``
    the newest, ``all`` each. ``owner_deaths_max``: after how many deaths of its owners without progress a run is parked
    (``OwnersDied``); None: after as many as the setting says.

    >>> @agent("greeter", version=2)
    ... async def greeter(process, input):
    ...     return await process.step("greet", "Hello, {}".format, input)
    >>> greeter.name, greeter.version, len(greeter.definition)
    ('greeter', '2', 32)
    """
    if type(name) is not str or not 1 <= len(name) <= _NAME_CHARACTERS_MAX or not name.isprintable():
        forgotten = f'put the name in front of the function: @agent("{getattr(name, "__name__", "name")}")'
        raise InvalidName(
            "an agent's name is a text of 1 to 200 printable characters", name=repr(name)[:80],
            hint=forgotten if callable(name) else "use 1 to 200 printable characters",
        )  # fmt: skip

    retry_of(retry_steps)
    retry_of(retry)
    if owner_deaths_max is not None and (type(owner_deaths_max) is not int or owner_deaths_max < 1):
        raise InvalidSetting("owner_deaths_max= is a number from 1 on, or None", found=repr(owner_deaths_max)[:80])
    made_schedule = None
    if rate is not None:
        from seekpoint.producers.durable.steps.rates import rate_of  # programs without rates start without

        rate_of(rate)
    if schedule is not None:
        from seekpoint.producers.durable.steps.cron_schedules import (
            schedule_of,  # programs without schedules start without
        )

        made_schedule = schedule_of(name, schedule, timezone, missed)

    def made(run: Run) -> Agent[Any, Any]:
        if not callable(run):
            raise InvalidName("an agent is made of a function", name=name, found=type(run).__name__)
        found = Agent[Any, Any](
            name, str(version), run, pinned, retry_steps, retry, rate, made_schedule, owner_deaths_max
        )
        if "<locals>" in getattr(run, "__qualname__", ""):  # only here are the names around it known
            vars(found)["types"] = _types_of(run, sys._getframe(1).f_locals)
        return found

    return made


def check_is_agent(given: object) -> None:
    """Raise ``Refused`` for what is no agent: a bare function, mostly."""
    if not isinstance(given, Agent):
        raise Refused(
            "only an agent can be run", found=repr(given)[:80], hint="put @agent(name, version) over its function"
        )


def _types_of(run: Run, names: Mapping[str, Any] | None = None) -> AgentTypes:
    from seekpoint.producers.durable.steps.annotations import agent_types  # a program that only submits starts without

    return agent_types(run, names)


def _source_of(run: Run) -> str:
    try:
        source = inspect.getsource(run)
        tokens = tokenize.generate_tokens(io.StringIO(dedent(source)).readline)
        return "\0".join(token.string for token in tokens if token.type not in _LAYOUT)
    except (OSError, TypeError, tokenize.TokenError, SyntaxError):  # made by exec, or in another language
        return f"{getattr(run, '__module__', '')}:{getattr(run, '__qualname__', type(run).__qualname__)}"
