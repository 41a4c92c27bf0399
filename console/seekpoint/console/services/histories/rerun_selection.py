"""Reruns of many processes: which ones, and what came out of them all."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from statistics import fmean
from typing import TYPE_CHECKING, Any

from seekpoint.console.render.progress import ReadingProgress
from seekpoint.console.services.arguments.process_query import ProcessQuery
from seekpoint.console.services.calls.send_and_confirm import with_node
from seekpoint.schemas.frozen_struct import FrozenStruct
from seekpoint.schemas.values.decimal_arithmetic import sum_of_texts

if TYPE_CHECKING:
    from seekpoint.console.services.arguments.target import CommandTarget
    from seekpoint.producers import Agent, Node, Prices, ScoredRerun


class ManyReruns(FrozenStruct, frozen=True, kw_only=True):
    """Runs many processes again: ``seekpoint rerun`` without a process."""

    agent: Agent
    since_us: int | None
    sample: int | None
    seed: str
    score: Callable[..., Any] | None
    prices: Prices | None
    how: Mapping[str, Any]
    """Options of ``Node.rerun_many``."""

    def sources(self, target: CommandTarget) -> list[str]:
        """Return the processes of the agent that have ended, or a sample of them; by id. Leave out forks and reruns."""
        from seekpoint.console.render.listing import listed

        query = ProcessQuery(agent=self.agent.name, since_us=self.since_us)
        found = (one.summary for one in listed(target, query))
        ended = [one.process_id for one in found if one.parent_id is None and one.status in ("finished", "failed")]
        return sorted(ended if self.sample is None else sampled(ended, self.sample, self.seed))

    def run(self, target: CommandTarget, process_ids: Sequence[str]) -> list[ScoredRerun]:
        """Run them again; return the comparisons by process."""

        async def run(node: Node) -> list[ScoredRerun]:
            node.prices = self.prices
            found = []
            with ReadingProgress("rerunning", len(process_ids), "runs") as progress:
                async for one in node.rerun_many(self.agent, process_ids, score=self.score, **self.how):
                    progress.advance(1)
                    found.append(one)
            return found

        found = with_node(target.settings, run) if process_ids else []
        return sorted(found, key=lambda one: one.process_id)

    def summary(self, found: Sequence[ScoredRerun]) -> dict[str, Any]:
        """Return the counts, the costs in USD as decimal texts, and the mean score."""
        reruns = [one.rerun for one in found if one.rerun is not None]
        scores = [one.score for one in found if one.score is not None]
        sides = [one.difference for one in reruns]
        return {
            "agent": self.agent.name,
            "model": self.how["model"],
            "reruns": len(reruns),
            "finished": sum(one.status == "finished" for one in reruns),
            "same_outcome": sum(one.is_same_outcome for one in reruns),
            "skipped": sum(one.rerun is None for one in found),
            "cost_usd": sum_of_texts(one.right.cost_usd for one in sides),
            "first_cost_usd": sum_of_texts(one.left.cost_usd for one in sides),
            "mean_score": fmean(scores) if scores else None,
        }


def sampled(process_ids: Sequence[str], count: int, seed: str) -> list[str]:
    """Return ``count`` of the processes. Which ones follows from their ids and the seed, whatever else is listed."""
    return sorted(process_ids, key=lambda one: sha256(f"{seed}\0{one}".encode()).digest())[:count]
