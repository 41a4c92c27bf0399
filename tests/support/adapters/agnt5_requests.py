"""Requests for activations of AGNT5, as its SDK makes them, with names that tests choose."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from hashlib import sha256
from typing import Any

import pytest
from agnt5.activation import (
    ActivationDecision,
    ActivationFailureReceipt,
    ActivationKind,
    ActivationRecoveryPolicy,
    ActivationUsage,
    BeginActivationRequest,
)
from agnt5.exceptions import ActivationError, ActivationErrorCode

from seekpoint import Node
from seekpoint.adapters.agnt5 import SeekpointActivations, input_digest

__all__ = ["PROCESS", "asked", "completed", "failed", "record_of", "refused"]

PROCESS = "agnt5/shop/run-1"
"""The process of the run ``run-1``."""


def asked(
    key: str = "step:load:0", *, lease: str = "lease-1", value: Any = None, **more: Any
) -> BeginActivationRequest:
    """Return a request to begin a step of the run ``run-1``."""
    found: dict[str, Any] = {
        "project_id": "shop", "run_id": "run-1", "parent_activation_id": "", "kind": ActivationKind.STEP,
        "stable_key": key, "input_digest": input_digest(value), "definition_digest": sha256(b"v1").digest(),
        "recovery_policy": ActivationRecoveryPolicy.DURABLE_STEPS, "worker_session_id": "worker-1",
        "run_authority": b"run-1", "lease_authority": lease.encode(),
    }  # fmt: skip
    return BeginActivationRequest(**{**found, **more})


async def completed(
    activations: SeekpointActivations, decision: ActivationDecision, output: bytes = b'"done"', **more: Any
) -> Any:
    """Complete what was begun."""
    found: dict[str, Any] = {
        "project_id": "shop", "run_id": "run-1", "activation_id": decision.activation_id, "attempt": decision.attempt,
        "fence_token": decision.fence_token, "output": output, "output_digest": sha256(output).digest(),
        "usage": ActivationUsage(), "evidence": (),
    }  # fmt: skip
    return await activations.complete(**{**found, **more})


async def failed(
    activations: SeekpointActivations, decision: ActivationDecision, **more: Any
) -> ActivationFailureReceipt:
    """Fail what was begun."""
    found: dict[str, Any] = {
        "project_id": "shop", "run_id": "run-1", "activation_id": decision.activation_id, "attempt": decision.attempt,
        "fence_token": decision.fence_token, "error_code": "STEP_FAILED",
        "error_data": b'{"message":"boom","type":"ValueError"}', "retryable": False,
        "external_outcome_certainty": "UNKNOWN", "evidence": (),
    }  # fmt: skip
    return await activations.fail(**{**found, **more})


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
