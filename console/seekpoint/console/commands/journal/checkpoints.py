"""``seekpoint checkpoints ls | show``: list the checkpoints of a journal and verify them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from seekpoint.console.exit_codes import EXIT_FAULT
from seekpoint.console.render.output import clean, emit, emit_json, emit_json_list, pasted, say
from seekpoint.console.render.tables import Column, emit_table
from seekpoint.console.services.arguments.target import CommandTarget

if TYPE_CHECKING:
    from seekpoint.consumers.checkpoints.checkpoint import CheckpointReader, Floor
    from seekpoint.consumers.recovery.recovery_report import LastCheckpoint
from seekpoint.console.services.arguments.options import AsJson, ProcessId, Wide

_CHECKPOINTS = (
    Column("process"),
    *(Column(title, right=True, wide=True) for title in ("partition", "position", "offset", "epoch")),
    *(Column(title, right=True) for title in ("seq", "bytes")),
    Column("verified", wraps=True),
)
_INTERNALS = frozenset(
    {"partition", "position", "offset", "epoch", "floor", "seek_point", "leader_epoch", "topic_id", "fold_version"}
)
"""Facts of a checkpoint that ``show`` shows only with ``--wide``."""
_FLOORS = (Column("partition"), Column("floor", right=True), Column("checkpoints", right=True))


def ls(target: CommandTarget, wide: Wide = False, json: AsJson = False) -> int:
    """List every checkpoint and verify it. Exits with 1 if a checkpoint is unusable.

    With --wide it also lists each partition's floor: every entry below it is in the checkpoint of its process.
    """
    floors: list[dict[str, Any]] = []
    unusable: list[bool] = []
    found = _every_checkpoint(target, floors, unusable)
    if json:
        emit_json_list({"journal": target.settings.journal}, "checkpoints", found, {"floors": floors})
    else:
        _show_all(target.settings.journal, found, floors, wide=wide)
    return EXIT_FAULT if unusable else 0


def _every_checkpoint(
    target: CommandTarget, floors: list[dict[str, Any]], unusable: list[bool]
) -> Iterator[dict[str, Any]]:
    """Yield each checkpoint by partition and process. Add each partition to ``floors`` after it was read."""
    for partition in range(target.log.partitions):
        floor, checkpoints = checkpoints_of(target.checkpoints, partition, target.log.topic_id)
        checkpoints.sort(key=lambda facts: str(facts["process_id"]))
        offset = None if floor is None else floor.offset
        floors.append({"partition": partition, "floor": offset, "checkpoints": len(checkpoints)})
        if any(facts["problem"] is not None for facts in checkpoints):
            unusable.append(True)
        yield from checkpoints
        del checkpoints  # free the memory before the next partition is read


def show(target: CommandTarget, process_id: ProcessId, wide: Wide = False, json: AsJson = False) -> int:
    """Show a process's newest checkpoint. Exits with 1 if it is unusable."""
    from seekpoint.schemas.errors import UnknownProcess

    found = target.recoverer.last_checkpoint(process_id)
    if found is None:
        hint = f"recover it from the log: seekpoint recover {pasted(process_id)}"
        raise UnknownProcess("the process has no checkpoint", process_id=process_id, hint=hint)
    facts = {**checkpoint_facts(found), "floor": found.floor, "seek_point": found.seek_point}
    facts |= {name: getattr(found, name) for name in ("leader_epoch", "topic_id", "fold_version")}
    if json:
        emit_json(facts)
    else:
        for name, value in facts.items():
            if name != "problem" and (wide or name not in _INTERNALS):
                emit(clean(f"{name.replace('_', ' '):<13}{_verified(facts) if name == 'verified' else value}"))
    return EXIT_FAULT if found.problem is not None else 0


def checkpoint_facts(found: LastCheckpoint) -> dict[str, Any]:
    """Return a checkpoint as plain data: an object of ``seekpoint checkpoints ls --json``."""
    names = ("process_id", "partition", "position", "offset", "seq", "epoch", "state_bytes")
    whole = asdict(found)
    return {**{name: whole[name] for name in names}, "verified": found.problem is None, "problem": found.problem}


def checkpoints_of(
    reader: CheckpointReader, partition: int, topic_id: str
) -> tuple[Floor | None, list[dict[str, Any]]]:
    """Read a partition once. Return its newest floor and each process's newest checkpoint.

    Raises ``NewerFormat`` if a newer Seekpoint wrote a checkpoint.
    """
    from seekpoint.consumers.checkpoints.checkpoint import FLOOR_KEY, Floor

    floor: Floor | None = None
    newest: dict[bytes, dict[str, Any]] = {}
    for position, key, value in reader.records(partition, 0, reader.stable_end(partition)):
        if value is None:
            newest.pop(key, None)
        elif key == FLOOR_KEY:
            floor = Floor.from_bytes(value)
        else:
            newest[key] = _facts_in(value, key.decode("utf-8", "replace"), partition, position, topic_id)
    return floor, list(newest.values())


def _facts_in(value: bytes, process_id: str, partition: int, position: int, topic_id: str) -> dict[str, Any]:
    from seekpoint.consumers.recovery.base_finder import checkpoint_of
    from seekpoint.consumers.recovery.base_search import Unusable
    from seekpoint.consumers.recovery.recovery_report import LastCheckpoint
    from seekpoint.schemas.errors import JournalMismatch

    problem: str | None = None
    try:
        checkpoint_of(value, process_id, topic_id)
    except Unusable as exc:
        problem = exc.reason
    try:
        facts = checkpoint_facts(LastCheckpoint.of(value, position, 0, 0, problem))
    except JournalMismatch:  # the head cannot be read either
        nothing = dict.fromkeys(("offset", "seq", "epoch"))
        facts = {"partition": partition, "position": position, **nothing, "state_bytes": len(value)}
        facts |= {"verified": False, "problem": problem}
    return {**facts, "process_id": process_id}


def _verified(facts: dict[str, Any]) -> str:
    return "yes" if facts["verified"] else f"no: {facts['problem']}"


def _show_all(journal: str, found: Iterator[dict[str, Any]], floors: Sequence[dict[str, Any]], *, wide: bool) -> None:
    names = ("process_id", "partition", "position", "offset", "epoch", "seq", "state_bytes")
    rows = ([*("-" if facts[name] is None else facts[name] for name in names), _verified(facts)] for facts in found)
    if not emit_table(_CHECKPOINTS, rows, wide=wide):
        say(f"the journal {journal} has no checkpoints yet; a projector writes them: seekpoint serve projector")
    elif wide:
        emit()
    if wide:
        emit_table(
            _FLOORS,
            [
                [one["partition"], "none" if one["floor"] is None else one["floor"], one["checkpoints"]]
                for one in floors
            ],
            wide=True,
        )
