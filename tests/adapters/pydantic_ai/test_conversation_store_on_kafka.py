"""Conversations of Pydantic AI on a real Kafka."""

from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import replace

import pytest
from pydantic_ai import ModelRequest, UserPromptPart
from pydantic_ai.conversation import Conversation
from pydantic_ai.conversation_store import ConversationConflict

from seekpoint import Node, Settings
from seekpoint.adapters.pydantic_ai import SeekpointConversationStore

pytestmark = pytest.mark.cluster


async def test_two_nodes_share_a_conversation(journal: Settings) -> None:
    """Each sees at once what the other one has saved, forked and deleted; an old copy is refused."""
    async with AsyncExitStack() as stack:
        stores = [
            SeekpointConversationStore(
                await stack.enter_async_context(Node.connect(replace(journal, node_id=f"n{number}")))
            )
            for number in range(2)
        ]
        old = Conversation(conversation_id="chat", messages=[ModelRequest(parts=[UserPromptPart("0")])])
        await stores[0].save(old)
        for number in range(1, 6):
            found = await stores[number % 2].load("chat")
            assert found is not None
            assert len(found.messages) == number
            found.messages.append(ModelRequest(parts=[UserPromptPart(str(number))]))
            await stores[number % 2].save(found)
        with pytest.raises(ConversationConflict):
            await stores[1].save(old)
        await stores[1].fork("chat", at=3, new_conversation_id="fork")
        await stores[0].delete("chat")
        assert await stores[1].load("chat") is None
        assert [one.conversation_id for one in await stores[0].list_conversations()] == ["fork"]
        kept = await stores[0].load("fork")
        assert kept is not None
        assert len(kept.messages) == 3
