"""Open gates as plain data, as table rows and as text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from seekpoint.console.render.tables import Column

if TYPE_CHECKING:
    from seekpoint.schemas.state.process_state import State

GATE_COLUMNS = (
    Column("process"),
    Column("gate"),
    Column("name", wide=True),
    Column("deadline"),
    Column("prompt", cut=True),
)


def gates_of(process_id: str, state: State) -> Iterator[dict[str, Any]]:
    """Yield the open gates of a process, oldest first: objects of ``seekpoint gates ls --json``.

    A finished process has none. A cancelled process has those of its compensations.
    """
    from seekpoint.producers.durable.waits.gate_answers import open_gates
    from seekpoint.schemas.values.clock import iso_time

    for gate in open_gates(state):
        yield {
            "process_id": process_id,
            "key": gate.key,
            "name": gate.name,
            "deadline": None if gate.deadline_us is None else iso_time(gate.deadline_us),
            "prompt": gate.prompt,
            "seq": gate.seq,
            "refused": gate.refused,
        }


def gate_row(facts: dict[str, Any]) -> list[object]:
    """Return the table row of an object of ``gates_of``."""
    refused = "" if facts["refused"] is None else f"; an answer was refused: {facts['refused']}"
    prompt = f"{prompt_text(facts['prompt'])}{refused}"
    return [facts["process_id"], facts["key"], facts["name"], facts["deadline"] or "-", prompt]


def prompt_text(prompt: Any) -> str:
    """Return a prompt as text."""
    import orjson

    return "-" if prompt is None else prompt if isinstance(prompt, str) else orjson.dumps(prompt).decode()
