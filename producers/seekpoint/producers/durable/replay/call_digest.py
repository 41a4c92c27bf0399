"""The digest of a call: a hash of its request, exact and by type, so that a replay can compare requests.

A ``Difference`` is what the replay has noticed.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from typing import Any, NamedTuple

from seekpoint.schemas.bodies import Json
from seekpoint.schemas.config.limits import DEFAULT_LIMITS, Limits
from seekpoint.schemas.errors import ReplayDivergence
from seekpoint.schemas.values.json_values import dump


def arguments_text(arguments: tuple[Any, ...], options: Mapping[str, Any], limits: Limits = DEFAULT_LIMITS) -> Json:
    """Return the canonical text of a call's arguments: a list, or an object with arguments and options.

    A model is the object of its members: a dict of these has the same text. Raises ``UnserializableValue`` or
    ``LimitExceeded``, with the path to the argument.

    >>> arguments_text((1, 1.0, True, "1"), {})
    '[1,1.0,true,"1"]'
    >>> arguments_text(("order-1",), {"limit": 3})
    '{"arguments":["order-1"],"options":{"limit":3}}'
    """
    if options:
        return dump({"arguments": list(arguments), "options": dict(options)}, limits, True)
    return dump(list(arguments), limits, True)


def text_digest(name: str, text: Json) -> str:
    """Return BLAKE2b-128 of a call's name and of the canonical text of its request: 32 hex characters."""
    try:
        asked = f"{name}\0{text}".encode()
    except UnicodeEncodeError:  # a name that no entry can carry: it is refused there
        asked = f"{name}\0{text}".encode("utf-8", "surrogatepass")
    return blake2b(asked, digest_size=16).hexdigest()


class Difference(NamedTuple):
    """The difference of a call from the history: the facts of ``ReplayDivergence`` and of a ``Diverged`` entry."""

    key: str
    position: int
    kind: str
    expected: str
    actual: str
    seq: int | None = None

    def error(self, process_id: str) -> ReplayDivergence:
        """Return the error that says so."""
        key, position, kind, expected, actual, seq = self
        return ReplayDivergence(
            _MESSAGES[kind], process_id=process_id, seq=seq, key=key, position=position, kind=kind, expected=expected,
            actual=actual,
        )  # fmt: skip


_MESSAGES = {
    "input": "the request of a call differs from its history",
    "prompt": "the request to a model differs from its history",
    "type": "the kind of a call differs from its history",
    "order": "another call stands here in the history",
    "length": "the code ended before it made every call of its history",
    "definition": "the agent's code is not the one this process began with",
}
