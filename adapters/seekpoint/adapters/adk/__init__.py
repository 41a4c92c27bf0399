"""Google's Agent Development Kit on a journal. Needs ``seekpoint[adk]``; see docs/adapters/adk.md.

``SeekpointSessionService`` keeps sessions, for servers that share them.
"""

from seekpoint.adapters.adk.session_service import SeekpointSessionService

__all__ = ["SeekpointSessionService"]
