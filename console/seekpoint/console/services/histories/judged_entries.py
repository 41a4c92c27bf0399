"""Read the entries of a process with the fold's verdict on each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeAlias

from seekpoint.console.render.output import warn

if TYPE_CHECKING:
    from seekpoint.console.services.arguments.target import CommandTarget
    from seekpoint.consumers.recovery.process_history import Logged
    from seekpoint.schemas.folding.fold import Verdict

JudgedEntry: TypeAlias = "tuple[Logged, Verdict | None]"


def judged_entries(
    target: CommandTarget,
    process_id: str,
    partition: int,
    *,
    follow: bool = False,
    tell: Callable[[str], object] = warn,
) -> Iterator[list[JudgedEntry]]:
    """Yield batches of entries, each entry with its verdict. Raises ``UnknownProcess``.

    If the log was trimmed the verdict is None, and ``tell`` gets the reason.
    """
    from seekpoint.consumers.recovery.process_history import history
    from seekpoint.schemas.folding.fold import advance
    from seekpoint.schemas.state.process_state import Draft

    low = target.log.watermarks(partition).low
    if low > 0:
        tell(f"the log begins at offset {low}: earlier entries were trimmed, so the fold cannot judge the rest")
    draft, limits = Draft(), target.log.limits
    for batch in history(target.recoverer, process_id, follow=follow):
        yield [(one, None if low > 0 else advance(draft, one.offset, one.entry, limits)) for one in batch]
