"""The SDK's older checkpoints on a journal: a step that was completed is not executed again."""

from __future__ import annotations

from typing import Any

from agnt5.checkpoint import CheckpointResult

from seekpoint import Ref
from seekpoint.adapters.agnt5.run_journal import RunJournal
from seekpoint.adapters.agnt5.transport import SeekpointActivations

_STEP = "step/"


class SeekpointCheckpoints:
    """A ``CheckpointClient`` for ``WorkflowContext(checkpoint_client=SeekpointCheckpoints(activations))``.

    It serves the steps of contexts without an ``activation_client`` whose body is a callable. Each checkpoint is an
    entry of the run's process. The SDK logs an error of such a client, and executes the step though: use activations.
    A client whose run another owner has taken over does not take it back. Make one for each context.
    """

    def __init__(self, activations: SeekpointActivations, *, inline_bytes: int = 64 * 1024) -> None:
        self._activations = activations
        self._inline_bytes = inline_bytes
        self._used: set[tuple[str, str]] = set()

    async def connect(self) -> None:
        """Do nothing: the node is started."""

    async def step_started(
        self, tenant_id: str, run_id: str, step_key: str, step_name: str, step_type: str = "function",
        input_payload: bytes | None = None,
    ) -> CheckpointResult:  # fmt: skip
        """Record that a step begins; or return its output, if it was completed before."""
        output = await self.get_memoized_step(tenant_id, run_id, step_key)
        if output is not None:
            return CheckpointResult(success=True, memoized=True, cached_output=output)
        await self._write(tenant_id, run_id, step_key, {"type": "STARTED", "name": step_name, "step_type": step_type})
        return CheckpointResult(success=True)

    async def step_completed(
        self, tenant_id: str, run_id: str, step_key: str, step_name: str, step_type: str, output_payload: bytes,
        latency_ms: int | None = None,
    ) -> CheckpointResult:  # fmt: skip
        """Record the output of a step. The first one counts."""
        run = await self._run(tenant_id, run_id)
        payload = await run.stored(output_payload, self._inline_bytes)
        before = await self.get_memoized_step(tenant_id, run_id, step_key)
        if before is not None:
            return CheckpointResult(success=True, memoized=True, cached_output=before)
        record: dict[str, Any] = {"type": "COMPLETED", "name": step_name, "step_type": step_type, "output": payload}
        if latency_ms is not None:
            record["latency_ms"] = latency_ms
        await self._write(tenant_id, run_id, step_key, record)
        return CheckpointResult(success=True)

    async def step_failed(
        self, tenant_id: str, run_id: str, step_key: str, step_name: str, step_type: str, error_message: str,
        error_type: str,
    ) -> CheckpointResult:  # fmt: skip
        """Record that a step failed: the next run of the code makes it again."""
        if await self.get_memoized_step(tenant_id, run_id, step_key) is None:
            record = {"type": "FAILED", "name": step_name, "step_type": step_type, "error_type": error_type,
                      "error_message": error_message[:2_000]}  # fmt: skip
            await self._write(tenant_id, run_id, step_key, record)
        return CheckpointResult(success=True)

    async def get_memoized_step(self, tenant_id: str, run_id: str, step_key: str) -> bytes | None:
        """Return the output of a step that was completed, or None."""
        run = await self._run(tenant_id, run_id)
        found = run.process.written.value(_STEP + step_key)
        if found is None or found["type"] != "COMPLETED":
            return None
        output: str | bytes | Ref = found["output"]
        return await run.loaded(output)

    async def _run(self, tenant_id: str, run_id: str) -> RunJournal:
        is_new = (tenant_id, run_id) not in self._used
        run = await self._activations.run(tenant_id, run_id, is_new=is_new)
        self._used.add((tenant_id, run_id))
        return run

    async def _write(self, tenant_id: str, run_id: str, step_key: str, record: dict[str, Any]) -> None:
        process = (await self._run(tenant_id, run_id)).process
        await process.update(_STEP + step_key, record)
        await process.confirm()
