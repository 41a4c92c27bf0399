"""Journal the requests to models without the messages that they share with the request before.

A conversation of n messages calls the model n times, each time with all messages so far: whole requests would need
storage for n squared. An entry names the earlier decision and the number of messages that are the same. The messages
are those of the member ``messages`` (chat completions, Anthropic), ``input`` (OpenAI's responses) or ``contents``
(Google): the first of these that is a list.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from itertools import takewhile
from typing import Any

from seekpoint.schemas import bodies as b
from seekpoint.schemas.bodies import Json
from seekpoint.schemas.bodies.entry import Entry
from seekpoint.schemas.config.limits import DEFAULT_LIMITS, Limits
from seekpoint.schemas.frozen_struct import FrozenStruct
from seekpoint.schemas.values.json_values import dump, load

_MEMBERS = ("messages", "input", "contents")


class Shortened(FrozenStruct, frozen=True):
    """A request as it is journaled."""

    text: Json
    shared_with: str | None = None
    shared_messages: int = 0


class Prompts:
    """The messages of a run's newest decision, to shorten the next request."""

    def __init__(self) -> None:
        self._key: str | None = None
        self._member: str | None = None
        self._messages: list[Json] = []

    def shortened(self, key: str, request: Any, limits: Limits = DEFAULT_LIMITS) -> Shortened:
        """Return ``request`` without the first messages that it shares with the decision before."""
        member = _member_of(request)
        if member is None:
            return Shortened(dump(request, limits, True))
        messages = request[member]
        texts = [dump(message, limits, True) for message in messages]
        pairs = zip(texts, self._messages if member == self._member else (), strict=False)
        shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        before, self._key, self._member, self._messages = self._key, key, member, texts
        if not shared or before is None:
            return Shortened(dump(request, limits, True))
        return Shortened(dump({**request, member: messages[shared:]}, limits, True), before, shared)


def _member_of(request: Any) -> str | None:
    """Return the name of the member that has the messages of ``request``; None if there is none."""
    if not isinstance(request, Mapping):
        return None
    return next((name for name in _MEMBERS if isinstance(request.get(name), list)), None)


async def requests_in(entries: AsyncIterator[Entry]) -> dict[str, Any]:
    """Return the whole requests of decisions by key, from a process's ``DecisionStarted`` entries in log order."""
    whole: dict[str, Any] = {}
    async for entry in entries:
        if isinstance(entry.body, b.DecisionStarted):
            whole_request(entry.body, whole)
    return whole


def whole_request(body: b.DecisionStarted, whole: dict[str, Any], read: Callable[[Json], Any] = load) -> Any:
    """Return a decision's whole request, and add it to ``whole``, which has the earlier requests by key. ``read``
    decodes a JSON text."""
    request = read(body.request)
    if body.shared_with is not None:
        member = _member_of(request) or _MEMBERS[0]
        earlier = whole.get(body.shared_with, {}).get(member, [])
        request[member] = [*earlier[: body.shared_messages], *request[member]]
    whole[body.key] = request
    return request
