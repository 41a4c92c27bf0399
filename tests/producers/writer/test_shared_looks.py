"""Senders to one process share the look whether its mailbox took what they sent. No log is needed."""

from __future__ import annotations

import asyncio
from typing import Any
from unittest.mock import Mock

import pytest

from seekpoint.producers.writer.externals import Externals
from seekpoint.schemas.errors import JournalUnavailable
from seekpoint.schemas.state.process_state import Draft, State

SENDERS = 50


class Looking:
    """Recoveries that take a moment, and find ``found``: the offset of the state, or an error."""

    def __init__(self, *found: int | Exception) -> None:
        self.found = list(found)
        self.count = 0

    async def recover(self) -> Any:
        self.count += 1
        await asyncio.sleep(0.01)
        found = self.found.pop(0) if len(self.found) > 1 else self.found[0]
        if isinstance(found, Exception):
            raise found
        return Mock(state=at(found))


def at(offset: int) -> State:
    draft = Draft()
    draft.offset = offset
    return draft.freeze()


async def looked(looking: Looking) -> list[State | BaseException]:
    externals = Externals(Mock(), Mock(), Mock(), None)
    found = await asyncio.gather(
        *(externals.state_after("p", offset, looking.recover) for offset in range(SENDERS)), return_exceptions=True
    )
    assert externals._looks == {}
    return found


async def test_one_recovery_serves_all_whose_entries_it_has_seen() -> None:
    looking = Looking(SENDERS)
    assert [one.offset for one in await looked(looking)] == [SENDERS] * SENDERS  # type: ignore[union-attr]
    assert looking.count == 1


@pytest.mark.parametrize("found", [JournalUnavailable("no broker answers"), -1])
async def test_what_cannot_be_read_is_not_tried_once_for_each(found: int | Exception) -> None:
    """In an outage, or behind an open transaction, each try takes long, and they would come one after the other."""
    looking = Looking(found)
    states = await looked(looking)
    assert looking.count <= 2
    assert {one if isinstance(one, Exception) else one.offset for one in states} == {found}  # type: ignore[union-attr]


async def test_a_cancelled_sender_takes_no_answer_from_the_others() -> None:
    looking, externals = Looking(SENDERS), Externals(Mock(), Mock(), Mock(), None)
    senders = [asyncio.create_task(externals.state_after("p", 1, looking.recover)) for _ in range(3)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert looking.count == 1
    senders[0].cancel()
    found = await asyncio.gather(*senders[1:])
    assert [one.offset for one in found] == [SENDERS] * 2
    assert externals._looks == {}
