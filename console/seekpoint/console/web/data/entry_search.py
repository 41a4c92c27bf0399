"""Find entries of a process by kind, epoch and text, a page at a time."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson

from seekpoint.console.render.entry_lines import entry_facts

if TYPE_CHECKING:
    from seekpoint.console.web.data.entry_index import EntryMark
    from seekpoint.console.web.data.histories import ProcessHistory

SEARCHED_MAX = 20_000
"""So many entries are read for one page. If fewer match, the page says where the search goes on."""
_CHUNK = 250


@dataclass(frozen=True, slots=True, kw_only=True)
class EntrySearch:
    """Conditions of entries: one of the kinds and of the epochs, all of the texts, and none of the negated ones."""

    kinds: frozenset[str] = frozenset()
    not_kinds: frozenset[str] = frozenset()
    epochs: frozenset[int] = frozenset()
    not_epochs: frozenset[int] = frozenset()
    texts: tuple[str, ...] = ()
    not_texts: tuple[str, ...] = ()

    @property
    def reads_content(self) -> bool:
        """Return whether entries have to be read before it is known which of them match."""
        return bool(self.texts or self.not_texts)

    def takes_mark(self, mark: EntryMark) -> bool:
        """Return whether kind and epoch fit."""
        names = (mark.kind, mark.custom_kind)
        return (
            (not self.kinds or not self.kinds.isdisjoint(names))
            and self.not_kinds.isdisjoint(names)
            and (not self.epochs or mark.epoch in self.epochs)
            and mark.epoch not in self.not_epochs
        )

    def takes_content(self, facts: dict[str, Any]) -> bool:
        """Return whether the texts fit: they are in the body, without its times, the actor, or are a whole id."""
        if not self.reads_content:
            return True
        body = [value for name, value in facts["body"].items() if not name.endswith("_us")]
        told = orjson.dumps([*body, facts["actor"], facts["correlation_id"]]).decode().casefold()
        ids = (facts["id"], facts["caused_by"])
        return all(text in ids or _is_in(text, told) for text in self.texts) and not any(
            text in ids or _is_in(text, told) for text in self.not_texts
        )


def _is_in(text: str, told: str) -> bool:
    """Return whether JSON has the text: in a value, or as JSON that a person saw and copied."""
    return text.casefold() in told or orjson.dumps(text)[1:-1].decode().casefold() in told


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryPage:
    """A page of what was found."""

    entries: list[dict[str, Any]]
    """As lines of ``seekpoint log --json``."""
    next: int | None
    """The offset from which the page behind this one begins; None: there is none."""
    previous: int | None
    """The offset before which the page before this one ends; None: there is none."""
    searched: int
    """How many entries were read."""
    is_cut: bool
    """Whether the search ended at ``SEARCHED_MAX``, not at the limit or at the end of the history."""


def entries_after(history: ProcessHistory, wanted: EntrySearch, offset: int, limit: int) -> EntryPage:
    """Return the first entries that match, at ``offset`` and behind it. Blocks."""
    marks = history.index.marks
    at = _place(marks, offset)
    candidates = [mark for mark in marks[at:] if wanted.takes_mark(mark)]
    found, searched, following = _collect(history, wanted, _chunks(candidates, wanted, limit), limit)
    has_earlier = any(wanted.takes_mark(mark) for mark in reversed(marks[:at]))
    return EntryPage(
        entries=found, searched=searched, is_cut=following is not None and len(found) < limit, next=following,
        previous=offset if has_earlier else None,
    )  # fmt: skip


def entries_before(history: ProcessHistory, wanted: EntrySearch, offset: int, limit: int) -> EntryPage:
    """Return the last entries that match before ``offset``, in log order. Blocks."""
    marks = history.index.marks
    at = _place(marks, offset)
    candidates = [mark for mark in marks[:at] if wanted.takes_mark(mark)]
    candidates.reverse()
    found, searched, following = _collect(history, wanted, _chunks(candidates, wanted, limit), limit)
    found.reverse()
    has_later = any(wanted.takes_mark(mark) for mark in marks[at:])
    return EntryPage(
        entries=found, searched=searched, is_cut=following is not None and len(found) < limit,
        next=offset if has_later else None, previous=None if following is None else following + 1,
    )  # fmt: skip


def offset_of_seq(marks: Sequence[EntryMark], seq: int) -> int:
    """Return the offset of the first owner's entry with at least ``seq``; behind the last entry if there is none."""
    end = marks[-1].offset + 1 if marks else 0
    return next((one.offset for one in marks if one.seq is not None and one.seq >= seq), end)


def _place(marks: Sequence[EntryMark], offset: int) -> int:
    return bisect_left(marks, offset, key=lambda mark: mark.offset)


def _chunks(candidates: Sequence[EntryMark], wanted: EntrySearch, limit: int) -> Iterator[Sequence[EntryMark]]:
    """Yield what is read at once: without a text, hardly more than the page shows."""
    size = _CHUNK if wanted.reads_content else min(_CHUNK, limit + 1)
    return (candidates[at : at + size] for at in range(0, len(candidates), size))


def _collect(
    history: ProcessHistory, wanted: EntrySearch, chunks: Iterable[Sequence[EntryMark]], limit: int
) -> tuple[list[dict[str, Any]], int, int | None]:
    """Return matching entries in the order of the marks, how many were read, and the offset of the first left out."""
    found: list[dict[str, Any]] = []
    searched = 0
    for marks in chunks:
        if searched >= SEARCHED_MAX:
            return found, searched, marks[0].offset
        read = {one.offset: one for one in history.entries(sorted(mark.offset for mark in marks))}
        for mark in marks:
            logged = read.get(mark.offset)
            if logged is None:  # deleted meanwhile
                continue
            if len(found) == limit and not wanted.reads_content:
                return found, searched, mark.offset
            searched += 1
            facts = entry_facts(logged, history.index.partition, mark.verdict)
            if not wanted.takes_content(facts):
                continue
            if len(found) == limit:
                return found, searched, mark.offset
            found.append(facts)
    return found, searched, None
