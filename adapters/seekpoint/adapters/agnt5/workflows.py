"""Execute workflows of the SDK here, with a journal in the place of AGNT5's coordinator."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import copy_context
from hashlib import sha256
from typing import Any, cast
from uuid import uuid4

from agnt5.activation import ActivationClient, ActivationKind, ActivationRecoveryPolicy, ChildJoinPolicy
from agnt5.context import set_current_context
from agnt5.exceptions import ActivationError, ActivationErrorCode, DurableSleepSuspension, WaitingForUserInputException
from agnt5.workflow import WorkflowContext, WorkflowEntity, WorkflowRegistry

from seekpoint import Node, Process
from seekpoint.adapters.agnt5.activation_records import Status
from seekpoint.adapters.agnt5.error_codes import activation_errors
from seekpoint.adapters.agnt5.run_journal import RunJournal, process_id_of
from seekpoint.adapters.agnt5.transport import SeekpointActivations
from seekpoint.errors import AgentMismatch, HandleLost, InvalidOption, ProcessFinished, Refused, Retryable

_PAUSES = (DurableSleepSuspension, WaitingForUserInputException)
_LOOK_S = 1.0
"""How often a sleeping run looks whether it was cancelled."""
_RUN = "run"
_PAUSE, _ANSWER = "pause", "answer/"
_TO_RUNNING = {
    "created": ("starting", "running"), "stopped": ("starting", "running"), "failed": ("starting", "running"),
    "starting": ("running",), "awaiting": ("running",), "suspended": ("running",),
}  # fmt: skip
_NO_ARTIFACT = sha256(b"").hexdigest()


class DurableWorkflows:
    """Runs workflows of the SDK: ``await DurableWorkflows(node).run(order, "order-17", {"article": "shoes"})``.

    ``node`` may be the process of an agent of Seekpoint whose code runs the workflow: then its node executes the run,
    and takes it over, because whoever owns the agent's process may.

    ``project_id`` and ``version`` are the identity that AGNT5's platform gives to a project and to its deployed code. A
    run that began with another ``version``, or another ``artifact_sha256``, is refused by each activation
    (NON_DETERMINISTIC_REPLAY). The other options are those of ``SeekpointActivations``.
    """

    def __init__(
        self,
        node: Node | Process,
        *,
        project_id: str = "default",
        version: str = "1",
        artifact_sha256: str = _NO_ARTIFACT,
        prefix: str = "agnt5",
        take_over: bool = False,
        wait_s: float = 0.0,
        retry_failed: bool = False,
        errors: Collection[type[Exception]] = (),
        policies: Mapping[ActivationKind, ActivationRecoveryPolicy] | None = None,
    ) -> None:
        self._agent = node if isinstance(node, Process) else None
        if isinstance(node, Process):
            node, take_over = cast("Node", node.node), True
        self._node = node
        self._project_id = project_id
        self._version = version
        self._artifact_sha256 = artifact_sha256
        self._executed: set[str] = set()
        self.activations = SeekpointActivations(
            node, prefix=prefix, take_over=take_over, wait_s=wait_s, retry_failed=retry_failed, errors=errors,
            policies=policies,
        )  # fmt: skip

    async def __aenter__(self) -> DurableWorkflows:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.activations.close()

    async def run(
        self, workflow: Callable[..., Any] | str, run_id: str, input: Mapping[str, Any] | None = None
    ) -> Any:  # fmt: skip
        """Execute a workflow from its beginning or from where it was; return its result.

        ``workflow`` is a function with the SDK's ``@workflow``, or its name. Leave ``input`` out to go on with the
        recorded one. A run that is finished answers its result, and executes nothing. A sleep of the workflow waits
        here. Where it waits for a person, ``WaitingForUserInputException`` is raised: ``answer`` it, and run it again.

        Raises ``ActivationError``: CONTENDED while another program executes the run, STALE_AUTHORITY once another one
        has taken it over; ``AgentMismatch`` for a run of another workflow or input; and what the workflow raises.
        """
        name, handler = _handler_of(workflow)
        with self._alone(run_id):
            return await self._run(name, handler, run_id, input)

    async def _run(
        self, name: str, handler: Callable[..., Any], run_id: str, input: Mapping[str, Any] | None
    ) -> Any:  # fmt: skip
        process_id = process_id_of(self.activations.prefix, self._project_id, run_id)
        await self._refuse_former_owner()
        try:
            with activation_errors():
                journal = await self.activations.run(self._project_id, run_id)
        except ActivationError as exc:
            if isinstance(exc.__cause__, ProcessFinished):
                return await self._result(process_id, name, input)
            raise
        try:
            await self._begin(journal.process, run_id, name, input)
            result = await self._dispatched(journal, run_id, name, handler)
            if journal.stopped is not None:
                raise journal.stopped
            _check_children(journal)
            with activation_errors():
                await journal.process.finish(result)
        except AgentMismatch:
            raise
        except Exception as exc:
            await _failed(journal.process, exc)
            raise
        finally:
            with suppress(ActivationError):  # it is lost, and the call before has said so
                await self.activations.release(self._project_id, run_id)
        return result

    async def answer(self, run_id: str, response: str | None) -> None:
        """Answer the question for which a run waits. Raises ``Refused`` where it waits for none."""
        with self._alone(run_id), activation_errors():
            journal = await self.activations.run(self._project_id, run_id)
            try:
                asked = journal.process.written.value(_PAUSE)
                if asked is None:
                    raise Refused("the run waits for no answer", process_id=journal.process.process_id,
                                  hint="run it until it raises WaitingForUserInputException")  # fmt: skip
                answered = {f"{_ANSWER}{asked['pause_index']}": response}
                await journal.process.change(set=answered, delete=[_PAUSE])
                await journal.process.confirm()
            finally:
                await self.activations.release(self._project_id, run_id)

    async def _refuse_former_owner(self) -> None:
        """Raise STALE_AUTHORITY if another owner has claimed the agent's process: the run is that one's now."""
        agent = self._agent
        if agent is None:
            return
        with activation_errors():
            epoch = (await self._node.recover(agent.process_id)).state.epoch
        if epoch != agent.written.epoch:
            raise ActivationError(
                ActivationErrorCode.STALE_AUTHORITY, f"another owner has claimed the agent's process {agent.process_id}"
            )

    @contextmanager
    def _alone(self, run_id: str) -> Iterator[None]:
        """Raise CONTENDED while another task of this program executes the run."""
        if run_id in self._executed:
            raise ActivationError(ActivationErrorCode.CONTENDED, f"this program executes the run {run_id!r} already")
        self._executed.add(run_id)
        try:
            yield
        finally:
            self._executed.discard(run_id)

    # --- beginning and ending
    async def _begin(
        self, process: Process, run_id: str, name: str, input: Mapping[str, Any] | None
    ) -> None:  # fmt: skip
        """Record with what the run begins, or compare it with what is recorded."""
        known = process.written.value(_RUN)
        if known is None:
            known = {"workflow": name, "run_id": run_id, "project_id": self._project_id, "input": dict(input or {})}
            await process.update(_RUN, known)
        _refuse_mismatch(known, name, input, process.process_id)
        await asyncio.gather(*(process.transition(to) for to in _TO_RUNNING.get(process.written.lifecycle, ())))

    async def _result(self, process_id: str, name: str, input: Mapping[str, Any] | None) -> Any:
        state = (await self._node.recover(process_id)).state
        if (known := state.value(_RUN)) is not None:  # a finished run keeps its content for a while
            _refuse_mismatch(known, name, input, process_id)
        return state.result

    # --- executing
    async def _dispatched(self, journal: RunJournal, run_id: str, name: str, handler: Callable[..., Any]) -> Any:
        """Execute the workflow's code until it ends, once more after each sleep."""
        while True:
            await self._woken(journal, run_id)
            context = self._context(journal, run_id, name)
            given = journal.process.written.value(_RUN)["input"]
            task = asyncio.create_task(_called(handler, context, given), context=copy_context())
            try:
                return await task
            except DurableSleepSuspension:
                pass  # it is one of the journal's sleeps
            except WaitingForUserInputException as pause:
                process = journal.process
                await asyncio.gather(process.update(_PAUSE, _asked(pause)), process.transition("awaiting"))
                raise
            except asyncio.CancelledError:
                for one in (task, *journal.tasks):
                    one.cancel()
                raise
            finally:
                await self._settled(journal, run_id, task)

    async def _settled(self, journal: RunJournal, run_id: str, task: asyncio.Task[Any]) -> None:
        """Wait until all branches of the code are over, so that nothing is made twice; record those that sleep."""
        running: set[asyncio.Task[Any]] = {task}
        while running or journal.sleeps:
            if running:
                await _one_over(running)
            while journal.sleeps:
                await self.activations.suspend(self._project_id, run_id, journal.sleeps.pop())
            running = set(journal.tasks)
        if not task.cancelled() and isinstance(task.exception(), _PAUSES):
            await self.activations.pause(self._project_id, run_id)

    async def _woken(self, journal: RunJournal, run_id: str) -> None:
        """Wait for the first timer of a workflow that sleeps, and complete the timers that are due."""
        asleep = {key: one for key, one in journal.activations().items() if one.status is Status.SUSPENDED}
        if not asleep:
            return
        due_ms = min(one.ready_at_ms for one in asleep.values())
        due = asyncio.ensure_future(self._node.clock.until(due_ms * 1_000))
        try:
            while not (due.done() or await journal.is_cancelled()):
                await asyncio.wait({due}, timeout=_LOOK_S)
        finally:
            due.cancel()
        for activation_id, one in asleep.items():
            if one.ready_at_ms <= self._node.clock.now_us() // 1_000:
                await self.activations.wake(self._project_id, run_id, activation_id)

    def _context(self, journal: RunJournal, run_id: str, name: str) -> WorkflowContext:
        """Return the context of one dispatch, with a lease of its own."""
        entity = WorkflowEntity(run_id=run_id, component_name=name)
        for one in journal.activations().values():
            if one.kind == ActivationKind.TIMER.name and one.status is Status.COMPLETED:
                entity.record_step_completion(one.stable_key, "sleep", None, None)
        written = journal.process.written
        for key in written.values_json:
            if key.startswith(_ANSWER):
                step = f"user_response:{run_id}:{key.removeprefix(_ANSWER)}"
                entity.record_step_completion(step, "user_response", None, written.value(key))
        return WorkflowContext(
            workflow_entity=entity, run_id=run_id, activation_client=ActivationClient(self.activations),
            worker=_NoEvents(),
            trace_metadata={
                "project_id": self._project_id, "component_name": name, "worker_session_id": self._node.node_id,
                "run_authority": journal.process.process_id, "lease_authority": f"{journal.epoch}/{uuid4().hex}",
                "activation_artifact_sha256": self._artifact_sha256, "activation_definition_version": self._version,
                "activation_definition_config": '["object",[]]',
                "durable_activation_v1": "true", "durable_suspension_v1": "true",
            },
        )  # fmt: skip


async def _one_over(running: set[asyncio.Task[Any]]) -> None:
    try:
        await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
    except asyncio.CancelledError:
        for one in running:
            one.cancel()
        raise


async def _called(handler: Callable[..., Any], context: WorkflowContext, given: Mapping[str, Any]) -> Any:
    set_current_context(context)  # of this task: it ends with the context variables
    return await handler(context, **given)


def _check_children(journal: RunJournal) -> None:
    for activation_id, one in journal.activations().items():
        is_required = one.child is not None and one.child["join_policy"] == ChildJoinPolicy.REQUIRED.name
        if is_required and one.status not in (Status.COMPLETED, Status.FAILED, Status.CANCELLED):
            raise ActivationError(
                ActivationErrorCode.REQUIRED_CHILD_UNRESOLVED, f"the run ends, and its child {one.stable_key} is "
                f"{one.status}", activation_id=activation_id, attempt=one.attempt,
            )  # fmt: skip


async def _failed(process: Process, error: Exception) -> None:
    with suppress(HandleLost, Retryable, Refused):  # the workflow's own error says more
        await process.record_error(error)
        await process.transition("failed")


def _handler_of(workflow: Callable[..., Any] | str) -> tuple[str, Callable[..., Any]]:
    """Return the registered name and function of a workflow."""
    known = WorkflowRegistry.all()
    if isinstance(workflow, str):
        if workflow in known:
            return workflow, known[workflow].handler
        raise InvalidOption("no workflow of that name is registered", option=workflow[:100],
                            hint="import the module that has it; it needs the decorator @workflow")  # fmt: skip
    function = inspect.unwrap(workflow)
    for name, config in known.items():
        if inspect.unwrap(config.handler) is function:
            return name, config.handler
    raise InvalidOption("the function is no registered workflow", option=getattr(workflow, "__qualname__", "?"),
                        hint="decorate it with @workflow of agnt5")  # fmt: skip


def _refuse_mismatch(
    known: Mapping[str, Any], name: str, input: Mapping[str, Any] | None, process_id: str
) -> None:  # fmt: skip
    if known["workflow"] != name:
        raise AgentMismatch(f"the run began as {known['workflow']!r}", process_id=process_id, difference="workflow")
    if input is not None and known["input"] != dict(input):
        raise AgentMismatch("the run began with another input", process_id=process_id, difference="input")


def _asked(pause: WaitingForUserInputException) -> dict[str, Any]:
    return {
        "question": pause.question, "pause_index": pause.pause_index, "input_type": pause.input_type,
        "options": pause.options,
    }  # fmt: skip


class _NoEvents:
    """Stands for the SDK's connection to its platform, to which contexts send events for display. It drops them."""

    def queue_event(self, **event: Any) -> None:
        """Drop an event."""

    def emit_event_sync(self, **event: Any) -> None:
        """Drop an event."""

    async def emit_event_async(self, **event: Any) -> None:
        """Drop an event."""

    async def emit_event_batch_async(self, *events: Any, **options: Any) -> None:
        """Drop events."""
