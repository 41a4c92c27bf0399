"""Google's Agent Development Kit on a journal. Needs ``seekpoint[adk]``; see docs/adapters/adk.md.

``SeekpointSessionService`` keeps sessions, for servers that share them. ``DurableRunner`` runs agents of the toolkit
inside of a process: after a crash they go on.
"""

from seekpoint.adapters.adk.durable_runner import DurableRunner
from seekpoint.adapters.adk.session_service import SeekpointSessionService
from seekpoint.adapters.run_calls import idempotency_key

__all__ = ["DurableRunner", "SeekpointSessionService", "idempotency_key"]
