"""Agents killed and stopped at random moments, an outside ledger that counts what they did, and a judge of both (I8).

``python ledger_run.py --runs 1000 --seed 7`` does it on a cluster of its own. The judge reads the ledger's file and the
journal by fastavro: it shares no code with what it judges.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from agent_programs import decode, environment, read_records
from seekpoint.producers import Node
from seekpoint.schemas import Settings

__all__ = ["Judged", "Owners", "conduct", "judge", "ledger_server", "read_owners", "story"]

_HERE = Path(__file__).parent
_AT_ONCE = 20
_NEWEST = 1 << 62
"""The epoch of who never owned the process: nothing excuses it."""


@dataclass
class Judged:
    """What the ledger and the journal say together."""

    runs: int = 0
    lives: int = 0
    """Starts of the agent."""
    finished: int = 0
    kills: int = 0
    stops: int = 0
    takeovers: int = 0
    calls: int = 0
    repeated: int = 0
    """Calls that were made again in doubt."""
    parked: int = 0
    faults: list[str] = field(default_factory=list)


def conduct(settings: Settings, folder: Path, runs: int, seed: int, deadline_s: float) -> Judged:
    """Run ``runs`` processes through kills and stops to their end, and judge what came of it."""
    chance, judged, ledger = random.Random(seed), Judged(runs=runs), folder / "ledger.jsonl"
    give_up = time.monotonic() + deadline_s
    with ledger_server(ledger) as port:
        for first in range(0, runs, _AT_ONCE):
            _batch(settings, folder, port, first, min(_AT_ONCE, runs - first), chance, judged, give_up)
    judge(settings, ledger, judged)
    return judged


@contextmanager
def ledger_server(ledger: Path) -> Iterator[int]:
    """Run the ledger; give its port."""
    command = [sys.executable, str(_HERE / "ledger_server.py"), str(ledger)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield int(server.stdout.readline())
        finally:
            server.kill()


def _batch(
    settings: Settings, folder: Path, port: int, first: int, count: int, chance: random.Random, judged: Judged,
    give_up: float,
) -> None:  # fmt: skip
    """Start the agent again and again; killed, or stopped and woken behind its successor's back, till it is through."""
    zombies: list[subprocess.Popen[bytes]] = []
    try:
        for attempt in range(1_000):
            assert time.monotonic() < give_up, "the runs do not come to an end"
            judged.lives += 1
            agent = _agent(settings, folder, port, first, count, judged.lives)
            _until_at_work(agent, judged.lives, folder / "ledger.jsonl")
            zombies = _wake(zombies)
            # At first it is disturbed at any moment of its work; later ones are left alone, or nothing would ever end.
            patience_s = chance.uniform(0.0, 0.4) if attempt < 4 else 60.0
            if _came_through(agent, patience_s):
                if not asyncio.run(_resolve(settings, first, count)):
                    return
            elif chance.random() < 0.3:
                agent.send_signal(signal.SIGSTOP)
                zombies.append(agent)
                judged.stops += 1
            else:
                agent.kill()
                agent.wait()
                judged.kills += 1
    finally:
        for agent in zombies:
            agent.kill()
            agent.wait()


def _agent(settings: Settings, folder: Path, port: int, first: int, count: int, life: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, str(_HERE / "ledger_agent.py"), str(port), str(first), str(count)]
    with (folder / "agents.log").open("ab") as log:
        return subprocess.Popen(command, env=environment(settings) | {"AGENT_LIFE": str(life)}, stdout=log, stderr=log)


def _until_at_work(agent: subprocess.Popen[bytes], life: int, ledger: Path) -> None:
    """Return once the agent has done anything, or is through."""
    deadline = time.monotonic() + 60
    mine = f'"by": {life},'
    while agent.poll() is None and mine not in (ledger.read_text() if ledger.exists() else ""):
        assert time.monotonic() < deadline, "the agent does not begin to work"
        time.sleep(0.02)


def _wake(zombies: list[subprocess.Popen[bytes]]) -> list[subprocess.Popen[bytes]]:
    """The stopped ones go on while their successor works; those of before are over."""
    for agent in zombies:
        agent.send_signal(signal.SIGCONT)
    return [agent for agent in zombies if agent.poll() is None]


def _came_through(agent: subprocess.Popen[bytes], patience_s: float) -> bool:
    try:
        return agent.wait(patience_s) == 0
    except subprocess.TimeoutExpired:
        return False


async def _resolve(settings: Settings, first: int, count: int) -> int:
    """A person decides what nobody can tell; how many there were."""
    parked = 0
    async with Node.connect(settings) as node:
        for number in range(first, first + count):
            state = (await node.recover(f"run-{number}")).state
            for key, call in state.calls.items():
                if call.status == "unknown":
                    parked += 1
                    await node.verdict(f"run-{number}", key, "failed", reason="not there", actor="a person")
    return parked


# --- the judge --------------------------------------------------------------------------------------------------------
def judge(settings: Settings, ledger: Path, judged: Judged) -> None:
    """I8, in the ledger's own order: nothing after its answer, once more a takeover, at most once never twice."""
    found = read_owners(settings)
    judged.finished = len(found.finished)
    judged.takeovers = sum(found.owners.values()) - len(found.owners)
    calls: Counter[str] = Counter()
    answered: dict[str, int] = {}
    for line in ledger.read_text().splitlines():
        said = json.loads(line)
        key = said["key"]
        epoch = found.epochs.get((key.partition("/")[0], said["by"]), _NEWEST)
        if said["what"] == "returned" and epoch >= found.settled.get(key, _NEWEST):
            answered.setdefault(key, epoch)  # not what a fenced owner was told: its entry does not count
        elif said["what"] == "parked":
            judged.parked += 1
        elif said["what"] == "call":
            calls[key] += 1
            # A fenced owner's was under way, or it does not know yet: in doubt, not done again. Which of two lives is
            # the fenced one, the epochs say, not their order: one that was stopped may wake and take a process over.
            if epoch >= answered.get(key, _NEWEST + 1):
                judged.faults.append(f"{key} was called after its answer was given")
    for key, times in calls.items():
        most = 1 if key.endswith("/once:1") else found.owners[key.partition("/")[0]]
        if times > most:
            judged.faults.append(f"{key} was called {times} times, {most} are allowed")
    judged.calls, judged.repeated = sum(calls.values()), sum(times - 1 for times in calls.values())
    if judged.finished < judged.runs:
        judged.faults.append(f"{judged.runs - judged.finished} runs are not finished")


@dataclass
class Owners:
    """The journal by the judge's own reading: owners a process, a life's newest epoch, the epoch of a call's end."""

    owners: Counter[str] = field(default_factory=Counter)
    epochs: dict[tuple[str, int], int] = field(default_factory=dict)
    settled: dict[str, int] = field(default_factory=dict)
    finished: set[str] = field(default_factory=set)


def read_owners(settings: Settings) -> Owners:
    """Read who owned which process, and what has ended."""
    found = Owners()
    for partition in range(settings.partitions):
        for message in read_records(settings, partition):
            entry = decode(message.value())
            name, body = entry["body"]
            process_id = entry["process_id"]
            if name == "seekpoint.Claim" and body["expected_epoch"] == found.owners[process_id]:
                found.owners[process_id] += 1
                found.epochs[process_id, int(body["node_id"].rpartition("-")[2])] = found.owners[process_id]
            elif entry["seq"] is not None and entry["epoch"] == found.owners[process_id]:
                if name == "seekpoint.Finished":
                    found.finished.add(process_id)
                elif name in ("seekpoint.StepEnded", "seekpoint.EffectSettled") and body["outcome"] == "succeeded":
                    found.settled[f"{process_id}/{body['key']}"] = entry["epoch"]
    return found


def story(settings: Settings, ledger: Path, process_id: str) -> str:
    """What the ledger was told of a process, and its journal: for who has to find out what went wrong."""
    told = [line for line in ledger.read_text().splitlines() if f'"{process_id}/' in line]
    written = []
    for partition in range(settings.partitions):
        for message in read_records(settings, partition):
            entry = decode(message.value())
            if entry["process_id"] == process_id:
                name, body = entry["body"]
                facts = {one: body[one] for one in ("node_id", "key", "outcome", "expected_epoch") if one in body}
                written.append(
                    f"{message.offset()} epoch {entry['epoch']} seq {entry['seq']} at {entry['ts']} {name} {facts}"
                )
    return "\n".join([f"--- {process_id}", *told, *written])


def main() -> None:
    """On a cluster of its own, with a seed that can be given again."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    parser.add_argument("--deadline-s", type=float, default=3_600.0)
    options = parser.parse_args()
    from seekpoint.compose import LocalCluster, create_topics_sync

    with tempfile.TemporaryDirectory() as folder, LocalCluster(directory=Path(folder) / "cluster") as cluster:
        settings = cluster.settings(journal="ledger", owner_timeout_s=2.0, heartbeat_interval_s=0.3)
        create_topics_sync(settings)
        judged = conduct(settings, Path(folder), options.runs, options.seed, options.deadline_s)
        for process_id in dict.fromkeys(fault.partition("/")[0] for fault in judged.faults):
            print(story(settings, Path(folder) / "ledger.jsonl", process_id), file=sys.stderr)
    print(json.dumps({"seed": options.seed, **judged.__dict__}, indent=2))
    raise SystemExit(1 if judged.faults else 0)


if __name__ == "__main__":
    main()
