"""``seekpoint delete`` on a journal in memory, and how the other commands show a deleted process."""

from __future__ import annotations

from console_on_memory import on
from seekpoint.producers import Node
from seekpoint.schemas import MemoryLog
from shells import Shell


async def _write(node: Node, process_id: str = "thread-9") -> None:
    async with node.open(process_id, shared=True) as thread:
        await thread.update("email", "ann@example.org")


def test_a_deleted_process_is_nowhere_but_in_the_log(seekpoint: Shell, log: MemoryLog) -> None:
    """No state, no listing; the log says who deleted it, and why."""
    on(log, _write)
    on(log, lambda node: _write(node, "other"))
    ran = seekpoint("delete", "thread-9", "--reason", "she asked for it", "--actor", "ann", "--json")
    assert ran.code == 0, ran.err
    assert ran.json == {
        "process_id": "thread-9", "deleted": True, "seq": 2, "reason": "she asked for it", "actor": "ann",
    }  # fmt: skip
    listed = seekpoint("ps", "--json").json["processes"]
    assert [one["process_id"] for one in listed] == ["other"]
    for command in ("state", "recover", "verify", "delete"):
        ran = seekpoint(command, "thread-9")
        assert ran.code == 1
        assert "was deleted" in ran.err
    said = seekpoint("log", "thread-9").out
    assert 'reason "she asked for it"' in said
    on(log, _write)
    assert seekpoint("state", "thread-9", "--json").json["seq"] == 3


def test_what_is_not_deleted(seekpoint: Shell, log: MemoryLog) -> None:
    """An unknown process, one that went on, one whose code made calls."""
    assert seekpoint("delete", "nobody").code == 1
    on(log, _write)
    ran = seekpoint("delete", "thread-9", "--expected-seq", "7")
    assert (ran.code, "not the expected one" in ran.err) == (4, True)

    async def step(node: Node) -> None:
        async with node.open("thread-9") as process:
            await process.step("look", str, 1)

    on(log, step)
    ran = seekpoint("delete", "thread-9")
    assert (ran.code, "has calls" in ran.err) == (4, True)
    assert "context" in seekpoint("state", "thread-9", "--json").json
