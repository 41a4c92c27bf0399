"""``seekpoint verify``: recover processes in every way and compare the results."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from seekpoint.console.exit_codes import EXIT_FAULT
from seekpoint.console.render.output import emit_json_list, fail, say
from seekpoint.console.render.progress import ReadingProgress
from seekpoint.console.render.tables import Column, emit_table
from seekpoint.console.services.arguments.options import AsJson, ProcessIds, Wide
from seekpoint.console.services.arguments.target import CommandTarget
from seekpoint.console.services.calls.send_and_confirm import user_name

if TYPE_CHECKING:
    from seekpoint.consumers.recovery.recoverer import Recoverer
    from seekpoint.consumers.recovery.verification import Verification

_REASONS_MAX = 20


def verify(
    target: CommandTarget,
    process_ids: ProcessIds = None,
    everything: Annotated[bool, typer.Option("--all", help="Verify every process of the journal.")] = False,
    accept_loss: Annotated[
        int | None,
        typer.Option(metavar="PARTITION", help="Go on with what the log of a partition holds that lost its end."),
    ] = None,
    reason: Annotated[
        str | None, typer.Option("--reason", metavar="TEXT", help="Why the loss is accepted. The journal keeps it.")
    ] = None,
    actor: Annotated[
        str | None, typer.Option("--actor", metavar="NAME", help="Who accepts it; your user name if not given.")
    ] = None,
    wide: Wide = False,
    json: AsJson = False,
) -> int:
    """Recover processes in every way and compare. The readers are independent. Exits with 1 if the results differ."""
    if accept_loss is not None:
        return _accept_loss(target, accept_loss, reason, actor)
    if bool(process_ids) == everything:
        raise typer.BadParameter("give process ids, or --all", param_hint="PROCESS_ID")
    faults = _Faults(target.recoverer)
    found = _verify_all(target) if everything else _verify_some(target, process_ids or [], faults)
    _show_verified(target, faults.watch(found), wide=wide, json=json)
    for place in faults.places:
        say(place)
    for way, reason in faults.missing:
        say(f"not verified by {way}: {reason}")
    return EXIT_FAULT if faults.found else 0


def _accept_loss(target: CommandTarget, partition: int, reason: str | None, actor: str | None) -> int:
    from seekpoint.consumers.recovery.loss_acceptance import accept_partition_loss

    if not reason:
        raise typer.BadParameter("say why, the journal keeps it", param_hint="--reason")
    if not 0 <= partition < target.log.partitions:
        raise typer.BadParameter(f"the journal has {target.log.partitions} partitions", param_hint="--accept-loss")
    loss = accept_partition_loss(target.recoverer, partition, actor=actor or user_name("--actor"), reason=reason)
    say(f"partition {partition} goes on with the log below {loss.high}; entries up to {loss.lost_to - 1} are given up")
    return 0


class _Faults:
    """A record of the faults in a stream of verified processes."""

    def __init__(self, recoverer: Recoverer) -> None:
        self.found = False
        self.places: list[str] = []
        """Where the checkpoints are that differ from the log: the first ones."""
        self._recoverer = recoverer
        self.missing: dict[tuple[str, str], None] = {}
        """Recovery ways that were not available, with the reason: the first ones, each once."""

    def watch(self, verified: Iterable[Verification]) -> Iterator[Verification]:
        for one in verified:
            self.found |= not one.agrees
            scanned = one.hashes.get("scan")
            if scanned != one.hashes.get("checkpoint", scanned) and scanned and len(self.places) < _REASONS_MAX:
                self._name_checkpoint(one.process_id)
            for way in one.missing.items():
                if len(self.missing) < _REASONS_MAX:
                    self.missing[way] = None
            yield one

    def _name_checkpoint(self, process_id: str) -> None:
        last, topic = self._recoverer.last_checkpoint(process_id), f"{self._recoverer.log.name}.checkpoints"
        place = "its floor" if last is None else f"the record at position {last.position}, or its floor"
        self.places.append(f"{process_id}: {topic} is wrong ({place}): it was forged or damaged. The log is right.")


def _verify_all(target: CommandTarget) -> Iterator[Verification]:
    from seekpoint.consumers.recovery.verification import verify_all

    marks = [target.log.watermarks(partition) for partition in range(target.log.partitions)]
    with ReadingProgress("verifying", sum(mark.high - mark.low for mark in marks)) as progress:
        for one in verify_all(target.recoverer, progress.advance):
            progress.hide()
            yield one


def _verify_some(target: CommandTarget, process_ids: list[str], faults: _Faults) -> Iterator[Verification]:
    """Verify the named processes. A process that does not exist is a fault."""
    from seekpoint.consumers.recovery.verification import verify as verify_one
    from seekpoint.schemas.errors import UnknownProcess

    unique_ids = list(dict.fromkeys(process_ids))
    with ReadingProgress("verifying", len(unique_ids) if len(unique_ids) > 1 else 0, "processes") as progress:
        for process_id in unique_ids:
            try:
                found = verify_one(target.recoverer, process_id)
            except UnknownProcess as error:
                fail(str(error))
                faults.found = True
            else:
                progress.hide()
                yield found
            progress.advance(1)


def _show_verified(target: CommandTarget, found: Iterable[Verification], *, wide: bool, json: bool) -> None:
    if json:
        emit_json_list({}, "processes", map(_verified, found))
        return
    from seekpoint.consumers.recovery.verification import methods_of

    methods = methods_of(target.recoverer)
    hashes = (Column(method, wide=True) for method in methods)
    columns = (Column("process"), Column("agrees"), Column("ways", wraps=True), Column("seq", right=True, wide=True))
    emit_table((*columns, *hashes), (_row(one, methods) for one in found), wide=wide)


def _row(one: Verification, methods: Sequence[str]) -> list[object]:
    alike: dict[str, list[str]] = {}
    for method in methods:
        if method in one.hashes:
            alike.setdefault(one.hashes[method], []).append(method)
    ways = " but not ".join(", ".join(same) for same in alike.values())
    agrees = "yes" if one.agrees else "no"
    return [one.process_id, agrees, ways, one.seq, *(one.hashes.get(method, "-") for method in methods)]


def _verified(one: Verification) -> dict[str, Any]:
    facts = {"process_id": one.process_id, "agrees": one.agrees, "seq": one.seq, "epoch": one.epoch}
    return {**facts, "offset": one.offset, "hashes": one.hashes, "missing": one.missing}
