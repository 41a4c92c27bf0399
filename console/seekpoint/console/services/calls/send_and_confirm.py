"""Send something to a process from the command line: the sender's name, the value, and a node of its own."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import uuid4

import typer

if TYPE_CHECKING:
    from seekpoint.producers import Node
    from seekpoint.producers.node_calls.control_calls import ControlCalls
    from seekpoint.schemas.config.settings import Settings

__all__ = ["parse_json", "send_and_confirm", "sent_and_confirmed", "user_name", "with_node"]

_T = TypeVar("_T")
_Sender = TypeVar("_Sender", bound="ControlCalls")


def user_name(option: str) -> str:
    """Return the user's name. Raises ``BadParameter`` if the user has none."""
    import getpass

    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user without a name
        raise typer.BadParameter("give your name", param_hint=option) from None


def parse_json(text: str, option: str) -> Any:
    """Parse a JSON text of the command line. Raises ``BadParameter``."""
    import orjson

    from seekpoint.schemas.errors import SeekpointError
    from seekpoint.schemas.values.json_values import load_written

    try:
        orjson.loads(text)
    except orjson.JSONDecodeError as exc:
        is_text = text[:1].isalpha() and not {'"', "'"} & {*text}
        bare = f"; a text needs quotes of its own: '\"{text[:60]}\"'" if is_text else ""
        reason = f"{exc.msg.partition(':')[0]} (character {exc.pos + 1}){bare}"
        raise typer.BadParameter(f"{text[:60]!r} is not JSON: {reason}", param_hint=option) from None
    try:
        return load_written(text)
    except SeekpointError as exc:
        raise typer.BadParameter(f"{text[:60]!r} cannot be used: {exc.message}", param_hint=option) from None


def with_node(settings: Settings, call: Callable[[Node], Coroutine[Any, Any, _T]]) -> _T:
    """Return the result of ``call`` on a node that lives only for it.

    The node has a name of its own. Under the name of a running node its heartbeat would release the processes of that
    node.
    """
    import asyncio
    from dataclasses import replace

    from seekpoint.producers import Node

    async def run() -> _T:
        async with Node.connect(replace(settings, node_id=f"console-{uuid4().hex[:12]}")) as node:
            return await call(node)

    return asyncio.run(run())


def send_and_confirm(settings: Settings, process_id: str, call: Callable[[Node], Coroutine[Any, Any, bytes]]) -> bytes:
    """Send what ``call`` sends, check that the process took it in, and return its id.

    Raises ``Refused`` if the mailbox of the process is full.
    """
    return with_node(settings, lambda node: sent_and_confirmed(node, process_id, call))


async def sent_and_confirmed(
    sender: _Sender, process_id: str, call: Callable[[_Sender], Coroutine[Any, Any, bytes]]
) -> bytes:
    """Send what ``call`` sends with a node or a client that is there already; as ``send_and_confirm``."""
    from seekpoint.schemas.errors import ProcessFinished, Refused, Retryable

    sent = await call(sender)
    try:
        is_delivered = await sender.is_delivered(process_id, sent)
    except (ProcessFinished, Retryable):
        return sent  # it was sent; a failed check is no reason to send it again
    if not is_delivered:
        raise Refused(
            "the process's mailbox is full: nothing was delivered", process_id=process_id,
            hint="send it again once its owner has emptied the mailbox: seekpoint state PROCESS_ID",
        )  # fmt: skip
    return sent
