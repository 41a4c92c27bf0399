"""``seekpoint export | import``: a process as a file and back, decisions as a data set. On a log in memory."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from console_on_memory import chatter, on
from seekpoint.producers import Node
from seekpoint.schemas import MemoryLog
from seekpoint.schemas.log.partition import partition_of
from shells import Shell


def test_an_exported_process_is_imported_as_it_was(
    seekpoint: Shell, log: MemoryLog, move_to: Callable[[MemoryLog], None]
) -> None:
    """Under its id in another journal, under another one in the same: the same content, the same result."""
    on(log, lambda node: node.run(chatter(), "p"))
    first = on(log, lambda node: node.recover("p")).state
    assert seekpoint("export", "p", "p.spk", "--json").json["records"] == first.seq + 1
    refused = seekpoint("import", "p.spk", "--as", "q")
    assert refused.code == 0
    copy = on(log, lambda node: node.recover("q")).state
    assert (copy.result, copy.seq, copy.content_hash) == (first.result, first.seq, first.content_hash)
    other = MemoryLog(partitions=7)
    move_to(other)
    assert seekpoint("import", "p.spk", "--json").json == {"process_id": "p", "entries": first.seq + 1, "known": 0}
    assert on(other, lambda node: node.recover("p")).state.hash == first.hash
    assert seekpoint("steps", "p", "--json").json["calls"][-1]["output"] == "o-1 paid"


def test_an_interrupted_import_resumes_and_never_mixes_processes(
    seekpoint: Shell, log: MemoryLog, move_to: Callable[[MemoryLog], None]
) -> None:
    """What an interrupted one had appended counts; an id that somebody used is refused."""
    on(log, lambda node: node.run(chatter(), "p"))
    seekpoint("export", "p", "p.spk")
    other, key = MemoryLog(partitions=1), b"p"
    partition = partition_of(key, 2)
    for batch in log.read(partition, 0, 5, {key}):
        for record in batch.records:
            other.append(0, record.key, record.value)
    move_to(other)
    found = seekpoint("import", "p.spk", "--json").json
    assert found["known"] == 5
    assert seekpoint("import", "p.spk", "--json").json["entries"] == 0
    assert on(other, lambda node: node.recover("p")).state.result == "o-1 paid"

    async def use(node: Node) -> None:
        async with node.open("used"):
            pass

    on(other, use)
    refused = seekpoint("import", "p.spk", "--as", "used")
    assert (refused.code, "the id is used" in refused.err) == (4, True)


def test_a_file_that_is_not_an_export_is_refused(seekpoint: Shell, log: MemoryLog) -> None:
    """Nothing is appended for bytes that are no process."""
    Path("junk.spk").write_bytes(b"junk")
    assert seekpoint("import", "junk.spk").code == 4
    assert seekpoint("import", "missing.spk").code == 4
    assert seekpoint("export", "nobody", "n.spk").code == 1
    assert not Path("n.spk").exists()
    assert seekpoint("export", "p").code == 2
    assert log.watermarks(0).high == log.watermarks(1).high == 0


def test_export_writes_decisions_as_a_data_set(seekpoint: Shell, log: MemoryLog) -> None:
    """A line each: the whole request, though the journal keeps what it shares with the one before only once."""

    async def two(node: Node) -> None:
        await node.run(chatter(), "p")
        await node.run(chatter(), "q")
        async with node.open("without"):
            pass

    on(log, two)
    assert seekpoint("export", "--dataset", "one.jsonl", "p", "--kind", "decision").code == 0
    rows = [json.loads(line) for line in Path("one.jsonl").read_text().splitlines()]
    assert [(row["process"], row["key"]) for row in rows] == [("p", "1/answer:1"), ("p", "2/answer:1")]
    last = rows[-1]
    assert [message["content"] for message in last["request"]["messages"]] == ["be brief", "question 1", "question 2"]
    assert last["response"]["content"] == "yes"
    assert (last["model"], last["facts"]["policy"], last["cost_usd"]) == ("m", "7", "3")
    assert last["usage"] == {"input_tokens": 3, "output_tokens": 1}
    assert last["facts"]["tool_calls"] is None
    assert seekpoint("export", "--dataset", "all.jsonl", "--all", "--kind", "decision").code == 0
    everybodys = [json.loads(line)["process"] for line in Path("all.jsonl").read_text().splitlines()]
    assert sorted(everybodys) == ["p", "p", "q", "q"]
    assert seekpoint("export", "--dataset", "none.jsonl").code == 2


def test_an_invalid_file_name_is_a_one_line_error(seekpoint: Shell, log: MemoryLog) -> None:
    """What the system says of it, and no word of a fault of ours."""
    on(log, lambda node: node.run(chatter(), "p"))
    refused = seekpoint("export", "p", "x" * 5_000)
    assert (refused.code, "cannot be written: File name too long" in refused.err) == (4, True), refused.err[:200]


def test_an_existing_file_is_replaced_only_with_an_option(seekpoint: Shell, log: MemoryLog) -> None:
    """It may be somebody's only copy of a history."""
    on(log, lambda node: node.run(chatter(), "p"))
    for arguments, file in ((("p", "p.spk"), "p.spk"), (("--dataset", "d.jsonl", "p"), "d.jsonl")):
        Path(file).write_bytes(b"kept")
        refused = seekpoint("export", *arguments)
        assert (refused.code, "the file exists" in refused.err) == (4, True)
        assert "--overwrite" in refused.err
        assert Path(file).read_bytes() == b"kept"
        assert seekpoint("export", *arguments, "--overwrite").code == 0
        assert b"kept" not in Path(file).read_bytes()
