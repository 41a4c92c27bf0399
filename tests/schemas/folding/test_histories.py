"""The random histories that readers are tested with cover all bodies and all verdicts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import count
from random import Random

import pytest

from histories import ACTIONS, PROCESS_IDS, Append, Step, write_history
from seekpoint.schemas import bodies as b
from seekpoint.schemas.folding.fold import Verdict, advance
from seekpoint.schemas.state.process_state import Draft

_RUNS, _STEPS = 250, 60


def verdicts() -> Counter[tuple[str, Verdict]]:
    """How often entries of each kind were what, over many histories."""
    random, counted = Random(5), Counter[tuple[str, Verdict]]()
    for _ in range(_RUNS):
        steps = [Step(random.choice(PROCESS_IDS), random.choice(ACTIONS), random.randrange(31)) for _ in range(_STEPS)]
        drafts = {process_id: Draft() for process_id in PROCESS_IDS}
        for one in write_history(steps, _append_to(count()), 1):
            if one.entry is not None:
                verdict = advance(drafts[one.entry.process_id], one.offset, one.entry)
                counted[one.entry.body.KIND, verdict] += 1
    return counted


def _append_to(places: Iterator[int]) -> Append:
    return lambda partition, key, value: next(places)


SEEN = verdicts()


@pytest.mark.parametrize("kind", [body.KIND for body in b.BODIES])
def test_every_body_occurs_and_is_applied(kind: str) -> None:
    """Otherwise readers would not be tested with it."""
    assert sum(SEEN[kind, verdict] for verdict in (Verdict.APPLIED, Verdict.DELIVERED, Verdict.CLAIM_WON)) >= 10


@pytest.mark.parametrize("verdict", [one for one in Verdict if one is not Verdict.SKIPPED])
def test_every_verdict_occurs(verdict: Verdict) -> None:
    """Refused, stale, forged and abandoned entries occur too."""
    assert any(seen is verdict for _, seen in SEEN)
