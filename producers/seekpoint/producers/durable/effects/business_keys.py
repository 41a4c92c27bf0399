"""Acquire business keys: the order or the invoice of an effect, so that no two effects do the same thing.

A key is unique per connector across the journal. A shared value names its holder; of two effects that acquire it at
once the first in the log gets it. The key is released only once the effect certainly has not happened: by its owner or,
if that died before, by the next effect that acquires the key and reads the holder's journal.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from hashlib import blake2b
from typing import Any, NamedTuple, Protocol

from seekpoint.schemas.errors import InvalidName
from seekpoint.schemas.values.process_ids import named_process_key

_NAME_BYTES_MAX = 160


class KeyHolder(NamedTuple):
    """The effect that holds a business key."""

    process_id: str
    key: str
    idempotency_key: str


class SharedValues(Protocol):
    """The shared values of a journal, as far as business keys need them."""

    async def read(self, name: str) -> tuple[int, Any]:
        """Return the version (0: never set) and the value."""

    async def write(self, name: str, value: Any, expected_version: int) -> None:
        """Set the value if its version is ``expected_version``; the next read shows whether it was."""


class BusinessKeys:
    """Acquires and releases business keys; ``is_released`` checks whether a holder still needs its key."""

    def __init__(self, values: SharedValues, is_released: Callable[[KeyHolder], Awaitable[bool]]) -> None:
        self._values = values
        self._is_released = is_released

    async def acquire(self, connector: str, business_key: str, owner: KeyHolder) -> KeyHolder | None:
        """Acquire the key for ``owner``. Return None if ``owner`` holds it now, else its holder."""
        name = shared_name("effect-key", connector, business_key)
        while True:  # again if another effect acquired it first and has released it since
            version, holder = await self._read(name)
            if holder == owner:
                return None
            if holder is not None and not await self._is_released(holder):
                return holder
            await self._values.write(name, owner._asdict(), version)

    async def release(self, connector: str, business_key: str, owner: KeyHolder) -> None:
        """Release the key if ``owner`` holds it."""
        name = shared_name("effect-key", connector, business_key)
        version, holder = await self._read(name)
        if holder == owner:
            await self._values.write(name, None, version)

    async def _read(self, name: str) -> tuple[int, KeyHolder | None]:
        version, value = await self._values.read(name)
        if not isinstance(value, dict):
            return version, None
        return version, KeyHolder(*(str(value.get(field, "")) for field in KeyHolder._fields))


def shared_name(kind: str, *parts: str) -> str:
    """Return the name of a shared value for ``parts``: readable if it is short and plain, else a digest.

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
    """Whether the name is valid in a process id: a business key may be any text."""
    try:
        named_process_key(name)
    except InvalidName:
        return False
    return True
