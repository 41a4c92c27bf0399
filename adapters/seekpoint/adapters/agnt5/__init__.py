"""AGNT5's Python SDK on a journal. Needs ``seekpoint[agnt5]``; see docs/adapters/agnt5.md.

``DurableWorkflows`` runs workflows of the SDK. ``SeekpointActivations`` is the ``ActivationTransport`` beneath it, for
programs that make the contexts of the SDK themselves.
"""

from seekpoint.adapters.agnt5.checkpoint_client import SeekpointCheckpoints
from seekpoint.adapters.agnt5.digests import (
    activation_id,
    canonical_value,
    content_hash,
    definition_digest,
    input_digest,
    step_key,
)
from seekpoint.adapters.agnt5.transport import SeekpointActivations
from seekpoint.adapters.agnt5.workflows import DurableWorkflows

__all__ = [
    "DurableWorkflows",
    "SeekpointActivations",
    "SeekpointCheckpoints",
    "activation_id",
    "canonical_value",
    "content_hash",
    "definition_digest",
    "input_digest",
    "step_key",
]
