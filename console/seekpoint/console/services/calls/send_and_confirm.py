"""Send something to a process from the command line: the sender's name, the value, and a node of its own."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import uuid4

import typer

if TYPE_CHECKING:
    from seekpoint.producers import Node
    from seekpoint.schemas.config.settings import Settings

_T = TypeVar("_T")


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
