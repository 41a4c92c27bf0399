"""``seekpoint approve``: approve a gate."""

from __future__ import annotations

from seekpoint.console.services.calls.answer_commands import answer_command

approve = answer_command(
    "Approve a gate. If several gates of that name are open, the oldest one is approved.", is_approved=True
)
