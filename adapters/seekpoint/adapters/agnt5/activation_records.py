"""The record of an activation, as it is in the context of its run's process.

Each step in an activation's life is one entry, which sets the value ``actv1_...`` of the context to the whole record as
of then. So the newest state has all activations of the run, and the entries of the process have their history.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from enum import StrEnum
from typing import Any

from agnt5.activation import ActivationKind, ActivationRecoveryPolicy, BeginActivationRequest, ChildActivationLinkage

from seekpoint import Ref

__all__ = ["PREFIX", "Activation", "Lease", "Payload", "Status", "child_of", "lease_of", "payload_of"]

PREFIX = "actv1_"
Payload = str | bytes | Ref
"""Bytes of the SDK in a record: a text where they are one, for people to read; a reference where they are many."""


class Status(StrEnum):
    """The status of an activation."""

    ACTIVE = "ACTIVE"
    RETRY_READY = "RETRY_READY"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    SUSPENDED = "SUSPENDED"
    CANCELLED = "CANCELLED"
    UNKNOWN_OUTCOME = "UNKNOWN_OUTCOME"


@dataclass(frozen=True, slots=True)
class Lease:
    """The lease with which a worker executes a run. A new dispatch of the run has another one."""

    worker_session_id: str
    run_authority: str | bytes
    lease_authority: str | bytes


@dataclass(frozen=True, slots=True)
class Activation:
    """One activation of a run as of its newest entry."""

    status: Status
    number: int
    """The number of this record among all records of the run: what the SDK calls its journal offset."""
    kind: str
    stable_key: str
    input_digest: str
    definition_digest: str
    recovery_policy: str
    attempt: int = 0
    fence_token: str = ""
    previous_attempt: int = 0
    epoch: int = 0
    """The epoch of the process when the attempt began: an attempt of an earlier owner is not under way any more."""
    lease: Lease | None = None
    parent_activation_id: str = ""
    display_name: str = ""
    child: Mapping[str, Any] | None = None
    input: Payload | None = None
    """The request, for people. It is in the entry that begins an attempt, and dropped when the attempt ends."""
    output: Payload | None = None
    output_digest: str = ""
    usage: Mapping[str, Any] | None = None
    evidence: tuple[Mapping[str, Any], ...] = ()
    error_code: str = ""
    error_data: Payload | None = None
    retryable: bool = False
    external_outcome_certainty: str = ""
    latency_ms: int = 0
    timer_key: str = ""
    ready_at_ms: int = 0
    reason: str = ""

    def value(self) -> dict[str, Any]:
        """Return the record as a context value: what is not said is left out."""
        found = {one.name: getattr(self, one.name) for one in fields(self)}
        found["status"] = str(self.status)
        found["lease"] = None if self.lease is None else asdict(self.lease)
        found["evidence"] = list(self.evidence)
        said = {name: value for name, value in found.items() if value not in _UNSAID}
        return {"about": f"{self.kind} {self.stable_key} {self.status}", **said}  # the first of the sorted names

    @classmethod
    def of(cls, value: Mapping[str, Any]) -> Activation:
        """Return the record that a context value is. What a newer version has added is left out."""
        given = {name: found for name, found in value.items() if name in _NAMES}
        given["status"] = Status(given["status"])
        if "lease" in given:
            given["lease"] = Lease(**given["lease"])
        given["evidence"] = tuple(given.get("evidence", ()))
        return cls(**given)


_NAMES = frozenset(one.name for one in fields(Activation))
_UNSAID: tuple[Any, ...] = (None, "", 0, False, [])


def lease_of(request: BeginActivationRequest) -> Lease:
    """Return the lease of a request."""
    return Lease(
        request.worker_session_id, _readable(request.run_authority), _readable(request.lease_authority)
    )  # fmt: skip


def child_of(child: ChildActivationLinkage | None) -> dict[str, Any] | None:
    """Return the linkage of a delegated child as a value."""
    if child is None:
        return None
    return {
        "child_key": child.child_key, "child_run_id": child.child_run_id, "child_session_id": child.child_session_id,
        "child_definition_digest": child.child_definition_digest.hex(), "join_policy": child.join_policy.name,
    }  # fmt: skip


def payload_of(data: bytes) -> str | bytes:
    """Return bytes as they are in a record."""
    return _readable(data)


def _readable(data: bytes) -> str | bytes:
    try:
        return bytes(data).decode()
    except UnicodeDecodeError:
        return bytes(data)


def new_activation(request: BeginActivationRequest) -> Activation:
    """Return the record of an activation that nobody has begun, and that is not written."""
    return Activation(
        status=Status.RETRY_READY, number=0, kind=ActivationKind(request.kind).name, stable_key=request.stable_key,
        input_digest=request.input_digest.hex(), definition_digest=request.definition_digest.hex(),
        recovery_policy=ActivationRecoveryPolicy(request.recovery_policy).name,
        parent_activation_id=request.parent_activation_id, display_name=request.display_name,
        child=child_of(request.child),
    )  # fmt: skip
