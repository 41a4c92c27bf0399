"""Hold back what a fork would change outside, by the policy that it was forked with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from seekpoint.schemas.errors import EffectRefused

if TYPE_CHECKING:
    from seekpoint.producers.durable.durable_process import DurableProcess

__all__ = ["check_fork_may"]


def check_fork_may(process: DurableProcess, kind: str, key: str) -> None:
    """Raise ``EffectRefused`` if the process is a fork that makes no effects of its own. ``kind``: effect or child."""
    policy = process.written.lineage.effects
    if policy in ("", "live"):
        return
    raise EffectRefused(
        f"a fork makes no effect of its own: this {kind} was not begun", process_id=process.process_id, key=key,
        kind=kind, policy=policy,
    )  # fmt: skip
