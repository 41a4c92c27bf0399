"""The report of many reruns: what it has, and that hostile content is text in it."""

from __future__ import annotations

import pytest

from seekpoint.console.render.rerun_report import report_page
from seekpoint.console.services.histories.rerun_selection import ManyReruns
from seekpoint.producers import Agent, Node, Process, ScoredRerun, agent
from seekpoint.schemas import MemoryLog

HOSTILE = "<script>alert(1)</script>\x1b[31m&\u202e"


@pytest.fixture
def hostile() -> Agent:
    @agent("shop")
    async def shop(process: Process, given: str) -> str:
        answer: str = await process.decide("choose", lambda asked: asked["model"], {"model": given})
        if answer == "bad":
            raise ValueError(HOSTILE)
        return answer

    return shop


async def test_hostile_content_is_text(hostile: Agent) -> None:
    """Ids, answers, errors and reasons are shown as text; there is no script, and nothing is loaded."""
    async with Node.in_memory(MemoryLog(partitions=1)) as node:
        await node.run(hostile, "p", HOSTILE)
        found = [one async for one in node.rerun_many(hostile, ["p"], model="bad", score=lambda _: 0.5)]
    found.append(ScoredRerun(process_id="q<b>", skipped=HOSTILE))
    many = ManyReruns(
        agent=hostile, since_us=None, sample=None, seed="", score=None, prices=None, how={"model": HOSTILE}
    )
    page = report_page(many.summary(found), found)
    assert "&lt;script&gt;alert(1)" in page
    assert not [one for one in ("<script", "<b>", "\x1b", "\u202e", "http", "src=") if one in page]
    assert many.summary(found) == {
        "agent": "shop", "model": HOSTILE, "reruns": 1, "finished": 0, "same_outcome": 0, "skipped": 1,
        "cost_usd": None, "first_cost_usd": None, "mean_score": 0.5,
    }  # fmt: skip
    for shown in ("p~bad", "ValueError", "skipped", "another outcome", "decision choose:1"):
        assert shown in page
