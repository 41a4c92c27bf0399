"""Hold back effects that may not be real: all where the settings say so, as in staging, and those of a fork."""

from __future__ import annotations

from typing import TYPE_CHECKING

from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.errors import EffectRefused, Refused

if TYPE_CHECKING:
    from seekpoint.producers.durable.durable_process import DurableProcess


def check_effects_are_real(settings: Settings, *, process_id: str | None = None, key: str | None = None) -> None:
    """Raise ``Refused`` if the settings allow recorded effects only, as in staging."""
    if settings.effects == "recorded":
        raise Refused(
            "effects are only answered from the record here", process_id=process_id, key=key,
            hint="the setting effects is recorded: run it where effects may be real",
        )  # fmt: skip


def check_fork_may(process: DurableProcess, kind: str, key: str) -> None:
    """Raise ``EffectRefused`` if the process is a fork that makes no effects of its own. ``kind``: effect or child."""
    lineage = process.written.lineage
    if lineage.effects in ("", "live"):
        return
    what, hint = "a fork makes no effect of its own", EffectRefused.hint
    if (first := lineage.rerun_of) is not None:
        what = "a rerun makes no effects"
        hint = f"an equal one that {first} made answers it, unless effects=refused; to act for real, fork {first} with "
        hint += "effects=live"
    raise EffectRefused(
        f"{what}: this {kind} was not begun", process_id=process.process_id, key=key, kind=kind,
        policy=lineage.effects, hint=hint,
    )  # fmt: skip
