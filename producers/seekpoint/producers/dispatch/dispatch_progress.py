"""How far dispatchers have come: where the next one begins to look for intents. Shared values of the journal."""

from __future__ import annotations

from collections.abc import Iterable

from seekpoint.producers.durable.effects.business_keys import SharedValues, shared_name

__all__ = ["DispatchProgress"]


class DispatchProgress:
    """What the dispatchers of one ``name`` have done, by connector and partition.

    By connector: one that this version knows and the former did not is looked for from the journal's beginning, since
    nobody who passed its intents by has called them.
    """

    def __init__(self, values: SharedValues, name: str, connectors: Iterable[str]) -> None:
        self._values = values
        self._name = name
        self._connectors = tuple(connectors)
        self._saved: dict[tuple[str, int], int] = {}

    async def start(self, partition: int) -> int:
        """The offset to read on from: where the connector that is furthest behind has come. Later looks ask again."""
        for connector in self._connectors:
            _, value = await self._values.read(self._value_name(connector, partition))
            self._saved[connector, partition] = value if isinstance(value, int) else 0
        return min((self._saved[connector, partition] for connector in self._connectors), default=0)

    def has_passed(self, connector: str, partition: int, offset: int) -> bool:
        """Whether an intent of ``connector`` at ``offset`` is over, by what was saved."""
        return offset < self._saved.get((connector, partition), 0)

    async def save(self, connector: str, partition: int, offset: int, *, offsets_min: int = 1) -> None:
        """Keep that everything of ``connector`` below ``offset`` is over, if that is ``offsets_min`` more than before.

        What is kept is an entry itself, and so moves the end of some partition: an idle journal must not grow by it.
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
        """What was saved for ``partition``, by connector."""
        return {connector: offset for (connector, at), offset in self._saved.items() if at == partition}

    def _value_name(self, connector: str, partition: int) -> str:
        return shared_name("effect-dispatcher", self._name, connector, str(partition))
