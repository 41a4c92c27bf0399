"""What happens to an activation that was interrupted, or failed, or of which nobody knows the outcome."""

from __future__ import annotations

from typing import Any

import pytest
from agnt5.activation import (
    ActivationDecisionKind,
    ActivationKind,
    ActivationRecoveryPolicy,
)
from agnt5.exceptions import ActivationErrorCode

from agnt5_requests import asked, failed, record_of, refused
from seekpoint import Node
from seekpoint.adapters.agnt5 import SeekpointActivations

Code, Kind, Policy = ActivationErrorCode, ActivationDecisionKind, ActivationRecoveryPolicy


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
