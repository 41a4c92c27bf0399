"""Pydantic AI on a journal. Needs ``seekpoint[pydantic-ai]``; see docs/adapters/pydantic-ai.md.

``SeekpointDurability`` is a capability: an agent that has it records its model calls and tool calls where it runs
inside of ``durable``. After a crash the run goes on. ``SeekpointConversationStore`` keeps conversations, for servers
that share them.
"""

from seekpoint.adapters.pydantic_ai.conversation_store import SeekpointConversationStore
from seekpoint.adapters.pydantic_ai.durability import SeekpointDurability
from seekpoint.adapters.pydantic_ai.durable_runs import durable
from seekpoint.adapters.pydantic_ai.model_errors import register_failures
from seekpoint.adapters.run_calls import idempotency_key

__all__ = ["SeekpointConversationStore", "SeekpointDurability", "durable", "idempotency_key"]

register_failures()
