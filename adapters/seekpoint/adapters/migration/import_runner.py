"""Import what another system has stored, one thing after the other: what an import is told, and what it reports."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from seekpoint import Node
from seekpoint.errors import Refused, SeekpointError, UnknownAttachment

Status = Literal["planned", "imported", "there", "differs", "refused"]
_AT_ONCE = 8
_DIFFERENCES_KEPT = 20


def _ignore(count: int, /) -> None:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """The options of an import."""

    prefix: str
    """The first part of the processes' ids."""
    dry_run: bool = False
    compare: bool = True
    """Read everything back, and compare it with the source."""
    advance: Callable[[int], None] = _ignore
    """Called with the number of units that were read or compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Migrated:
    """The result of one import: of a thread, a run or a process."""

    id: str
    """Its id in the source."""
    process_id: str
    status: Status
    counts: Mapping[str, int] = field(default_factory=dict)
    """The number of items in the source."""
    new: Mapping[str, int] = field(default_factory=dict)
    """The number of items that were written, or would be."""
    differences: Sequence[str] = ()
    """The first differences between the source and the journal."""
    difference_count: int = 0
    has_gone_on: bool = False
    """Whether it has grown in the journal since an earlier import: only what the source has was compared."""
    error: SeekpointError | None = None

    @classmethod
    def of(
        cls, one_id: str, process_id: str, counts: Mapping[str, int], new: Mapping[str, int],
        differences: Sequence[str], *, has_gone_on: bool, is_planned: bool,
    ) -> Migrated:  # fmt: skip
        """Return the report of an import that came to its end."""
        status: Status = "differs" if differences else "planned" if is_planned else "imported"
        if status in ("planned", "imported") and not any(new.values()):
            status = "there"
        return cls(
            id=one_id, process_id=process_id, status=status, counts=counts, new=new, has_gone_on=has_gone_on,
            differences=differences[:_DIFFERENCES_KEPT], difference_count=len(differences),
        )  # fmt: skip


class ImportSource(Protocol):
    """The stored threads, runs or processes of another system."""

    unit: str
    """The name of the items, in the plural: ``checkpoints``."""
    default_prefix: str

    def ids(self) -> list[str]:
        """Return the ids of all things that can be imported."""

    def size(self, one_id: str) -> int:
        """Return how many units one of them has."""

    def process_id(self, one_id: str, prefix: str) -> str:
        """Return the id of its process."""

    async def migrate(self, node: Node | None, one_id: str, order: Order) -> Migrated:
        """Import one of them. Without a node nothing is known of the journal: a dry run for one that does not exist."""


def chosen_ids(source: ImportSource, wanted: Iterable[str] = (), prefix: str = "") -> list[str]:
    """Return the ids that were asked for, by default all. Raises ``Refused`` for one that the source does not have."""
    known = source.ids()
    asked = list(dict.fromkeys(wanted))
    if missing := sorted(set(asked) - set(known)):
        raise Refused(
            "the source has no such id", name=", ".join(missing)[:200],
            hint="a dry run lists the ids: seekpoint import --dry-run --from KIND SOURCE",
        )  # fmt: skip
    return [one for one in asked or known if one.startswith(prefix)]


async def migrate(
    node: Node | None, source: ImportSource, ids: Iterable[str], order: Order, *, at_once: int = _AT_ONCE
) -> AsyncIterator[Migrated]:
    """Import these ids of a source, some at once, and yield the report of each as it ends.

    An id that is refused ends with that status, and the others go on. Errors of the journal itself end the import:
    repeat it, and it goes on where it was.
    """
    waiting = iter(list(ids))
    running: set[asyncio.Task[Migrated]] = set()

    def start() -> None:
        for one_id in waiting:
            running.add(asyncio.create_task(_migrated(node, source, one_id, order)))
            if len(running) >= at_once:
                return

    try:
        start()
        while running:
            done, _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            running -= done
            for task in done:
                yield task.result()
            start()
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


async def _migrated(node: Node | None, source: ImportSource, one_id: str, order: Order) -> Migrated:
    try:
        return await source.migrate(node, one_id, order)
    except (Refused, UnknownAttachment) as exc:
        return Migrated(id=one_id, process_id=source.process_id(one_id, order.prefix), status="refused", error=exc)
