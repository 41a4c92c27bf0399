"""Record what an agent does as calls of a process. Pydantic AI calls it operations, which a backend executes."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Generic, Literal, TypeVar

from pydantic_ai.durable_exec import (
    BoundDurableOperation,
    CapabilityOperationId,
    DurableOperation,
    DurableOperationBackend,
    DurableOperationId,
    DynamicToolsetCallToolParams,
    EventStreamHandlerId,
    ModelCancelSuspendedResponseId,
    ModelCompactMessagesParams,
    ModelRequestParams,
    ToolsetCallToolId,
    ToolsetCallToolParams,
    ToolsetGetInstructionsId,
    ToolsetGetToolsId,
    ToolsetValidateToolArgumentsId,
    durable_unit_scope,
    record_durable_unit,
)
from pydantic_ai.exceptions import UserError
from pydantic_ai.toolsets import ToolsetTool

from seekpoint import Effect
from seekpoint.adapters.pydantic_ai.current_run import DurableRun, current_run
from seekpoint.adapters.pydantic_ai.model_errors import as_recorded, prepared
from seekpoint.adapters.pydantic_ai.model_records import compaction_json, request_json, response_json, usage_of
from seekpoint.adapters.pydantic_ai.tool_records import arguments_json, failed_json, lost_json, output_json, result_of
from seekpoint.adapters.run_calls import has_run, idempotency_key
from seekpoint.errors import EffectFailed, LimitExceeded, UnserializableValue

logger = logging.getLogger("seekpoint.adapters")

P = TypeVar("P")
W = TypeVar("W")
R = TypeVar("R")
_Config = Mapping[str, Any]


class SeekpointOperations(DurableOperationBackend[_Config]):
    """The backend of ``SeekpointDurability``. ``effects`` has the semantics of tools, by name."""

    def __init__(self, effects: Mapping[str, Effect]) -> None:
        self.effects = effects

    def bind(self, operation: DurableOperation[P, W, R]) -> BoundDurableOperation[P, W, R]:
        """Return the operation as a call of whichever process runs it."""
        return _Recorded(operation, self.effects)

    def config_for_tool(
        self, operation: DurableOperation[P, W, R], *, tool: object | None, tool_name: str
    ) -> _Config | Literal[False]:
        """Return False for a tool whose metadata says that it is no call of its own."""
        metadata = (tool.tool_def.metadata if isinstance(tool, ToolsetTool) else None) or {}
        found = metadata.get("seekpoint")
        if found is None:
            return {}
        if found is not False:
            raise UserError(
                f"Tool {tool_name!r} has invalid 'seekpoint' metadata: only `False` is known, and means that the tool "
                "is no step. For its semantics, use `SeekpointDurability(effects={...})`."
            )
        if tool_name in self.effects:
            raise UserError(f"Tool {tool_name!r} is an effect, and cannot run outside of one: drop its metadata.")
        return False

    def registrations(self) -> Sequence[Callable[..., object]]:
        """Return nothing: a worker knows its agents."""
        return ()


class _Recorded(BoundDurableOperation[P, W, R], Generic[P, W, R]):
    """One operation of an agent."""

    def __init__(self, operation: DurableOperation[P, W, R], effects: Mapping[str, Effect]) -> None:
        self._operation = operation
        self._effects = effects

    @property
    def operation(self) -> DurableOperation[P, W, R]:
        """The operation."""
        return self._operation

    async def __call__(self, params: P, *, config: object | None = None) -> R:
        """Return the recorded result, or execute the operation and record it."""
        run = current_run()
        assert run is not None  # Pydantic AI asks before whether the code is in one
        run.check_loop()
        executed = False

        async def work(given: Any, key: str) -> Any:
            nonlocal executed
            executed = True
            with run.inside(key), durable_unit_scope():
                return self._operation.result_codec.dump(await self._operation.handler(given))

        try:
            payload = await self._payload(run, params, work)
        finally:
            record_durable_unit(executed=executed)
        return self._operation.result_codec.load(payload)

    async def _payload(self, run: DurableRun, params: Any, work: Callable[[Any, str], Any]) -> Any:
        operation_id = self._operation.operation_id
        if isinstance(params, ModelRequestParams):
            request = request_json(params, _model_name(operation_id), run.records)
            return await _decided(run, "model", params, request, work)
        if isinstance(params, ModelCompactMessagesParams):
            request = compaction_json(params, _model_name(operation_id), run.records)
            return await _decided(run, "compact", params, request, work)
        if isinstance(params, ToolsetCallToolParams | DynamicToolsetCallToolParams):
            arguments, call_id = arguments_json(params.tool_args), params.ctx.tool_call_id
            if isinstance(operation_id, ToolsetCallToolId):
                return await self._tool(run, params, arguments, call_id, work)
            return await _step(run, f"{params.name} arguments", params, work, arguments, call_id)
        return await _step(run, _name(operation_id), params, work)

    async def _tool(
        self, run: DurableRun, params: Any, arguments: Any, call_id: str | None, work: Callable[[Any, str], Any]
    ) -> Any:
        async def body() -> Any:
            key = idempotency_key()
            try:
                return output_json(await work(params, key))
            except UnserializableValue as exc:
                logger.warning("%s: the tool has run, but its result is lost: %s", key, exc)
                return output_json(lost_json())

        try:
            recorded = await run.calls.tool(params.name, body, arguments, call_id, self._effects.get(params.name))
        except EffectFailed as exc:  # somebody found out: the model is told
            return failed_json(exc.reason or exc.message)
        except (LimitExceeded, UnserializableValue) as exc:
            if not has_run(exc):
                raise
            return lost_json()
        return result_of(recorded)


async def _decided(
    run: DurableRun, name: str, params: Any, request: dict[str, Any], work: Callable[[Any, str], Any]
) -> Any:
    async def ask(asked: dict[str, Any], *, idempotency_key: str) -> dict[str, Any]:
        model = asked["model"]
        given = params if model == request["model"] else replace(params, model_id=model)  # a rerun names another one
        try:
            return response_json(await work(given, idempotency_key), model)
        except Exception as exc:
            raise prepared(exc)  # noqa: B904 - it is the same error

    try:
        return await run.calls.decide(name, ask, request, usage_of)
    except Exception as exc:
        raise as_recorded(exc)  # noqa: B904 - it is the same error


async def _step(run: DurableRun, name: str, params: Any, work: Callable[[Any, str], Any], *arguments: Any) -> Any:
    async def body(*arguments: Any, idempotency_key: str) -> Any:
        return await work(params, idempotency_key)

    return await run.calls.step(name, body, *arguments)


def _model_name(operation_id: DurableOperationId) -> str:
    """Return the model of a request as a rerun may name it: by the id that the code gave it, else by its name."""
    return getattr(operation_id, "model_id", None) or str(getattr(operation_id, "model_name", ""))


def _name(operation_id: DurableOperationId) -> str:
    """Return the name of the step. Journals have these names: they never change."""
    match operation_id:
        case ModelCancelSuspendedResponseId():
            return "cancel response"
        case EventStreamHandlerId():
            return "event"
        case ToolsetGetToolsId(toolset_id=toolset):
            return f"{toolset} tools"
        case ToolsetGetInstructionsId(toolset_id=toolset):
            return f"{toolset} instructions"
        case ToolsetValidateToolArgumentsId(toolset_id=toolset):
            return f"{toolset} arguments"
        case CapabilityOperationId(capability_id=capability, operation=operation):
            return f"{capability}.{operation}"
    return type(operation_id).__name__
