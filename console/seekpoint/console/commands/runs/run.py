"""``seekpoint run``: run an agent as a process on this machine."""

from __future__ import annotations

import signal
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any

import typer

from seekpoint.console.exit_codes import EXIT_FAULT, EXIT_TERMINATED
from seekpoint.console.render.command_errors import is_debug
from seekpoint.console.render.output import clean, counted, emit_json, fail, say
from seekpoint.console.services.arguments.target import CommandTarget

if TYPE_CHECKING:
    from seekpoint.producers import Agent, Node, Prices
    from seekpoint.schemas.state.process_state import State
from seekpoint.console.services.arguments.import_path import load_agent
from seekpoint.console.services.arguments.options import AgentName, AsJson, PriceFile, ProcessId
from seekpoint.console.services.arguments.price_file import prices_in
from seekpoint.console.services.calls.client_calls import plain_value
from seekpoint.console.services.calls.send_and_confirm import parse_json

_PROGRESS_S = 1.0
_START = "start it with --input JSON, or with --new if the agent takes no input; list processes: seekpoint ps"


def run(
    target: CommandTarget,
    process_id: ProcessId,
    agent: AgentName,
    input: Annotated[str | None, typer.Option("--input", metavar="JSON", help="The agent's input.")] = None,
    new: Annotated[
        bool, typer.Option("--new", help="Start it; refused if it exists, or if the agent needs --input.")
    ] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Resume it; refused if it does not exist.")] = False,
    take_over: Annotated[
        bool, typer.Option("--take-over", help="Claim it even if its owner looks alive; the owner is fenced.")
    ] = False,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Repeat the calls whose failure ended the last run.")
    ] = False,
    prices: PriceFile = None,
    json: AsJson = False,
) -> int:
    """Run an agent as a process and print its result.

    With --new or --input a new process starts. Else an existing one resumes. Progress goes to stderr.
    """
    import asyncio

    from seekpoint.schemas.errors import SeekpointError, UnknownProcess

    if new and resume:
        raise typer.BadParameter("give --new or --resume, not both", param_hint="--new")

    begins = True if new else False if resume or input is None else None
    file = target.settings.sqlite_path
    if begins is False and file is not None and not file.exists():
        raise UnknownProcess("no such process: its journal's file is not there yet", process_id=process_id,
            file=str(file), hint=_START)  # fmt: skip
    target.reachable(may_create=begins is not False)
    loaded, value = load_agent(agent), _parse_input(input)
    known = prices_in(prices)
    try:
        result = asyncio.run(_run(target, process_id, loaded, value, take_over, retry_failed, begins, known))
    except UnknownProcess as absent:
        absent.hint = _START
        raise
    except SeekpointError:
        raise
    except _AgentFailed as failed:
        exc = failed.error
        if is_debug():
            raise exc from None
        what = f"{process_id}: the agent failed: {type(exc).__name__}: {exc}"
        facts = {"process_id": process_id, "type": type(exc).__name__}
        about = {"message": what, "advice": failed.advice, "facts": facts}
        fail(f"{what}; {failed.advice}", code="AgentFailed", about=about)
        return EXIT_FAULT
    except asyncio.CancelledError:  # SIGTERM: the process was released
        return EXIT_TERMINATED
    if json:
        emit_json({"process_id": process_id, "result": plain_value(result)})
    else:
        emit_json(plain_value(result))
    return 0


def _parse_input(text: str | None) -> Any:
    from seekpoint.producers.agent_run import RECORDED

    return RECORDED if text is None else parse_json(text, "--input")


class _AgentFailed(Exception):
    """An error of the agent's own code, with advice on how to continue."""

    def __init__(self, error: Exception, advice: str) -> None:
        super().__init__(str(error))
        self.error = error
        self.advice = advice


async def _run(
    target: CommandTarget,
    process_id: str,
    agent: Agent,
    value: Any,
    take_over: bool,
    retry_failed: bool,
    new: bool | None,
    prices: Prices | None,
) -> Any:
    import asyncio

    from seekpoint.producers import Node
    from seekpoint.producers.durable.failures.failed_calls import failed_calls
    from seekpoint.producers.opening import wait_for_death_s
    from seekpoint.schemas.errors import SeekpointError

    _cancel_on_sigterm()
    async with Node.connect(target.settings) as node:
        node.prices = prices
        progress = asyncio.create_task(_report_progress(node, process_id))
        try:
            wait_s = 0 if take_over else wait_for_death_s(target.settings)
            result = await node.run(
                agent, process_id, value, take_over=take_over, wait_s=wait_s, retry_failed=retry_failed, new=new
            )
        except Exception as exc:
            advice = await _advice(node, process_id, exc)
            if not isinstance(exc, SeekpointError):
                raise _AgentFailed(exc, advice) from exc
            if failed_calls(exc):
                say(clean(f"{process_id}: {advice}"))
            raise
        finally:
            progress.cancel()
            await asyncio.wait({progress})
        say(f"{process_id}: finished")
        return result


async def _advice(node: Node, process_id: str, error: Exception) -> str:
    from seekpoint.producers.durable.failures.redriven_calls import next_action
    from seekpoint.schemas.errors import SeekpointError

    try:
        state = (await node.recover(process_id)).state
    except SeekpointError:  # the user sees the error of the run
        return "run it again to resume"
    return next_action(process_id, error, state.calls)


def _cancel_on_sigterm() -> None:
    """Let SIGTERM cancel the current task, which releases the process. A second SIGTERM ends the program."""
    import asyncio

    loop, task = asyncio.get_running_loop(), asyncio.current_task()

    def cancel() -> None:
        loop.remove_signal_handler(signal.SIGTERM)
        if task is not None:
            task.cancel()

    with suppress(NotImplementedError, ValueError, RuntimeError):  # Windows, and a thread that is not the main one
        loop.add_signal_handler(signal.SIGTERM, cancel)


async def _report_progress(node: Node, process_id: str) -> None:
    """Print the progress of the process to stderr whenever it changes."""
    import asyncio

    last_line = None
    while True:
        await asyncio.sleep(_PROGRESS_S)
        try:
            state = (await node.recover(process_id, missing_ok=True)).state
        except Exception as exc:  # a failed progress report must not end the run
            say(clean(f"{process_id}: {exc}"))
            continue
        if state.owner is not None and state.owner_node != node.node_id:
            line = clean(f"{process_id}: owned by {state.owner_node}; waiting until that node is dead or releases it")
        else:
            line = _progress(process_id, state)
        if line != last_line:
            say(line)
            last_line = line


def _progress(process_id: str, state: State) -> str:
    turn = f", turn {state.turn + 1}" if state.turn or state.turn_frame else ""
    waits = [key for key, call in state.calls.items() if call.status in ("started", "pending", "unknown")]
    at = f", at {waits[0]}" if waits else ""
    return clean(f"{process_id}: {state.lifecycle}{turn}, {counted(len(state.calls), 'call')} recorded{at}")
