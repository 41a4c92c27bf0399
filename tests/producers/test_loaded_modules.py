"""What a program loads: the modules that its first step needs, and no others."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

DURABLE = "seekpoint.producers.durable"

NOT_LOADED = (
    "pathlib",
    "redis",
    "seekpoint.consumers.projector.projector",
    "seekpoint.consumers.recovery.bulk_bases",
    "seekpoint.consumers.recovery.process_history",
    "seekpoint.consumers.recovery.verification",
    "seekpoint.consumers.staging",
    "seekpoint.consumers.view",
    "seekpoint.producers.client",
    "seekpoint.producers.dispatch",
    "seekpoint.producers.health",
    "seekpoint.producers.history",
    "seekpoint.producers.replay_checking",
    "seekpoint.producers.runs.schedule_table",
    "seekpoint.producers.shared_client",
    "seekpoint.producers.sync_process",
    "seekpoint.producers.tail.followed_values",
    "seekpoint.producers.testing",
    "seekpoint.producers.tracing.tracer",
    "seekpoint.producers.worker",
    f"{DURABLE}.branches.branch_group",
    f"{DURABLE}.branches.branch_schedule",
    f"{DURABLE}.branches.recorded_answers",
    f"{DURABLE}.budgets.budget_checks",
    f"{DURABLE}.call_spans",
    f"{DURABLE}.content.invocation",
    f"{DURABLE}.decisions.decision_runs",
    f"{DURABLE}.decisions.prices",
    f"{DURABLE}.decisions.prompts",
    f"{DURABLE}.decisions.usage",
    f"{DURABLE}.effects.business_keys",
    f"{DURABLE}.effects.compensation_runs",
    f"{DURABLE}.effects.connectors",
    f"{DURABLE}.effects.effect_context",
    f"{DURABLE}.effects.effect_facts",
    f"{DURABLE}.effects.effect_resolution",
    f"{DURABLE}.effects.effect_runs",
    f"{DURABLE}.effects.rewind_content",
    f"{DURABLE}.effects.stopping",
    f"{DURABLE}.failures",
    f"{DURABLE}.replay.differences",
    f"{DURABLE}.replay.recorded_run",
    f"{DURABLE}.replay.replayed_content",
    f"{DURABLE}.replay.write_buffer",
    f"{DURABLE}.steps.rates",
    f"{DURABLE}.steps.cron_schedules",
    f"{DURABLE}.waits.child_runs",
    f"{DURABLE}.waits.gate_answers",
)
"""Modules, and folders with all their modules."""

FIRST_STEP = """
import asyncio, json, sys
from seekpoint.producers import Node, agent

@agent("case")
async def work(process, given):
    global before, after
    before = {name for name in sys.modules if name.startswith("seekpoint.")}
    await process.step("double", lambda: 2 * given)
    await process.update("status", "done")
    after = set(sys.modules)

async def main():
    async with Node.in_memory() as node:
        await node.run(work, "case-17", 21)

asyncio.run(main())
new = {name for name in after if name.startswith("seekpoint.")} - before
print(json.dumps([sorted(after), sorted(new)]))
"""


@pytest.fixture(scope="module")
def loaded() -> tuple[set[str], set[str]]:
    """The modules of a program after its first step, and those that its step and its write loaded."""
    return _loaded_by(FIRST_STEP)


def _loaded_by(program: str) -> tuple[set[str], set[str]]:
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    modules, new = json.loads(ran.stdout)
    return set(modules), set(new)


@pytest.mark.parametrize("name", NOT_LOADED)
def test_a_first_step_loads_no_other_part(name: str, loaded: tuple[set[str], set[str]]) -> None:
    """A program that restarts after a crash pays for each module before its first step."""
    assert [one for one in loaded[0] if one == name or one.startswith(f"{name}.")] == []


def test_steps_and_writes_load_nothing(loaded: tuple[set[str], set[str]]) -> None:
    """The modules that they need are loaded with the process: a late import would delay the first of them."""
    assert loaded[1] == set()


def test_the_front_door_loads_nothing_more(loaded: tuple[set[str], set[str]]) -> None:
    """A program that imports from ``seekpoint`` loads what it loads with ``from seekpoint.producers import ...``."""
    program = FIRST_STEP.replace("from seekpoint.producers import", "from seekpoint import")
    assert program != FIRST_STEP
    assert _loaded_by(program) == loaded


def test_the_package_itself_loads_no_part() -> None:
    """``import seekpoint`` is as fast as the interpreter: each name is loaded at its first use."""
    program = "import json, sys, seekpoint; print(json.dumps([sorted(sys.modules), []]))"
    assert [name for name in _loaded_by(program)[0] if name.partition(".")[0] in ("seekpoint", "msgspec")] == [
        "seekpoint"
    ]
