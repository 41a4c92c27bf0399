"""Hold back every effect where the settings say that none may be real, as in staging."""

from __future__ import annotations

from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.errors import Refused


def check_effects_are_real(settings: Settings, *, process_id: str | None = None, key: str | None = None) -> None:
    """Raise ``Refused`` if the settings allow recorded effects only, as in staging."""
    if settings.effects == "recorded":
        raise Refused(
            "effects are only answered from the record here", process_id=process_id, key=key,
            hint="the setting effects is recorded: run it where effects may be real",
        )  # fmt: skip
