"""Business keys: what an effect is about (an order, an invoice), so that no two effects do the same thing.

A key is unique per connector across the journal. Who has it is written in a shared value of its own; of two that ask at
once the first in the log has it. It is given back only when the effect is known not to have happened; by its owner, or,
where that died before it could, by the next one that asks, who reads in the holder's journal that it let go.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from hashlib import blake2b
from typing import Any, NamedTuple, Protocol

from seekpoint.schemas.errors import InvalidName
from seekpoint.schemas.values.process_ids import named_process_key

__all__ = ["BusinessKeys", "KeyHolder", "SharedValues", "shared_name"]

_NAME_BYTES_MAX = 160


class KeyHolder(NamedTuple):
    """The effect that has a business key."""

    process_id: str
    key: str
    idempotency_key: str


class SharedValues(Protocol):
    """The shared values of a journal, as far as holding something needs them."""

    async def read(self, name: str) -> tuple[int, Any]:
        """Version (0: never set) and value."""

    async def write(self, name: str, value: Any, expected_version: int) -> None:
        """Set it if its version is the expected one; who reads next sees whether it was."""


class BusinessKeys:
    """Takes and gives back business keys. ``has_let_go`` says of a holder whether its effect is known not to happen."""

    def __init__(self, values: SharedValues, has_let_go: Callable[[KeyHolder], Awaitable[bool]]) -> None:
        self._values = values
        self._has_let_go = has_let_go

    async def take(self, connector: str, business_key: str, here: KeyHolder) -> KeyHolder | None:
        """Take the key for ``here``. None if it has it now, or had it before; else who has it."""
        name = shared_name("effect-key", connector, business_key)
        while True:  # again where another one took it first and gave it back since
            version, holder = await self._read(name)
            if holder == here:
                return None
            if holder is not None and not await self._has_let_go(holder):
                return holder
            await self._values.write(name, here._asdict(), version)

    async def free(self, connector: str, business_key: str, here: KeyHolder) -> None:
        """Give the key back, if ``here`` has it."""
        name = shared_name("effect-key", connector, business_key)
        version, holder = await self._read(name)
        if holder == here:
            await self._values.write(name, None, version)

    async def _read(self, name: str) -> tuple[int, KeyHolder | None]:
        version, value = await self._values.read(name)
        if not isinstance(value, dict):
            return version, None
        return version, KeyHolder(*(str(value.get(field, "")) for field in KeyHolder._fields))


def shared_name(kind: str, *parts: str) -> str:
    """The name of a shared value that stands for ``parts``: readable while it is short and plain, else a digest.

    >>> shared_name("effect-key", "payments", "order-4711")
    'effect-key/payments/order-4711'
    >>> shared_name("effect-key", "payments", "x" * 300)
    'effect-key/~63a9c089f290837fc2472f6d1524dfcc'
    >>> shared_name("effect-key", "payments", "u\\u0308")[:12]
    'effect-key/~'
    """
    plain = all(part.isprintable() and "/" not in part and not part.startswith("~") for part in parts)
    name = "/".join((kind, *parts))
    if plain and len(name.encode("utf-8", "replace")) <= _NAME_BYTES_MAX and _can_be_named(name):
        return name
    text = "\0".join(parts).encode("utf-8", "surrogatepass")
    return f"{kind}/~{blake2b(text, digest_size=16).hexdigest()}"


def _can_be_named(name: str) -> bool:
    """Whether it may stand in an id as it is: a key of the outside world is any text, and exact."""
    try:
        named_process_key(name)
    except InvalidName:
        return False
    return True
