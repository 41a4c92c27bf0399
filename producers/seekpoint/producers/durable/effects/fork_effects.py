"""Hold back what a fork would change outside, by the policy that it was forked with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from seekpoint.schemas.errors import EffectRefused

if TYPE_CHECKING:
    from seekpoint.producers.durable.durable_process import DurableProcess


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
