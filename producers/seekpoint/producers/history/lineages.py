"""Find where a process comes from and what comes from it: forks, reruns and spawned children, in both directions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from seekpoint.schemas.errors import UnknownProcess
from seekpoint.schemas.frozen_struct import FrozenStruct

if TYPE_CHECKING:
    from seekpoint.consumers.recovery.recoverer import Recoverer
    from seekpoint.consumers.view.process_summary import Summary


class Parent(FrozenStruct, frozen=True, kw_only=True):
    """A process from which the asked one comes, directly or through others."""

    process_id: str
    relation: str
    """How the next process of the line came from it: ``fork``, ``rerun`` or ``child``."""
    seq: int | None
    """The seq at which the next process left it; None for a child."""
    status: str | None
    """Its lifecycle, ``finished`` or ``degraded``; None: the journal does not have it."""


class Descendant(FrozenStruct, frozen=True, kw_only=True):
    """A process that comes from the asked one, directly or through others."""

    process_id: str
    relation: str
    """How it came from the process ``of``: ``fork``, ``rerun`` or ``child``."""
    of: str
    seq: int | None
    """The seq at which it left the process ``of``; None for a child."""
    depth: int
    """1 for a fork, a rerun or a child of the asked process itself."""
    status: str
    """Its lifecycle, ``finished`` or ``degraded``."""


class ProcessLineage(FrozenStruct, frozen=True, kw_only=True):
    """The parents of a process, and its forks, reruns and children."""

    process_id: str
    status: str
    """Its lifecycle, ``finished`` or ``degraded``."""
    parents: tuple[Parent, ...]
    """The farthest first."""
    descendants: tuple[Descendant, ...]
    """In the order of a tree: each behind the process it came from, by id."""


class _Kin(FrozenStruct, frozen=True):
    """The part of a process's state that a lineage needs."""

    status: str
    origin: str | None
    relation: str
    seq: int | None


def find_lineage(recoverer: Recoverer, process_id: str, on_no_view: Callable[[str], object]) -> ProcessLineage:
    """Return the lineage of a process as of now. Blocks.

    The summaries of all processes are read: from the view, and without a usable one from checkpoints and the log;
    then ``on_no_view`` receives the reason. Raises ``UnknownProcess``, and what a recovery raises.
    """
    from seekpoint.consumers.recovery.view_summaries import summaries

    known: dict[str, _Kin] = {}
    for partition in range(recoverer.log.partitions):
        known.update((one.process_id, _kin(one)) for one in summaries(recoverer, partition, on_no_view))
    return _lineage(process_id, known)


def lineage_of(process_id: str, summaries: Iterable[Summary]) -> ProcessLineage:
    """Return the lineage of a process among ``summaries``. Pure. Raises ``UnknownProcess``."""
    return _lineage(process_id, {one.process_id: _kin(one) for one in summaries})


def _lineage(process_id: str, known: Mapping[str, _Kin]) -> ProcessLineage:
    if process_id not in known:
        raise UnknownProcess("no such process", process_id=process_id)
    return ProcessLineage(
        process_id=process_id, status=known[process_id].status, parents=(*_parents(process_id, known),),
        descendants=(*_descendants(process_id, known),),
    )  # fmt: skip


def _kin(one: Summary) -> _Kin:
    if one.rerun_of is not None:
        return _Kin(one.status, one.rerun_of, "rerun", one.parent_seq)
    if one.parent_id is not None:
        return _Kin(one.status, one.parent_id, "fork", one.parent_seq)
    return _Kin(one.status, one.spawned_by, "child", None)


def _parents(process_id: str, known: Mapping[str, _Kin]) -> list[Parent]:
    found: list[Parent] = []
    at, seen = known.get(process_id), {process_id}
    while at is not None and at.origin is not None and at.origin not in seen:
        seen.add(at.origin)
        above = known.get(at.origin)
        status = None if above is None else above.status
        found.insert(0, Parent(process_id=at.origin, relation=at.relation, seq=at.seq, status=status))
        at = above
    return found


def _descendants(process_id: str, known: Mapping[str, _Kin]) -> Iterator[Descendant]:
    """Yield them without recursion: a line of forks may be long."""
    below: dict[str, list[str]] = {}
    for name, one in known.items():
        if one.origin is not None:
            below.setdefault(one.origin, []).append(name)
    seen, stack = {process_id}, [(name, 1) for name in sorted(below.get(process_id, ()), reverse=True)]
    while stack:
        name, depth = stack.pop()
        if name in seen:
            continue
        seen.add(name)
        one = known[name]
        assert one.origin is not None
        yield Descendant(
            process_id=name, relation=one.relation, of=one.origin, seq=one.seq, depth=depth, status=one.status
        )
        stack += [(next_name, depth + 1) for next_name in sorted(below.get(name, ()), reverse=True)]
