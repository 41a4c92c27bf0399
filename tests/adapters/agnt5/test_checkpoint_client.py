"""The SDK's older checkpoints on a journal: ``SeekpointCheckpoints`` is a client of a workflow's context."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
from agnt5 import WorkflowContext
from agnt5.checkpoint import CheckpointClient
from agnt5.exceptions import ActivationError
from agnt5.workflow import WorkflowEntity

from seekpoint import MemoryLog, Node, Ref
from seekpoint.adapters.agnt5 import SeekpointActivations, SeekpointCheckpoints
from seekpoint.errors import Fenced


def context_of(checkpoints: SeekpointCheckpoints) -> WorkflowContext:
    """A context as the SDK makes one without durable activations."""
    return WorkflowContext(
        workflow_entity=WorkflowEntity(run_id="run-1"), run_id="run-1", checkpoint_client=checkpoints,
        trace_metadata={"project_id": "shop"},
    )  # fmt: skip


async def test_a_completed_step_is_not_executed_again() -> None:
    """Nor by another node, which has a context of its own. Large outputs are attached."""
    ran: list[int] = []

    async def load() -> dict[str, Any]:
        ran.append(1)
        return {"text": "x" * 100_000}

    async with Node.in_memory() as node:
        for _ in range(2):
            async with SeekpointActivations(node) as activations:
                context = context_of(SeekpointCheckpoints(activations))
                found: dict[str, Any] = await context.step("load", load)
                assert found == {"text": "x" * 100_000}
        record = (await node.recover("agnt5/shop/run-1")).state.value("step/step:load:0")
    assert ran == [1]
    assert record["type"] == "COMPLETED"
    assert isinstance(record["output"], Ref)


async def test_a_step_that_failed_is_executed_again() -> None:
    """The failure is an entry."""
    async with Node.in_memory() as node, SeekpointActivations(node) as activations:
        checkpoints = SeekpointCheckpoints(activations)
        await checkpoints.connect()
        await checkpoints.step_failed("shop", "run-1", "k", "load", "checkpoint", "boom", "ValueError")
        assert await checkpoints.get_memoized_step("shop", "run-1", "k") is None
        started = await checkpoints.step_started("shop", "run-1", "k", "load", "checkpoint")
        assert (started.success, started.memoized) == (True, False)


async def test_the_first_output_of_a_step_counts() -> None:
    """A second one is answered with it, and so is a failure that comes late."""
    async with Node.in_memory() as node, SeekpointActivations(node) as activations:
        checkpoints = SeekpointCheckpoints(activations)
        first = await checkpoints.step_completed("shop", "run-1", "k", "load", "checkpoint", b"1", 5)
        second = await checkpoints.step_completed("shop", "run-1", "k", "load", "checkpoint", b"2")
        await checkpoints.step_failed("shop", "run-1", "k", "load", "checkpoint", "late", "ValueError")
        assert (first.memoized, second.memoized, second.cached_output) == (False, True, b"1")
        assert await checkpoints.get_memoized_step("shop", "run-1", "k") == b"1"


async def test_a_client_that_has_lost_its_run_does_not_take_it_back() -> None:
    """Also with ``take_over``: the SDK executes the step though, and the run stays with its new owner."""
    log = MemoryLog()
    async with (
        Node.in_memory(log) as one, Node.in_memory(log) as two,
        SeekpointActivations(one, take_over=True) as mine, SeekpointActivations(two, take_over=True) as other,
    ):  # fmt: skip
        first = SeekpointCheckpoints(mine)
        await first.step_completed("shop", "run-1", "k", "load", "checkpoint", b"1")
        owner = await other.run("shop", "run-1")
        with pytest.raises(Fenced):
            await first.step_started("shop", "run-1", "next", "load")
        for key in ("next", "last"):
            with pytest.raises((Fenced, ActivationError), match="another owner has"):  # of a fenced write first
                await first.step_completed("shop", "run-1", key, "load", "checkpoint", b"2")
        await owner.process.update("note", "it still owns the run")
        await owner.process.confirm()
        assert await SeekpointCheckpoints(mine).get_memoized_step("shop", "run-1", "k") == b"1"  # a new client may


def test_the_client_has_the_calls_of_the_sdks() -> None:
    """Each public call, with the same arguments."""
    for name in ("connect", "step_started", "step_completed", "step_failed", "get_memoized_step"):
        kinds: tuple[Any, ...] = (CheckpointClient, SeekpointCheckpoints)
        theirs, ours = (list(inspect.signature(getattr(kind, name)).parameters) for kind in kinds)
        assert ours == theirs
