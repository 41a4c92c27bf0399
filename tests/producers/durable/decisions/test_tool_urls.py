"""The URL of a tool that the provider calls is not recorded: its path often has a key."""

from __future__ import annotations

from typing import Any

import pytest

from counting_model import ANSWER, Model
from open_processes import durable_side
from seekpoint.producers import Node
from seekpoint.producers.durable.decisions.prompts import requests_in
from seekpoint.schemas import bodies as b
from seekpoint.schemas.errors import ReplayDivergence
from seekpoint.schemas.log.memory_log import MemoryLog
from seekpoint.schemas.values.json_values import dump

_DIGEST = "91fa8893910c6ed030352c5e6bb71dfe"
"""Of the request below, as every release recorded it."""


def _request(key: str = "s3cret", text: str = "Hello") -> dict[str, Any]:
    server = {"type": "mcp", "server_label": "shop", "server_url": f"https://mcp.example/{key}"}
    return {"model": "m-1", "input": text, "extra_body": {"tools": [server]}}


def _recorded() -> dict[str, Any]:
    return {**_request(), "extra_body": {"tools": [{"type": "mcp", "server_label": "shop"}]}}


async def test_the_model_gets_the_url_and_the_record_does_not() -> None:
    """The digest is that of the whole request."""
    log, model = MemoryLog(), Model()
    for _ in range(2):
        async with Node.in_memory(log) as node, node.open("p") as process:
            assert await process.decide("ask", model, _request()) == ANSWER
            assert process.state.calls["ask:1"].digest == _DIGEST
            recorded = await requests_in(one.entry async for one in node.entries("p"))
    assert model.asked == [_request()]
    assert recorded == {"ask:1": _recorded()}


@pytest.mark.parametrize("is_answered", [True, False])
async def test_a_run_that_was_recorded_with_the_url_goes_on(is_answered: bool) -> None:
    """Its answer is the recorded one; a decision in doubt is made again."""
    log, model = MemoryLog(), Model()
    async with Node.in_memory(log) as node, node.open("p") as process:
        calls = durable_side(process)
        calls.send(b.DecisionStarted("ask:1", 1, "ask", _DIGEST, dump(_request())))
        if is_answered:
            await calls.append(b.DecisionMade("ask:1", 1, "succeeded", dump(ANSWER)))
    async with Node.in_memory(log) as node, node.open("p") as process:
        assert await process.decide("ask", model, _request()) == ANSWER
        assert await process.decide("ask", model, _request()) == ANSWER
    assert len(model.asked) == (1 if is_answered else 2)


async def test_a_difference_does_not_show_the_url() -> None:
    """Not even where nothing else differs."""
    log, model = MemoryLog(), Model()
    async with Node.in_memory(log) as node, node.open("p") as process:
        await process.decide("ask", model, _request())
    for asked in (_request("0ther", "Bye"), _request("0ther")):
        async with Node.in_memory(log) as node, node.open("p") as process:
            with pytest.raises(ReplayDivergence) as caught:
                await process.decide("ask", model, asked)
        shown = f"{caught.value} {caught.value.facts} {caught.value.difference} {caught.value.asks}"
        assert "s3cret" not in shown
        assert "0ther" not in shown
