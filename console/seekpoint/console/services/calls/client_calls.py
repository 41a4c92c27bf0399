"""Call a client from the command line."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from seekpoint.producers import Client
    from seekpoint.schemas.config.settings import Settings

_T = TypeVar("_T")


def with_client(settings: Settings, call: Callable[[Client], Coroutine[Any, Any, _T]]) -> _T:
    """Return the result of ``call`` on a client that lives only for it."""
    import asyncio

    from seekpoint.producers import Client

    async def run() -> _T:
        async with Client.connect(settings) as client:
            return await call(client)

    return asyncio.run(run())


def plain_value(value: Any) -> Any:
    """Return a value as JSON data. Values that JSON lacks become the tagged objects of the journal."""
    import orjson

    from seekpoint.schemas.values.json_values import dump

    return orjson.loads(dump(value, with_models=True))
