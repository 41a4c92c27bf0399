"""A moment of a process as the text of a pytest module: a journal in memory with its entries up to then. Pure."""

from __future__ import annotations

import base64
import json
import re
import textwrap
import zlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from seekpoint.schemas.config.limits import DEFAULT_LIMITS
from seekpoint.schemas.wire.encoding import encode

if TYPE_CHECKING:
    from seekpoint.consumers.recovery.process_history import Logged
    from seekpoint.schemas.config.limits import Limits
    from seekpoint.schemas.state.process_state import State

_TEMPLATE = '''\
"""A process right after its seq {seq}: {entries} of its journal. Copied from the console of Seekpoint {version}."""

import asyncio
import base64
import json
import zlib

import pytest

from seekpoint import {names}

PROCESS_ID = {process_id}
ENTRIES = """
{packed}
"""


@pytest.fixture
def {name}() -> MemoryLog:
    """A journal in memory in which the process stands right after its seq {seq}."""
    log = MemoryLog({arguments})
    for timestamp_ms, entry in json.loads(zlib.decompress(base64.b64decode(ENTRIES))):
        log.append(0, PROCESS_ID.encode(), base64.b64decode(entry), timestamp_ms)
    return log


def test_{name}({name}: MemoryLog) -> None:
    state = asyncio.run(Recovery.in_memory({name}).recover(PROCESS_ID)).state
    assert (state.seq, str(state.lifecycle)) == ({seq}, {lifecycle})
    assert state.content_hash == "{content_hash}"


# Check code against what was recorded, without executing it: from seekpoint.testing import assert_replays, history_of
#     await assert_replays(my_agent, history_of({name}, PROCESS_ID))
# Let code go on from here: from seekpoint import Node
#     async with Node.in_memory({name}) as node:
#         await node.run(my_agent, PROCESS_ID, take_over=True)
'''


def fixture_text(process_id: str, entries: Sequence[Logged], state: State, limits: Limits, version: str) -> str:
    """Return a module with a fixture and a test that passes. ``state`` is that after the last entry.

    Texts of agents are in it only packed, so none of them is code or a comment.
    """
    rows = [[one.timestamp_ms, base64.b64encode(encode(one.entry)).decode()] for one in entries]
    packed = base64.b64encode(zlib.compress(json.dumps(rows).encode(), 9)).decode()
    is_default = limits == DEFAULT_LIMITS
    return _TEMPLATE.format(
        seq=state.seq, entries="1 entry" if len(rows) == 1 else f"{len(rows):,} entries", version=version,
        names="MemoryLog, Recovery" if is_default else "Limits, MemoryLog, Recovery", process_id=ascii(process_id),
        packed="\n".join(textwrap.wrap(packed, 100)), name=_name(process_id),
        arguments="partitions=1" if is_default else f"partitions=1, limits={limits!r}",
        lifecycle=ascii(str(state.lifecycle)), content_hash=state.content_hash,
    )  # fmt: skip


def _name(process_id: str) -> str:
    """Return a name for the fixture.

    >>> _name("Case-17/ä"), _name("17")
    ('case_17', 'process_17')
    """
    name = re.sub(r"[^a-z0-9]+", "_", process_id.lower()).strip("_")[:60]
    return name if name[:1].isalpha() else f"process_{name}".rstrip("_")
