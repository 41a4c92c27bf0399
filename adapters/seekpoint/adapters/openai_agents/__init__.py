"""The OpenAI Agents SDK on a journal. Needs ``seekpoint[openai-agents]``; see docs/adapters/openai-agents.md.

``SeekpointSession`` keeps the items of conversations, for servers that share them. ``DurableRunner`` runs agents of the
SDK inside of a process: after a crash they go on.
"""

from seekpoint.adapters.openai_agents.durable_runner import DurableRunner
from seekpoint.adapters.openai_agents.journal_session import SeekpointSession
from seekpoint.adapters.run_calls import idempotency_key

__all__ = ["DurableRunner", "SeekpointSession", "idempotency_key"]
