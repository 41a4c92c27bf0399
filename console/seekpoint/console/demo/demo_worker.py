"""One worker of the demo, a process of its own: ``python -m seekpoint.console.demo.demo_worker FOLDER NUMBER``."""

from __future__ import annotations

import asyncio
import logging
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import orjson

from seekpoint.console.demo.outside_ledger import AppendOnlyFile
from seekpoint.console.demo.scripted_agent import ScriptedModel, support_agent
from seekpoint.console.demo.transcripts import load_transcripts
from seekpoint.console.services.daemons.termination import on_stop
from seekpoint.producers import Worker
from seekpoint.schemas.config.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetConfig:
    """The configuration of the fleet, in ``FOLDER/fleet.json``."""

    settings: dict[str, Any]
    concurrency: int
    """How many cases a worker works on at once."""
    think_s: tuple[float, float]

    def save(self, folder: Path) -> None:
        """Write the configuration for the workers."""
        (folder / "fleet.json").write_bytes(orjson.dumps(asdict(self), default=dict))

    @classmethod
    def load(cls, folder: Path) -> FleetConfig:
        """Read the configuration."""
        return cls(**orjson.loads((folder / "fleet.json").read_bytes()))


def node_name(number: int) -> str:
    """Return the name of the worker with this number (1, 2, ...)."""
    return f"worker-{number}"


def bill_path(folder: Path) -> Path:
    """Return the path of the model's bill."""
    return folder / "model-calls.jsonl"


def notes_path(folder: Path, name: str) -> Path:
    """Return the path of a worker's notes."""
    return folder / f"{name}.jsonl"


async def _work(folder: Path, number: int) -> None:
    stop = asyncio.Event()
    on_stop(stop.set)
    config, name = FleetConfig.load(folder), node_name(number)
    bill, notes = AppendOnlyFile(bill_path(folder)), AppendOnlyFile(notes_path(folder, name))
    model = ScriptedModel(name, bill.bill, config.think_s)
    support = support_agent(load_transcripts(folder / "cases.jsonl"), model, name, notes.note)
    settings = Settings(**config.settings, node_id=name)
    await Worker([support], settings, runs_max=config.concurrency).run(stop)


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    asyncio.run(_work(Path(sys.argv[1]), int(sys.argv[2])))
