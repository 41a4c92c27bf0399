"""One node of the demo's fleet, a process of its own: ``python -m seekpoint.console.demo.worker FOLDER NUMBER``.

The node works on its share of the cases, then on all other cases without a living owner. It ends when all cases are
finished.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import orjson

from seekpoint.console.demo.outside_ledger import AppendOnlyFile, Ended
from seekpoint.console.demo.scripted_agent import ScriptedAgent
from seekpoint.console.demo.scripted_model import ScriptedModel
from seekpoint.console.demo.transcripts import Transcript, load_transcripts
from seekpoint.producers import Node
from seekpoint.producers.process import durable_side
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.errors import HandleLost, OperatorRequired, OwnerAlive, ProcessFinished, Retryable

__all__ = ["CaseQueue", "FleetConfig", "bill_path", "node_name", "notes_path", "share_order"]

_LOOK_AGAIN_S = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetConfig:
    """The configuration of the fleet, in ``FOLDER/fleet.json``."""

    settings: dict[str, Any]
    nodes: int
    concurrency: int
    """How many cases a node works on at once."""
    think_s: tuple[float, float]

    def save(self, folder: Path) -> None:
        """Write the configuration for the nodes."""
        (folder / "fleet.json").write_bytes(orjson.dumps(asdict(self)))

    @classmethod
    def load(cls, folder: Path) -> FleetConfig:
        """Read the configuration."""
        return cls(**orjson.loads((folder / "fleet.json").read_bytes()))


def node_name(number: int) -> str:
    """Return the name of the node with this number (1, 2, ...)."""
    return f"node-{number}"


def bill_path(folder: Path) -> Path:
    """Return the path of the model's bill."""
    return folder / "model-calls.jsonl"


def notes_path(folder: Path, name: str) -> Path:
    """Return the path of a node's notes."""
    return folder / f"{name}.jsonl"


def share_order(cases: Sequence[Transcript], number: int, nodes: int) -> list[Transcript]:
    """Return all cases, the node's own share first, so that nodes meet as late as possible.

    >>> from seekpoint.console.demo.cases import support_cases
    >>> [case.case for case in share_order(support_cases(4), 2, 2)]
    ['case-02', 'case-04', 'case-01', 'case-03']
    """
    return [case for shift in range(nodes) for case in cases[(number - 1 + shift) % nodes :: nodes]]


class CaseQueue:
    """The cases of one node, worked on until none is left."""

    def __init__(self, node: Node, cases: Sequence[Transcript], model: ScriptedModel, notes: AppendOnlyFile) -> None:
        self._node = node
        self._model = model
        self._notes = notes
        self._waiting = deque(cases)
        self._ready_at: dict[str, float] = {}

    async def work(self, concurrency: int) -> None:
        """Work on up to ``concurrency`` cases at once. Raises a case's error if no retry can help."""
        async with asyncio.TaskGroup() as group:
            for _ in range(concurrency):
                group.create_task(self._work_next_cases())

    async def _work_next_cases(self) -> None:
        while self._waiting:
            transcript = self._waiting.popleft()
            await asyncio.sleep(self._ready_at.get(transcript.case, 0.0) - time.monotonic())
            if not await self._attempt(transcript):
                self._ready_at[transcript.case] = time.monotonic() + _LOOK_AGAIN_S
                self._waiting.append(transcript)

    async def _attempt(self, transcript: Transcript) -> bool:
        """Work on a case. Return True if it is finished, or needs an operator."""
        case = transcript.case
        try:
            process = await self._node.open(case, actor=self._node.node_id)
        except OwnerAlive:
            return False
        except ProcessFinished:
            return True
        except Retryable:
            return False  # another node claimed first, or Kafka is slow: try again
        except OperatorRequired as exc:
            self._ended(case, "parked", str(exc))
            return True
        try:
            await ScriptedAgent(process, transcript, self._model, self._node.node_id, self._notes.note).work()
        except (HandleLost, Retryable) as exc:
            self._ended(case, "fenced" if isinstance(exc, HandleLost) else "failed", str(exc))
            return False
        finally:
            durable_side(process).abandon()
        self._ended(case, "finished")
        return True

    def _ended(self, case: str, how: str, detail: str = "") -> None:
        self._notes.note(Ended(case=case, node=self._node.node_id, at=time.time(), how=how, detail=detail))


async def _work(folder: Path, number: int) -> None:
    config = FleetConfig.load(folder)
    name = node_name(number)
    settings = Settings(**config.settings, node_id=name)
    cases = share_order(load_transcripts(folder / "cases.jsonl"), number, config.nodes)
    bill, notes = AppendOnlyFile(bill_path(folder)), AppendOnlyFile(notes_path(folder, name))
    model = ScriptedModel(name, bill.bill, config.think_s)
    async with Node.connect(settings) as node:
        await CaseQueue(node, cases, model, notes).work(config.concurrency)


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    asyncio.run(_work(Path(sys.argv[1]), int(sys.argv[2])))
