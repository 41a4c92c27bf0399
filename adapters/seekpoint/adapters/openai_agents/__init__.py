"""The OpenAI Agents SDK on a journal. Needs ``seekpoint[openai-agents]``; see docs/adapters/openai-agents.md.

``SeekpointSession`` keeps the items of conversations, for servers that share them.
"""

from seekpoint.adapters.openai_agents.session import SeekpointSession

__all__ = ["SeekpointSession"]
