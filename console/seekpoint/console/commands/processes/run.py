"""``seekpoint run``: run an agent as a process on this machine."""

from __future__ import annotations

import signal
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any

import typer

from seekpoint.console.exit_codes import EXIT_FAULT, EXIT_TERMINATED
from seekpoint.console.render.command_errors import is_debug
from seekpoint.console.render.listing import with_similar_ids
from seekpoint.console.render.output import clean, counted, emit_json, fail, say
from seekpoint.console.services.target import CommandTarget

if TYPE_CHECKING:
    from seekpoint.producers import Agent, Node
    from seekpoint.schemas.config.settings import Settings
    from seekpoint.schemas.state.state import State
from seekpoint.console.services.import_path import load_agent
from seekpoint.console.services.options import AgentName, AsJson, ProcessId

__all__ = ["patience_s", "run"]

_PROGRESS_S = 1.0


def run(
    target: CommandTarget,
    process_id: ProcessId,
    agent: AgentName,
    input: Annotated[str | None, typer.Option("--input", metavar="JSON", help="What it is given.")] = None,
    new: Annotated[bool, typer.Option("--new", help="Begin it; refused if it exists, or needs an --input.")] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Resume it; refused if it does not exist.")] = False,
    take_over: Annotated[bool, typer.Option("--take-over", help="Though its owner looks alive: it is fenced.")] = False,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Make the calls again whose failure ended its last run.")
    ] = False,
    json: AsJson = False,
) -> int:
    """Run an agent as a process; its result goes to stdout.

    From its beginning (--new, or by its --input), or from where it was; progress goes to stderr.
    """
    import asyncio

    from seekpoint.schemas.errors import SeekpointError, UnknownProcess

    if new and resume:
        raise typer.BadParameter("it goes without --resume", param_hint="--new")

    target.require_kafka()
    wanted, given = load_agent(agent), _json(input)
    begins = True if new else False if resume or input is None else None
    try:
        result = asyncio.run(_run(target, process_id, wanted, given, take_over, retry_failed, begins))
    except UnknownProcess as absent:
        way = "begin it with --input JSON, or with --new if the agent takes no input"
        raise with_similar_ids(target, absent, way) from absent
    except SeekpointError:
        raise
    except _AgentFailed as failed:
        exc = failed.error
        if is_debug():
            raise exc from None
        fail(f"{process_id}: the agent failed: {type(exc).__name__}: {exc}; {failed.way_on}")
        return EXIT_FAULT
    except asyncio.CancelledError:  # by SIGTERM: the process was released
        return EXIT_TERMINATED
    if json:
        emit_json({"process_id": process_id, "result": _plain(result)})
    else:
        emit_json(_plain(result))
    return 0


def _json(text: str | None) -> Any:
    from seekpoint.producers.agent_run import RECORDED
    from seekpoint.schemas.errors import UnserializableValue
    from seekpoint.schemas.values.json_values import load

    if text is None:
        return RECORDED
    import orjson

    try:
        orjson.loads(text)
        return load(text)
    except (orjson.JSONDecodeError, UnserializableValue, ValueError) as exc:
        raise typer.BadParameter(f"no JSON: {exc}", param_hint="--input") from exc


def _plain(value: Any) -> Any:
    """As JSON has it: what JSON lacks as the tagged objects of the journal."""
    import orjson

    from seekpoint.schemas.values.json_values import dump

    return orjson.loads(dump(value))


class _AgentFailed(Exception):
    """What the agent's own code raised, and what to do about it."""

    def __init__(self, error: Exception, way_on: str) -> None:
        super().__init__(str(error))
        self.error = error
        self.way_on = way_on


async def _run(
    target: CommandTarget,
    process_id: str,
    agent: Agent,
    given: Any,
    take_over: bool,
    retry_failed: bool,
    new: bool | None,
) -> Any:
    import asyncio

    from seekpoint.producers import Node
    from seekpoint.producers.durable.failures.failed_calls import failed_calls
    from seekpoint.schemas.errors import SeekpointError

    _leave_on_sigterm()
    async with Node.connect(target.settings) as node:
        telling = asyncio.create_task(_tell(node, process_id))
        try:
            wait_s = 0 if take_over else patience_s(target.settings)
            result = await node.run(
                agent, process_id, given, take_over=take_over, wait_s=wait_s, retry_failed=retry_failed, new=new
            )
        except Exception as exc:
            way = await _way_on(node, process_id, exc)
            if not isinstance(exc, SeekpointError):
                raise _AgentFailed(exc, way) from exc
            if failed_calls(exc):
                say(clean(f"{process_id}: {way}"))
            raise
        finally:
            telling.cancel()
            await asyncio.wait({telling})
        say(f"{process_id}: finished")
        return result


async def _way_on(node: Node, process_id: str, error: Exception) -> str:
    from seekpoint.producers.durable.failures.redrive import way_on
    from seekpoint.schemas.errors import SeekpointError

    try:
        state = (await node.recover(process_id)).state
    except SeekpointError:  # the run's own error is told
        return "run it again to resume"
    return way_on(process_id, error, state.calls)


def _leave_on_sigterm() -> None:
    """SIGTERM cancels the task that asks, as Ctrl-C does: its process is released. A second one ends the program."""
    import asyncio

    loop, task = asyncio.get_running_loop(), asyncio.current_task()

    def leave() -> None:
        loop.remove_signal_handler(signal.SIGTERM)
        if task is not None:
            task.cancel()

    with suppress(NotImplementedError, ValueError, RuntimeError):  # Windows, and a thread that is not the main one
        loop.add_signal_handler(signal.SIGTERM, leave)


def patience_s(settings: Settings) -> float:
    """How long a run waits for its process: whoever was killed is seen to be dead by then."""
    return settings.owner_timeout_s + 2 * settings.heartbeat_interval_s + 1


async def _tell(node: Node, process_id: str) -> None:
    """What came of it so far, on stderr, whenever that has changed."""
    import asyncio

    told = None
    while True:
        await asyncio.sleep(_PROGRESS_S)
        try:
            state = (await node.recover(process_id, missing_ok=True)).state
        except Exception as exc:  # progress is a service; the run itself tells what is wrong
            say(clean(f"{process_id}: {exc}"))
            continue
        if state.owner is not None and state.owner_node != node.node_id:
            line = clean(f"{process_id}: owned by {state.owner_node}; waits until that is seen to be dead, or is free")
        else:
            line = _progress(process_id, state)
        if line != told:
            say(line)
            told = line


def _progress(process_id: str, state: State) -> str:
    turn = f", turn {state.turn + 1}" if state.turn or state.turn_frame else ""
    waits = [key for key, call in state.calls.items() if call.status in ("started", "pending", "unknown")]
    at = f", at {waits[0]}" if waits else ""
    return clean(f"{process_id}: {state.lifecycle}{turn}, {counted(len(state.calls), 'call')} remembered{at}")
