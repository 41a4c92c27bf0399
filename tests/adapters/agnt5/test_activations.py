"""``SeekpointActivations`` is the SDK's transport: what it admits, replays, refuses, and leaves in the journal."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from hashlib import sha256
from typing import Any

import pytest
from agnt5.activation import (
    ActivationClient,
    ActivationDecision,
    ActivationDecisionKind,
    ActivationEvidence,
    ActivationKind,
    ActivationRecoveryPolicy,
    ActivationUsage,
)
from agnt5.exceptions import ActivationErrorCode, DurableSleepSuspension

from agnt5_requests import PROCESS, asked, completed, failed, record_of, refused
from seekpoint import MemoryLog, Node, Ref, VirtualClock
from seekpoint.adapters.agnt5 import SeekpointActivations
from seekpoint.errors import InvalidName

Code, Kind, Policy = ActivationErrorCode, ActivationDecisionKind, ActivationRecoveryPolicy


# --- executing and replaying
async def test_what_is_completed_is_replayed_and_not_executed_again(activations: SeekpointActivations) -> None:
    """With its bytes, and the number of the record that completed it."""
    first = await activations.begin(asked())
    assert (first.kind, first.attempt, first.accepted_journal_offset) == (Kind.EXECUTE, 1, 1)
    receipt = await completed(activations, first, b'{"value": 42}')
    assert (receipt.activation_id, receipt.attempt, receipt.replayed) == (first.activation_id, 1, False)
    again = await activations.begin(asked(lease="lease-2"))
    assert again.kind is Kind.REPLAY
    assert again.replay_output == b'{"value": 42}'
    assert again.accepted_journal_offset == receipt.accepted_journal_offset == 2
    assert again.fence_token == b""


async def test_the_sdks_client_runs_and_replays_an_activation(activations: SeekpointActivations) -> None:
    """Its own checks of ids and receipts hold."""
    client, ran = ActivationClient(activations), []

    async def execute() -> str:
        ran.append(1)
        return "seen"

    async def call(lease: str) -> Any:
        return await client.run(
            asked(lease=lease), execute, encode_output=str.encode, decode_output=bytes.decode, latency_ms=lambda: 3,
            completion_usage=lambda _: ActivationUsage(tokens_in=7, cost_usd=0.5, model="m"),
        )  # fmt: skip

    assert (await call("a"))[0] == (await call("b"))[0] == "seen"
    assert ran == [1]


async def test_each_record_is_an_entry_of_the_runs_process(node: Node, activations: SeekpointActivations) -> None:
    """With all that the protocol says of it; what people may read is text."""
    request = asked(display_name="Load", input_data=b'{"a":1}')
    decision = await activations.begin(request)
    active = await record_of(node, decision)
    evidence = (ActivationEvidence.inline("provider", b'{"ok":true}'),)
    usage = ActivationUsage(tokens_in=3, tokens_out=2, cost_usd=0.25, provider="p", model="m", latency_ms=8)
    await completed(activations, decision, usage=usage, evidence=evidence)
    done = await record_of(node, decision)
    assert active == {
        "about": "STEP step:load:0 ACTIVE",
        "status": "ACTIVE", "number": 1, "kind": "STEP", "stable_key": "step:load:0", "attempt": 1, "epoch": 1,
        "input_digest": request.input_digest.hex(), "definition_digest": request.definition_digest.hex(),
        "recovery_policy": "DURABLE_STEPS", "fence_token": decision.fence_token.hex(), "display_name": "Load",
        "lease": {"worker_session_id": "worker-1", "run_authority": "run-1", "lease_authority": "lease-1"},
        "input": '{"a":1}',
    }  # fmt: skip
    assert done["output"] == '"done"'
    assert done["usage"] == {
        "tokens_in": 3, "tokens_out": 2, "cost_usd": 0.25, "provider": "p", "model": "m", "latency_ms": 8
    }  # fmt: skip
    assert done["evidence"] == [{"type": "provider", "payload": '{"ok":true}', "sha256": evidence[0].sha256.hex()}]
    assert "input" not in done
    kinds = [one.entry.body.KIND async for one in node.entries(PROCESS)]
    assert kinds == ["claim", "content_batch", "content_batch"]


async def test_an_attempt_begins_only_when_its_entry_was_read_back(node: Node) -> None:
    """The state as other nodes have it has the attempt."""
    async with SeekpointActivations(node) as activations:
        decision = await activations.begin(asked())
        assert (await record_of(node, decision))["fence_token"] == decision.fence_token.hex()


async def test_bytes_that_are_no_text_are_replayed_as_they_were(activations: SeekpointActivations) -> None:
    """Outputs may be any bytes."""
    await completed(activations, await activations.begin(asked()), b"\xff\x00")
    assert (await activations.begin(asked())).replay_output == b"\xff\x00"


# --- large values
async def test_large_outputs_become_attachments(node: Node) -> None:
    """The SDK's own client asks for a reference instead, and cannot replay one."""
    output, error = b'"' + b"x" * 3_000_000 + b'"', b'{"message":"' + b"y" * 100_000 + b'","type":"ValueError"}'
    async with SeekpointActivations(node) as activations:
        done = await activations.begin(asked())
        await completed(activations, done, output, evidence=(ActivationEvidence.inline("raw", b"z" * 70_000),))
        broken = await activations.begin(asked("step:b:1"))
        await failed(activations, broken, error_data=error)
    async with SeekpointActivations(node) as later:
        assert (await later.begin(asked(lease="lease-2"))).replay_output == output
    record = await record_of(node, done)
    assert isinstance(record["output"], Ref)
    assert record["output"].size == len(output)
    assert isinstance(record["evidence"][0]["payload"], Ref)
    assert isinstance((await record_of(node, broken))["error_data"], Ref)


async def test_what_no_attachment_can_hold_needs_a_reference(node: Node) -> None:
    """The limits of the journal are named by the cause; the attempt stays the caller's."""
    async with SeekpointActivations(node, inline_bytes=10**9) as activations:
        decision = await activations.begin(asked())
        async with refused(Code.REFERENCE_REQUIRED):
            await completed(activations, decision, b"x" * 2_000_000)
        assert (await completed(activations, decision)).attempt == 1


# --- conflicts
@pytest.mark.parametrize("name", ["input_digest", "definition_digest"])
async def test_a_key_that_is_used_again_otherwise_conflicts(activations: SeekpointActivations, name: str) -> None:
    """Another input, or other code: the SDK raises NON_DETERMINISTIC_REPLAY. Nothing is written."""
    first = await activations.begin(asked())
    await completed(activations, first)
    other = await activations.begin(asked(lease="lease-2", **dict[str, Any]({name: b"x" * 32})))
    assert other.kind is Kind.CONFLICT
    assert name.replace("_", " ") in other.message
    assert (await activations.begin(asked(lease="lease-2"))).kind is Kind.REPLAY


@pytest.mark.parametrize(
    "more",
    [{"project_id": ""}, {"run_id": ""}, {"stable_key": ""}, {"worker_session_id": ""}, {"run_authority": b""},
     {"lease_authority": b""}, {"input_digest": b"x"}, {"definition_digest": b""}],
)  # fmt: skip
async def test_a_request_without_identity_is_refused(activations: SeekpointActivations, more: dict[str, Any]) -> None:
    """It names what is missing."""
    async with refused(Code.INVALID_ARGUMENT) as caught:
        await activations.begin(asked(**more))
    assert next(iter(more)) in str(caught.value)


async def test_digests_that_do_not_fit_are_refused(activations: SeekpointActivations) -> None:
    """That of an output, and that of evidence; and a certainty that is none."""
    decision = await activations.begin(asked())
    async with refused(Code.INVALID_ARGUMENT):
        await completed(activations, decision, output_digest=b"x" * 32)
    async with refused(Code.INVALID_ARGUMENT):
        await completed(activations, decision, evidence=(ActivationEvidence("raw", b"a", b"x" * 32),))
    async with refused(Code.INVALID_ARGUMENT):
        await failed(activations, decision, external_outcome_certainty="MAYBE")
    assert (await completed(activations, decision)).replayed is False


# --- cancelled runs, timers, names
async def test_a_cancelled_run_begins_nothing_more(node: Node, activations: SeekpointActivations) -> None:
    """``seekpoint cancel`` reaches it. What runs may end; what is completed is still replayed."""
    first = await activations.begin(asked())
    running = await activations.begin(asked("step:b:1"))
    await completed(activations, first)
    await node.cancel(PROCESS, "no money left")
    decision = await _until_cancelled(activations)
    assert decision.message == "no money left"
    assert (await record_of(node, decision))["status"] == "CANCELLED"
    assert (await completed(activations, running)).replayed is False
    assert (await activations.begin(asked())).kind is Kind.REPLAY
    await activations.close()
    async with SeekpointActivations(node) as later:
        assert (await later.begin(asked("step:new:9", lease="lease-2"))).kind is Kind.CANCELLED
        async with refused(Code.CANCELLED):
            await completed(later, replace(decision, fence_token=b"x"))


async def _until_cancelled(activations: SeekpointActivations) -> ActivationDecision:
    async with asyncio.timeout(30):
        for number in range(10_000):
            decision = await activations.begin(asked(f"step:next:{number}"))
            if decision.kind is Kind.CANCELLED:
                return decision
            await asyncio.sleep(0.01)
    raise AssertionError


def _sleeping(decision: ActivationDecision) -> DurableSleepSuspension:
    return DurableSleepSuspension(
        activation_id=decision.activation_id, attempt=decision.attempt, fence_token=decision.fence_token,
        timer_key="sleep:a", input_digest=b"i" * 32, definition_digest=b"d" * 32, continuation=b"{}", delay_ms=60_000,
    )  # fmt: skip


async def test_a_timer_does_not_shift() -> None:
    """It is due when it was to be when the sleep began, in later dispatches too; it completes then, and not before."""
    clock, log = VirtualClock(skips=False), MemoryLog()
    timer = asked("sleep:a", kind=ActivationKind.TIMER)
    async with Node.in_memory(log, clock=clock) as node:
        async with SeekpointActivations(node) as activations:
            first = await activations.begin(timer)
            due = await activations.suspend("shop", "run-1", _sleeping(first))
            assert due == await activations.suspend("shop", "run-1", _sleeping(first))
            assert due == clock.now_us() // 1_000 + 60_000
            assert (await activations.begin(timer)).kind is Kind.WAIT
        clock.advance(20)
        async with SeekpointActivations(node) as later:
            again = await later.begin(replace(timer, lease_authority=b"lease-2"))
            assert (again.kind, again.attempt) == (Kind.EXECUTE, 2)
            assert await later.suspend("shop", "run-1", _sleeping(again)) == due
            async with refused(Code.ILLEGAL_TRANSITION):
                await later.wake("shop", "run-1", again.activation_id)
            clock.advance(41)
            await later.wake("shop", "run-1", again.activation_id)
            assert (await later.begin(replace(timer, lease_authority=b"lease-3"))).kind is Kind.REPLAY
            async with refused(Code.ILLEGAL_TRANSITION):
                await later.wake("shop", "run-1", again.activation_id)


async def test_runs_with_any_names_have_processes_of_their_own(node: Node, activations: SeekpointActivations) -> None:
    """Slashes and other signs do not mix them up, and long ones are cut."""
    ids = [("a/b", "c"), ("a", "b/c"), ("a", "b~c"), ("a", "x" * 300), ("a", "x" * 299 + "y"), ("ä", "日本")]
    for project_id, run_id in ids:
        decision = await activations.begin(asked(project_id=project_id, run_id=run_id))
        assert (decision.kind, decision.accepted_journal_offset) == (Kind.EXECUTE, 1)


async def test_a_journal_that_is_closed_is_unavailable() -> None:
    """The SDK fails closed: no code runs."""
    async with Node.in_memory() as node:
        activations = SeekpointActivations(node)
    async with refused(Code.DURABILITY_UNAVAILABLE):
        await activations.begin(asked())


async def test_a_prefix_that_is_no_name_is_refused_as_what_it_is(node: Node) -> None:
    """By Seekpoint's own error, which says what a name may have."""
    with pytest.raises(InvalidName):
        await SeekpointActivations(node, prefix="\n").begin(asked())


def test_the_digest_of_an_empty_input_is_the_protocols() -> None:
    """Tests ask with the digests of real values."""
    assert asked().input_digest == sha256(b'["null"]').digest()
