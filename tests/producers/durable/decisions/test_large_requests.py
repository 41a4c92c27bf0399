"""Requests that do not fit into an entry: their large texts are attached, and the entry refers to them."""

from __future__ import annotations

from typing import Any

import pytest

from counting_model import ANSWER, Model, bodies
from seekpoint.producers import Node, Process, SyncNode, agent, check_replay
from seekpoint.producers.durable.decisions.prompts import requests_in
from seekpoint.schemas.bodies import PartAttached
from seekpoint.schemas.errors import LimitExceeded, ReplayDivergence
from seekpoint.schemas.log.memory_log import MemoryLog
from seekpoint.schemas.values.attachment_ref import Ref

IMAGE = "data:image/png;base64," + "iVBORw0K" * 150_000  # of an image of 900 KB


def request(image: Any = IMAGE, text: str = "What is it?") -> dict[str, Any]:
    parts = [{"type": "image_url", "image_url": {"url": image}}, {"type": "text", "text": text}]
    return {"model": "m-1", "messages": [{"role": "user", "content": parts}]}


async def test_the_image_of_a_request_is_attached() -> None:
    """The model gets the request as it is, once; the journal has a reference to the image, and the rest."""
    log, model = MemoryLog(), Model()
    for _ in range(2):
        async with Node.in_memory(log) as node, node.open("p") as process:
            assert await process.decide("look", model, request()) == ANSWER
    assert model.asked == [request()]
    async with Node.in_memory(log) as node:
        recorded = (await requests_in(one.entry async for one in node.entries("p")))["look:1"]
        ref = recorded["messages"][0]["content"][0]["image_url"]["url"]
        assert recorded == request(ref)
        assert isinstance(ref, Ref)
        assert ref.process_id == "p"
        assert await node.read_attachment(ref) == IMAGE.encode()


def test_plain_code_attaches_bytes_and_texts() -> None:
    """Bytes are attached as they are."""
    log, model = MemoryLog(), Model()

    def answer(given: Any) -> Any:
        model.asked.append(given)
        return ANSWER

    asked = {"model": "m-1", "messages": [{"image": bytes(2_000_000)}, {"text": "ä" * 700_000}]}
    for _ in range(2):
        with SyncNode.in_memory(log) as node, node.open("p") as process:
            assert process.decide("look", answer, asked) == ANSWER
            image, text = process.state.attachments.values()
            assert (image.size, text.size) == (2_000_000, 1_400_000)
    assert model.asked == [asked]


async def test_what_fits_is_recorded_as_it_is() -> None:
    """No attachment, no reference: a request of today is recorded as ever."""
    async with Node.in_memory() as node, node.open("p") as process:
        await process.decide("look", Model(), request("A" * 900_000))
        assert not process.state.attachments


async def test_a_request_of_many_small_texts_is_refused() -> None:
    """Nothing in it is worth an attachment: it is refused before the model is called."""
    model = Model()
    async with Node.in_memory() as node, node.open("p") as process:
        with pytest.raises(LimitExceeded):
            await process.decide("look", model, {"model": "m-1", "texts": ["A" * 30_000] * 40})
    assert not model.asked


async def test_a_changed_request_names_what_is_different() -> None:
    """Not the image, which is the same."""
    log, model = MemoryLog(), Model()
    async with Node.in_memory(log) as node, node.open("p") as process:
        await process.decide("look", model, request())
    for other, difference in (
        (request(text="What?"), r'content\[1\].text: "What is it\?" is now "What\?"'),
        (request(IMAGE + "A"), r"url: .* is now"),
    ):
        async with Node.in_memory(log) as node, node.open("p") as process:
            with pytest.raises(ReplayDivergence, match=difference):
                await process.decide("look", model, other)


async def test_a_fork_and_a_replay_check_ask_for_the_same_image() -> None:
    """The digest of the call is that of the request, whichever process it is in."""
    log, model = MemoryLog(), Model()

    @agent("looker")
    async def looker(process: Process, given: Any) -> Any:
        return await process.decide("look", model, request())

    async with Node.in_memory(log) as node:
        await node.run(looker, "p")
        report = await check_replay(looker, [one async for one in node.entries("p")])
        assert report.ok
        async with node.fork("p", "q") as process:
            assert await process.decide("look", model, request()) == ANSWER
        assert len(model.asked) == 1
        assert len(await bodies(node, "p", PartAttached)) == 2
        assert not await bodies(node, "q", PartAttached)
