"""``SeekpointActivations`` is the SDK's transport: what it admits, replays, refuses, and leaves in the journal."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
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
from agnt5.exceptions import ActivationError, ActivationErrorCode, DurableSleepSuspension

from agnt5_requests import asked, completed, failed
from seekpoint import MemoryLog, Node, Ref, VirtualClock
from seekpoint.adapters.agnt5 import SeekpointActivations
from seekpoint.errors import ConfirmTimeout, Fenced, InvalidName, OwnerAlive

Code, Kind, Policy = ActivationErrorCode, ActivationDecisionKind, ActivationRecoveryPolicy
PROCESS = "agnt5/shop/run-1"


@pytest.fixture
async def activations(node: Node) -> AsyncIterator[SeekpointActivations]:
    """A transport."""
    async with SeekpointActivations(node) as running:
        yield running


@asynccontextmanager
async def refused(code: ActivationErrorCode) -> AsyncIterator[pytest.ExceptionInfo[ActivationError]]:
    """Expect a refusal with a code."""
    with pytest.raises(ActivationError) as caught:
        yield caught
    assert caught.value.code is code


async def record_of(node: Node, decision: ActivationDecision) -> dict[str, Any]:
    """The record in the newest state."""
    found: dict[str, Any] = (await node.recover(PROCESS)).state.value(decision.activation_id)
    return found


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


# --- fencing
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


# --- recovery policies
@pytest.mark.parametrize(
    ("policy", "kind", "status"),
    [
        (Policy.IDEMPOTENT_RETRY, Kind.EXECUTE, "ACTIVE"), (Policy.DURABLE_STEPS, Kind.EXECUTE, "ACTIVE"),
        (Policy.UNKNOWN_OUTCOME, Kind.UNKNOWN_OUTCOME, "UNKNOWN_OUTCOME"),
        (Policy.COMPENSATE, Kind.UNKNOWN_OUTCOME, "UNKNOWN_OUTCOME"), (Policy.FAIL, Kind.UNKNOWN_OUTCOME, "FAILED"),
    ],
)  # fmt: skip
async def test_the_policy_decides_about_an_interrupted_attempt(
    node: Node, policy: Any, kind: ActivationDecisionKind, status: str
) -> None:
    """After a restart too, with the lease of before: the owner is another one. The decision is recorded."""
    async with SeekpointActivations(node) as activations:
        await activations.begin(asked(recovery_policy=policy))
    async with SeekpointActivations(node) as later:
        decision = await later.begin(asked(recovery_policy=policy))
        assert decision.kind is kind
        record = await record_of(node, decision)
        assert record["status"] == status
        if kind is Kind.UNKNOWN_OUTCOME:
            assert record["error_code"] == "INTERRUPTED"
            assert "INTERRUPTED" in decision.message
            assert (await later.begin(asked(recovery_policy=policy))).kind is Kind.UNKNOWN_OUTCOME


async def test_policies_of_ones_own_replace_those_of_the_sdk(node: Node) -> None:
    """By the kind of an activation."""
    request = asked(kind=ActivationKind.MODEL, recovery_policy=Policy.UNKNOWN_OUTCOME)
    policies = {ActivationKind.MODEL: Policy.IDEMPOTENT_RETRY}
    for attempt in (1, 2):
        async with SeekpointActivations(node, policies=policies) as activations:
            decision = await activations.begin(request)
            assert (decision.kind, decision.attempt) == (Kind.EXECUTE, attempt)
    assert (await record_of(node, decision))["recovery_policy"] == "IDEMPOTENT_RETRY"


@pytest.mark.parametrize(
    ("policy", "retryable", "certainty", "status"),
    [
        (Policy.DURABLE_STEPS, True, "UNKNOWN", "RETRY_READY"), (Policy.DURABLE_STEPS, False, "UNKNOWN", "FAILED"),
        (Policy.IDEMPOTENT_RETRY, True, "UNKNOWN", "RETRY_READY"),
        (Policy.UNKNOWN_OUTCOME, True, "UNKNOWN", "UNKNOWN_OUTCOME"),
        (Policy.UNKNOWN_OUTCOME, True, "NO_EFFECT", "RETRY_READY"),
        (Policy.UNKNOWN_OUTCOME, False, "NO_EFFECT", "FAILED"),
        (Policy.UNKNOWN_OUTCOME, True, "EFFECT_COMMITTED", "FAILED"),
        (Policy.COMPENSATE, False, "UNKNOWN", "UNKNOWN_OUTCOME"), (Policy.FAIL, True, "UNKNOWN", "FAILED"),
        (Policy.FAIL, True, "NO_EFFECT", "FAILED"),
    ],
)  # fmt: skip
async def test_the_policy_decides_about_a_failure(
    activations: SeekpointActivations, policy: Any, retryable: bool, certainty: str, status: str
) -> None:
    """Together with what the caller knows of the effect."""
    decision = await activations.begin(asked(recovery_policy=policy))
    receipt = await failed(
        activations, decision, retryable=retryable, external_outcome_certainty=certainty, latency_ms=5
    )
    assert receipt.status == status
    if status == "RETRY_READY":
        again = await activations.begin(asked(recovery_policy=policy))
        assert (again.kind, again.attempt) == (Kind.EXECUTE, 2)


# --- failures
async def test_what_failed_fails_again_in_the_same_way(node: Node) -> None:
    """With the exception of before, where its class is known: code that catches it goes the same way again."""

    class Declined(Exception):
        pass

    async with SeekpointActivations(node) as activations:
        await failed(activations, await activations.begin(asked()))
        declined = b'{"message":"no money","type":"Declined"}'
        await failed(activations, await activations.begin(asked("step:pay:1")), error_data=declined)
    async with SeekpointActivations(node, errors=[Declined]) as later:
        with pytest.raises(ValueError, match=r"^boom$"):
            await later.begin(asked(lease="lease-2"))
        with pytest.raises(Declined, match=r"^no money$"):
            await later.begin(asked("step:pay:1", lease="lease-2"))
    async with SeekpointActivations(node) as later:
        decision = await later.begin(asked("step:pay:1", lease="lease-3"))
        assert (decision.kind, decision.attempt) == (Kind.UNKNOWN_OUTCOME, 1)
        assert "no money" in decision.message


async def test_failed_activations_are_made_again_where_that_is_asked_for(node: Node) -> None:
    """By a later dispatch, not by the one in which they failed."""
    async with SeekpointActivations(node) as activations:
        await failed(activations, await activations.begin(asked()))
    async with SeekpointActivations(node, retry_failed=True) as later:
        decision = await later.begin(asked(lease="lease-2"))
        assert (decision.kind, decision.attempt) == (Kind.EXECUTE, 2)
        await failed(later, decision)
        with pytest.raises(ValueError, match="boom"):
            await later.begin(asked(lease="lease-2"))


async def test_a_person_settles_an_unknown_outcome(node: Node) -> None:
    """It was done, with this output; or it was not, so it is made again."""
    policy = Policy.UNKNOWN_OUTCOME
    keys = ["step:done:0", "step:lost:1"]
    async with SeekpointActivations(node) as activations:
        begun = [await activations.begin(asked(key, recovery_policy=policy)) for key in keys]
    async with SeekpointActivations(node) as later:
        for key in keys:
            assert (await later.begin(asked(key, recovery_policy=policy))).kind is Kind.UNKNOWN_OUTCOME
        await later.settle(
            "shop", "run-1", begun[0].activation_id, "completed", output=b'"paid"', reason="the bank says so"
        )
        await later.settle("shop", "run-1", begun[1].activation_id, "retry")
        done, lost = [await later.begin(asked(key, recovery_policy=policy)) for key in keys]
        assert (done.kind, done.replay_output) == (Kind.REPLAY, b'"paid"')
        assert (lost.kind, lost.attempt) == (Kind.EXECUTE, 2)
        async with refused(Code.ILLEGAL_TRANSITION):
            await later.settle("shop", "run-1", begun[0].activation_id, "retry")


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
