"""What an append refuses: bodies that callers made of something else than texts."""

from __future__ import annotations

from typing import Any, cast

import pytest

from seekpoint.producers import Node
from seekpoint.schemas.bodies import (
    Body,
    ContentBatch,
    ContextPatched,
    ContextUpdated,
    ContextUpdatedMany,
    Custom,
    Deleted,
    Detached,
    MessageSaid,
    PartAttached,
)
from seekpoint.schemas.errors import UnserializableValue

NO_TEXT = cast("Any", None)


@pytest.mark.parametrize(
    "body",
    [
        Detached(NO_TEXT),
        ContextUpdated("a", NO_TEXT),
        ContextUpdated("a", cast("Any", b"1")),
        ContextUpdatedMany(NO_TEXT),
        ContextUpdatedMany({"a": NO_TEXT}),
        ContentBatch(values=NO_TEXT),
        ContentBatch(deleted=NO_TEXT),
        ContentBatch(messages=NO_TEXT),
        ContextPatched(NO_TEXT),
        Custom("k", cast("Any", 7)),
        MessageSaid("user", parts=cast("Any", 5)),
        PartAttached(NO_TEXT),
        Deleted(cast("Any", 5)),
    ],
)
async def test_a_body_whose_fields_are_no_texts_is_refused(node: Node, body: Body) -> None:
    """With an error of Seekpoint's own, and nothing is written."""
    with pytest.raises(UnserializableValue):
        await node.append("p", body)
    assert (await node.recover("p", missing_ok=True)).state.seq == 0
