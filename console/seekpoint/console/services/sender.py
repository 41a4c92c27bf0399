"""Who tells a process something from the command line: a name, a value, and a node for as long as that takes."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Annotated, Any, TypeVar
from uuid import uuid4

import typer

if TYPE_CHECKING:
    from seekpoint.producers import Node
    from seekpoint.schemas.config.settings import Settings

__all__ = ["By", "me", "tell", "value_of", "with_node"]

By = Annotated[str | None, typer.Option("--by", metavar="NAME", help="Who says so; you, if not given.")]

_T = TypeVar("_T")


def me(option: str) -> str:
    """The name of whoever sits here."""
    import getpass

    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user without a name
        raise typer.BadParameter("say who you are", param_hint=option) from None


def value_of(text: str, option: str) -> Any:
    """The value of a JSON text on the command line."""
    from seekpoint.schemas.errors import SeekpointError
    from seekpoint.schemas.values.json_values import load

    try:
        return load(text)
    except SeekpointError:
        raise typer.BadParameter(f"{text[:60]!r} is no JSON; a text has quotes of its own", param_hint=option) from None


def with_node(settings: Settings, call: Callable[[Node], Coroutine[Any, Any, _T]]) -> _T:
    """What ``call`` gives, on a node of its own for as long as that takes.

    Under a name of its own too: under that of a node that runs, its heartbeat would set that node's processes free.
    """
    import asyncio
    from dataclasses import replace

    from seekpoint.producers import Node

    async def run() -> _T:
        async with Node.connect(replace(settings, node_id=f"console-{uuid4().hex[:12]}")) as node:
            return await call(node)

    return asyncio.run(run())


def tell(settings: Settings, process_id: str, call: Callable[[Node], Coroutine[Any, Any, bytes]]) -> bytes:
    """Tell a process what ``call`` sends, and see that it was taken in; its id. ``Refused`` where its mailbox is
    full."""
    from seekpoint.schemas.errors import ProcessFinished, Refused, Retryable

    async def told(node: Node) -> tuple[bytes, bool]:
        sent = await call(node)
        try:
            return sent, await node.is_delivered(process_id, sent)
        except (ProcessFinished, Retryable):
            return sent, True  # sent it was: that it cannot be looked at any more is no reason to send it again

    sent, is_delivered = with_node(settings, told)
    if not is_delivered:
        raise Refused(
            "its mailbox is full: it was not taken in", process_id=process_id,
            hint="send it again once its owner has taken what waits: seekpoint state ID",
        )  # fmt: skip
    return sent
