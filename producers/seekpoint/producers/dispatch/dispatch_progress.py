"""The saved progress of dispatchers: where the next one begins to look for intents. Kept in shared values."""

from __future__ import annotations

from collections.abc import Iterable

from seekpoint.producers.durable.effects.business_keys import SharedValues, shared_name


class DispatchProgress:
    """The progress of the dispatchers of one ``name``, by connector and partition.

    Each connector has its own progress: the intents of one that only a later version knows are looked for from the
    journal's beginning, since no earlier dispatcher has called them.
    """

    def __init__(self, values: SharedValues, name: str, connectors: Iterable[str]) -> None:
        self._values = values
        self._name = name
        self._connectors = tuple(connectors)
        self._saved: dict[tuple[str, int], int] = {}

    async def start(self, partition: int) -> int:
        """Return the offset to read on from: that of the connector that is furthest behind. Reads the saved values."""
        for connector in self._connectors:
            _, value = await self._values.read(self._value_name(connector, partition))
            self._saved[connector, partition] = value if isinstance(value, int) else 0
        return min((self._saved[connector, partition] for connector in self._connectors), default=0)

    def has_passed(self, connector: str, partition: int, offset: int) -> bool:
        """Return whether an intent of ``connector`` at ``offset`` is over by the saved progress."""
        return offset < self._saved.get((connector, partition), 0)

    async def save(self, connector: str, partition: int, offset: int, *, offsets_min: int = 1) -> None:
        """Save that every intent of ``connector`` below ``offset`` is over, if that is ``offsets_min`` more than saved.

        Saving appends an entry, which moves the end of a partition: an idle journal must not grow by that.
        """
        saved = self._saved.get((connector, partition))
        if saved is None or offset < saved + offsets_min:
            return
        name = self._value_name(connector, partition)
        version, value = await self._values.read(name)
        if not isinstance(value, int) or value < offset:
            await self._values.write(name, offset, version)
        self._saved[connector, partition] = offset

    def of(self, partition: int) -> dict[str, int]:
        """Return the saved offset in ``partition`` of each connector."""
        return {connector: offset for (connector, at), offset in self._saved.items() if at == partition}

    def _value_name(self, connector: str, partition: int) -> str:
        return shared_name("effect-dispatcher", self._name, connector, str(partition))
