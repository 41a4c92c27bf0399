"""Sessions inside of a durable run: what was read is recorded, and what was written is not written again."""

from __future__ import annotations

from typing import Any

from agents.items import TResponseInputItem
from agents.memory import Session, SessionABC

from seekpoint.adapters.openai_agents.journal_session import SeekpointSession
from seekpoint.adapters.run_calls import RunCalls
from seekpoint.errors import Refused


class DurableSession(SessionABC):
    """A session whose calls are steps.

    Items are added to a ``SeekpointSession`` once, also if the machine dies in between. To another session they may be
    added twice then.
    """

    def __init__(self, calls: RunCalls, inner: Session) -> None:
        if callable(getattr(inner, "run_compaction", None)):
            raise Refused(
                "a durable run cannot compact a session yet", kind=type(inner).__name__,
                hint="pass the session itself, and compact it outside of the run",
            )  # fmt: skip
        self._calls = calls
        self._inner = inner
        self.session_id = inner.session_id
        self.session_settings = inner.session_settings

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """Return the items as of when this was first called."""
        items: list[TResponseInputItem] = await self._calls.step("session items", self._inner.get_items, limit)
        return items

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Add items."""
        inner = self._inner

        async def add(items: list[TResponseInputItem], *, idempotency_key: str) -> None:
            if isinstance(inner, SeekpointSession):
                await inner.add_items_once(items, idempotency_key)
            else:
                await inner.add_items(items)

        await self._calls.step("session add", add, items)

    async def pop_item(self) -> TResponseInputItem | None:
        """Remove the newest item."""
        item: Any = await self._calls.step("session pop", self._inner.pop_item)
        return item  # type: ignore[no-any-return]

    async def clear_session(self) -> None:
        """Remove all items."""
        await self._calls.step("session clear", self._inner.clear_session)
