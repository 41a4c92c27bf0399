"""Attempts of activations: one at a time, ended once, and by the node that owns the run."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from agnt5.activation import (
    ActivationClient,
    ActivationDecisionKind,
    ActivationRecoveryPolicy,
)
from agnt5.exceptions import ActivationErrorCode

from agnt5_requests import asked, completed, failed, record_of, refused
from seekpoint import MemoryLog, Node
from seekpoint.adapters.agnt5 import SeekpointActivations
from seekpoint.errors import ConfirmTimeout, Fenced, OwnerAlive

Code, Kind, Policy = ActivationErrorCode, ActivationDecisionKind, ActivationRecoveryPolicy


async def test_an_attempt_that_is_under_way_is_not_made_twice(activations: SeekpointActivations) -> None:
    """Under the same lease the second caller waits: the SDK raises CONTENDED."""
    first, second = await asyncio.gather(activations.begin(asked()), activations.begin(asked()))
    assert [first.kind, second.kind] == [Kind.EXECUTE, Kind.WAIT]
    async with refused(Code.CONTENDED):
        await ActivationClient(activations).run(
            asked(), pytest.fail, encode_output=bytes, decode_output=bytes, latency_ms=lambda: 0
        )


@pytest.mark.parametrize("policy", [Policy.DURABLE_STEPS, Policy.UNKNOWN_OUTCOME])
async def test_a_begin_that_is_cancelled_may_be_made_again(
    activations: SeekpointActivations, policy: ActivationRecoveryPolicy
) -> None:
    """Wherever it is cancelled: nobody has the fence token of its attempt, so nothing was executed."""
    for rounds in range(1_000):
        request = asked(f"step:{rounds}", recovery_policy=policy)
        beginning = asyncio.ensure_future(activations.begin(request))
        for _ in range(rounds):
            await asyncio.sleep(0)
        if beginning.done():
            assert rounds > 1
            break
        beginning.cancel()
        await asyncio.wait([beginning])
        again = await activations.begin(request)
        assert again.kind is Kind.EXECUTE
        assert (await completed(activations, again)).replayed is False
    assert beginning.done()
    assert (await beginning).kind is Kind.EXECUTE


async def test_a_new_dispatch_makes_an_interrupted_attempt_again(activations: SeekpointActivations) -> None:
    """The old dispatch can neither end its attempt nor begin another one."""
    first = await activations.begin(asked())
    second = await activations.begin(asked(lease="lease-2"))
    assert (second.kind, second.attempt) == (Kind.EXECUTE, 2)
    assert second.fence_token != first.fence_token
    async with refused(Code.STALE_AUTHORITY):
        await completed(activations, first)
    async with refused(Code.STALE_AUTHORITY):
        await failed(activations, first)
    async with refused(Code.STALE_AUTHORITY):
        await activations.begin(asked("step:next:1", lease="lease-1"))
    assert (await completed(activations, second)).attempt == 2


async def test_the_first_end_of_an_attempt_counts(activations: SeekpointActivations) -> None:
    """An old dispatch that ends its attempt before the new one begins it is heard: nothing is made twice."""
    first = await activations.begin(asked())
    await activations.begin(asked("step:other:1", lease="lease-2"))
    await completed(activations, first, b"1")
    again = await activations.begin(asked(lease="lease-2"))
    assert (again.kind, again.replay_output) == (Kind.REPLAY, b"1")


async def test_a_repeated_end_is_answered_and_another_one_conflicts(activations: SeekpointActivations) -> None:
    """A receipt that was lost can be asked for again."""
    decision = await activations.begin(asked())
    first = await completed(activations, decision, b"1")
    again = await completed(activations, decision, b"1")
    assert (again.replayed, again.accepted_journal_offset) == (True, first.accepted_journal_offset)
    async with refused(Code.PAYLOAD_CONFLICT):
        await completed(activations, decision, b"2")
    async with refused(Code.ILLEGAL_TRANSITION):
        await failed(activations, decision)
    broken = await activations.begin(asked("step:b:1"))
    assert (await failed(activations, broken)).replayed is False
    assert (await failed(activations, broken)).replayed is True
    async with refused(Code.PAYLOAD_CONFLICT):
        await failed(activations, broken, error_code="OTHER")
    async with refused(Code.ILLEGAL_TRANSITION):
        await completed(activations, broken)


async def test_a_receipt_that_is_lost_is_an_unknown_outcome(
    activations: SeekpointActivations, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    """The SDK gives no result to the code then. The same end again is answered by what is in the journal."""
    decision = await activations.begin(asked())
    process = (await activations.run("shop", "run-1")).process

    async def silent() -> None:
        raise ConfirmTimeout("the log is silent")

    with monkeypatch.context() as patched:
        patched.setattr(process, "confirm", silent)
        async with refused(Code.UNKNOWN_OUTCOME):
            await completed(activations, decision)
    assert (await completed(activations, decision)).replayed is True


async def test_two_ends_at_once_are_one(node: Node, activations: SeekpointActivations) -> None:
    """Also where the output is attached first."""
    decision = await activations.begin(asked())
    output = b"x" * 200_000
    receipts = await asyncio.gather(*(completed(activations, decision, output) for _ in range(3)))
    assert sorted(one.replayed for one in receipts) == [False, True, True]
    assert (await record_of(node, decision))["number"] == 2


async def test_an_end_without_a_beginning_is_refused(activations: SeekpointActivations) -> None:
    """And one with a fence token that was guessed."""
    decision = await activations.begin(asked())
    async with refused(Code.ILLEGAL_TRANSITION):
        await completed(activations, replace(decision, activation_id="actv1_nobody"))
    async with refused(Code.STALE_AUTHORITY):
        await completed(activations, replace(decision, fence_token=b"guess"))


async def test_two_nodes_at_once_are_refused() -> None:
    """While the first looks alive, the second is CONTENDED. One that takes over makes the first STALE_AUTHORITY."""
    log = MemoryLog()
    async with (
        Node.in_memory(log) as one, Node.in_memory(log) as other,
        SeekpointActivations(one) as first, SeekpointActivations(other) as second,
    ):  # fmt: skip
        decision = await first.begin(asked())
        async with refused(Code.CONTENDED) as caught:
            await second.begin(asked(lease="lease-2"))
        assert isinstance(caught.value.__cause__, OwnerAlive)
        async with SeekpointActivations(other, take_over=True) as third:
            taken = await third.begin(asked(lease="lease-2"))
            assert (taken.kind, taken.attempt) == (Kind.EXECUTE, 2)
            async with refused(Code.STALE_AUTHORITY) as caught:
                await completed(first, decision)
            assert isinstance(caught.value.__cause__, Fenced)
            await completed(third, taken, b"2")
        assert (await second.begin(asked(lease="lease-3"))).replay_output == b"2"


async def test_two_transports_of_one_node_do_not_share_a_run(node: Node) -> None:
    """The second is CONTENDED until the first has released it."""
    async with SeekpointActivations(node) as first, SeekpointActivations(node) as second:
        await first.begin(asked())
        async with refused(Code.CONTENDED):
            await second.begin(asked(lease="lease-2"))
        await first.release("shop", "run-1")
        assert (await second.begin(asked(lease="lease-2"))).attempt == 2
