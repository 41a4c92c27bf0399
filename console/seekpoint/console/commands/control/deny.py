"""``seekpoint deny``: deny a gate."""

from __future__ import annotations

from seekpoint.console.services.calls.answer_commands import answer_command

deny = answer_command(
    "Deny a gate. If several gates of that name are open, the oldest one is denied.", is_approved=False
)
