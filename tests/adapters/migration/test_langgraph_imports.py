"""Threads of LangGraph's savers for SQLite and Postgres become threads of a journal, checkpoint by checkpoint."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path
from typing import Any

import ormsgpack
import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.base.id import uuid6
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.serde.types import _DeltaSnapshot
from langgraph.types import Command

from langgraph_sources import BEGIN, Store, case_graph, facts_of, imported, postgres_store, sqlite_store, thread
from seekpoint import MemoryLog, Node
from seekpoint.adapters.langgraph import SeekpointSaver
from seekpoint.adapters.migration import chosen_ids, open_source
from seekpoint.errors import InvalidSetting, Refused


def filled(store: Store, *names: str) -> None:
    """Run the graph in threads until it waits for a person; the first one also has a branch."""
    with store.saver() as saver:
        graph = case_graph(saver)
        for name in names:
            graph.invoke(BEGIN, thread(name))
        older = list(graph.get_state_history(thread(names[0])))
        graph.update_state(older[3].config, {"note": "branch"})


async def read_alike(store: Store, node: Node, name: str, serde: Any = None) -> int:
    """Compare all that the store's saver and ours read of a thread; return how many checkpoints these are."""
    with store.saver(serde) as saver:
        theirs = [facts_of(one) for one in saver.list({"configurable": {"thread_id": name}})]
        places = {one["place"][1] for one in theirs}
        newest = {ns: saver.get_tuple({"configurable": {"thread_id": name, "checkpoint_ns": ns}}) for ns in places}
    mine = SeekpointSaver(node, serde=serde)
    found = [facts_of(one) async for one in mine.alist({"configurable": {"thread_id": name}})]
    assert sorted(found, key=lambda one: one["place"]) == sorted(theirs, key=lambda one: one["place"])
    for ns, there in newest.items():
        here = await mine.aget_tuple({"configurable": {"thread_id": name, "checkpoint_ns": ns}})
        assert here is not None
        assert there is not None
        assert facts_of(here) == facts_of(there)
    return len(found)


def size_of(log: MemoryLog) -> int:
    """Return how many records a log has."""
    return sum(log.watermarks(partition).high for partition in range(log.partitions))


def bytes_of(store: Store) -> bytes:
    """Return the bytes of a store that is a file."""
    return Path(store.place).read_bytes() if store.kind == "langgraph-sqlite" else b""


# --- what is imported
async def test_a_thread_is_the_same_in_the_journal_and_goes_on_there(store: Store) -> None:
    """Subgraphs, branches, sets, messages, waiting interrupts: every checkpoint, and the graph ends as in its store."""
    filled(store, "case 1", "case/2")
    async with Node.in_memory() as node:
        reports = await imported(node, store)
        assert {one.status for one in reports.values()} == {"imported"}
        counts = {name: await read_alike(store, node, name) for name in ("case 1", "case/2")}
        assert {name: one.counts["checkpoints"] for name, one in reports.items()} == counts
        assert min(counts.values()) > 8
        graph = case_graph(SeekpointSaver(node))
        await graph.ainvoke(Command(resume="yes"), thread("case/2"))
        with store.saver() as saver:
            graph_there = case_graph(saver)
            graph_there.invoke(Command(resume="yes"), thread("case/2"))
            assert (await graph.aget_state(thread("case/2"))).values == graph_there.get_state(thread("case/2")).values


VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**63), 2**64 - 1), st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=8), st.binary(max_size=40), st.lists(st.text(max_size=3), max_size=20),
    st.sets(st.integers(0, 9), max_size=4),
    st.dictionaries(st.text(max_size=3), st.integers() | st.none(), max_size=3),
    st.builds(HumanMessage, st.text(max_size=5)),
).filter(lambda value: not isinstance(value, dict) or all(abs(one or 0) < 2**63 for one in value.values()))  # fmt: skip
PLAIN = VALUES.filter(lambda value: not (isinstance(value, str) and "\0" in value))
STEPS = st.lists(
    st.tuples(
        st.integers(0, 5),  # which of the newest checkpoints is the parent; 5: none
        st.sampled_from(["", "", "sub:1"]),
        st.dictionaries(st.sampled_from("abc"), st.none() | st.tuples(PLAIN), max_size=3),
        st.lists(
            st.tuples(
                st.sampled_from(["t1", "t2"]), st.sampled_from(["a", "b", "__error__", "__interrupt__"]), PLAIN,
            ),
            max_size=4,
        ),
    ),
    min_size=1,
    max_size=9,
)  # fmt: skip


def written(saver: BaseCheckpointSaver[str], name: str, steps: Any) -> None:
    """Store random checkpoints: each takes over from its parent what it does not change."""
    known: dict[str, list[tuple[str, dict[str, Any], dict[str, Any]]]] = {}
    for number, (back, ns, changed, writes) in enumerate(steps):
        chain = known.setdefault(ns, [])
        parent_id, values, versions = chain[-1 - back] if back < len(chain) else (None, {}, {})
        values, versions = dict(values), dict(versions)
        new: dict[str, Any] = {}
        for channel, value in changed.items():
            versions[channel] = new[channel] = saver.get_next_version(versions.get(channel), None)
            values.pop(channel, None)
            if value is not None:
                values[channel] = value[0]
        one: Any = {
            "v": 4, "id": str(uuid6(clock_seq=number)), "ts": "2026", "channel_values": values,
            "channel_versions": versions, "versions_seen": {"n": dict(versions)}, "updated_channels": sorted(new),
        }  # fmt: skip
        config: Any = {"configurable": {"thread_id": name, "checkpoint_ns": ns}}
        if parent_id is not None:
            config["configurable"]["checkpoint_id"] = parent_id
        metadata: Any = {"source": "loop", "step": number, "more": {"deep": [number, None]}}
        saved = saver.put(config, one, metadata, new)
        for task_id, channel, value in writes:
            saver.put_writes(saved, [(channel, value), ("b", 1)], task_id, f"~{task_id}")
        chain.append((one["id"], values, versions))


@settings(max_examples=15, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(threads=st.lists(STEPS, min_size=1, max_size=2))
async def test_random_checkpoints_are_imported_as_they_are(store: Store, threads: Any) -> None:
    """Branches, namespaces, absent values, repeated and special writes."""
    names = [f"t{uuid6().hex}" for _ in threads]
    with store.saver() as saver:
        for name, steps in zip(names, threads, strict=True):
            written(saver, name, steps)
    async with Node.in_memory() as node:
        reports = await imported(node, store, *names)
        assert [reports[name].status for name in names] == ["imported"] * len(names), reports
        for name in names:
            await read_alike(store, node, name)


def delta_chain(saver: BaseCheckpointSaver[str], snapshots: dict[int, Any], is_written: str) -> list[Any]:
    """Store checkpoints of a delta channel: at each ``w`` of ``is_written`` the parent's writes have made a version."""
    parent: Any = thread("t")
    saved, version = [], ""
    for step, mark in enumerate(is_written):
        version = saver.get_next_version(version or None, None) if mark == "w" else version
        one = delta_checkpoint(step, {"log": snapshots[step]} if step in snapshots else {}, version)
        metadata: Any = {"source": "loop", "step": step}
        parent = saver.put(parent, one, metadata, {"log": version} if mark == "w" else {})
        if is_written[step + 1 : step + 2] == "w":
            saver.put_writes(parent, [("log", step)], f"task-{step}")
        saved.append((parent, version))
    return saved


def delta_checkpoint(step: int, values: dict[str, Any], version: str) -> Any:
    """Return a checkpoint that has only the channel ``log``."""
    return {
        "v": 4, "id": str(uuid6(clock_seq=step)), "ts": "", "channel_values": values,
        "channel_versions": {"log": version}, "versions_seen": {}, "updated_channels": None,
    }  # fmt: skip


async def test_a_delta_channel_is_built_as_in_its_store(store: Store) -> None:
    """A snapshot, a later checkpoint at its version without it, and a branch from the first that is the newest."""
    with store.saver() as saver:
        saved = delta_chain(saver, {0: _DeltaSnapshot([1]), 4: _DeltaSnapshot([1, 2])}, "w.ww")
        first, old = saved[0]
        saved.append((saver.put(first, delta_checkpoint(9, {}, old), {"source": "fork"}, {}), old))
        theirs = [saver.get_delta_channel_history(config=at, channels=["log"]) for at, _ in saved]
    async with Node.in_memory() as node:
        reports = await imported(node, store)
        assert reports["t"].status == "imported", reports["t"].differences
        mine = SeekpointSaver(node)
        assert [await mine.aget_delta_channel_history(config=at, channels=["log"]) for at, _ in saved] == theirs
        assert theirs[4]["log"]["seed"] == _DeltaSnapshot([1])


async def test_a_snapshot_does_not_stand_for_what_was_written_since(tmp_path: Path) -> None:
    """A checkpoint that keeps the version although its parent has writes to the channel differs from ours."""
    store = sqlite_store(tmp_path)
    with store.saver() as saver:
        (first, _), (second, _) = delta_chain(saver, {0: _DeltaSnapshot([1])}, "w.")
        saver.put_writes(first, [("log", 7)], "task")
    async with Node.in_memory() as node:
        report = (await imported(node, store))["t"]
        checkpoint_id = second["configurable"]["checkpoint_id"]
        assert report.differences[0] == f"{checkpoint_id}: another value of log"


async def test_large_values_are_attachments_and_come_back(store: Store) -> None:
    """A value of 1 MiB in a channel, and one in a write."""
    with store.saver() as saver:
        written(saver, "t", [(5, "", {"a": ([bytes(1_048_576)],)}, [("t1", "b", "x" * 300_000)]), (0, "", {}, [])])
    async with Node.in_memory() as node:
        assert (await imported(node, store))["t"].status == "imported"
        assert await read_alike(store, node, "t") == 2
        assert len((await node.recover("langgraph/t")).state.attachments) == 2
        assert (await imported(node, store))["t"].status == "there"


async def test_an_encrypted_store_stays_encrypted(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the key of the environment its checkpoints are split, encrypted again, and compared."""
    monkeypatch.setenv("LANGGRAPH_AES_KEY", "0123456789abcdef")
    serde = EncryptedSerializer.from_pycryptodome_aes(JsonPlusSerializer(allowed_msgpack_modules=None))
    with store.saver(serde) as saver:
        written(saver, "t", [(5, "", {"a": (["secret word"],)}, [("t1", "b", "secret word")]), (0, "", {}, [])])
    log = MemoryLog()
    async with Node.in_memory(log) as node:
        assert (await imported(node, store))["t"].status == "imported"
        assert await read_alike(store, node, "t", serde) == 2
        assert (await imported(node, store))["t"].status == "there"
        values = " ".join((await node.recover("langgraph/t")).state.values_json.values())
        assert (values.count('"msgpack+aes"') >= 3, '"msgpack"' in values) == (True, False)
    if store.kind == "langgraph-sqlite":
        monkeypatch.delenv("LANGGRAPH_AES_KEY")
        async with Node.in_memory() as node:
            report = (await imported(node, store))["t"]
            assert (report.status, "LANGGRAPH_AES_KEY" in str(report.error)) == ("refused", True)


@pytest.mark.parametrize(
    ("kind", "data", "key", "why"),
    [
        ("msgpack+aes", b"x" * 40, "", "LANGGRAPH_AES_KEY"),
        ("odd", b"x", "", "does not write"),
        ("msgpack", ormsgpack.packb(ormsgpack.Ext(9, b"x")), "", "damaged"),
        ("msgpack", b"\xc1", "", "damaged"),
        ("json", b"{", "", "damaged"),
        ("msgpack", ormsgpack.packb("plain"), "0123456789abcdef", "not encrypted"),
    ],
)
async def test_what_the_import_cannot_read_it_does_not_copy(
    store: Store, monkeypatch: pytest.MonkeyPatch, kind: str, data: bytes, key: str, why: str
) -> None:
    """A write whose bytes nobody has looked into is refused with its thread, and nothing of it is written."""
    if key:
        monkeypatch.setenv("LANGGRAPH_AES_KEY", key)
    strict = JsonPlusSerializer(allowed_msgpack_modules=None)
    with store.saver(EncryptedSerializer.from_pycryptodome_aes(strict, key=key.encode()) if key else None) as saver:
        written(saver, "t", [(5, "", {}, [("t1", "b", "word")]), (0, "", {}, [])])
    store.execute(
        "UPDATE writes SET type = :kind, value = :data",
        "UPDATE checkpoint_writes SET type = %(kind)s, blob = %(data)s", {"kind": kind, "data": data},
    )  # fmt: skip
    log = MemoryLog()
    async with Node.in_memory(log) as node:
        report = (await imported(node, store))["t"]
        assert (report.status, why in str(report.error)) == ("refused", True), report.error
        assert size_of(log) == 0


async def test_what_older_supersteps_sent_is_a_value_of_the_next_checkpoint(postgres: str) -> None:
    """Before version 4 of checkpoints it stood in the parent's writes only, and Postgres' saver moves it."""
    store = postgres_store(postgres)
    with store.saver() as saver:
        written(saver, "t", [(5, "", {"a": (1,)}, [("t1", "__pregel_tasks", ["x"])]), (0, "", {"a": (2,)}, [])])
    store.execute("", "UPDATE checkpoints SET checkpoint = jsonb_set(checkpoint, '{v}', '3')", {})
    async with Node.in_memory() as node:
        assert (await imported(node, store))["t"].status == "imported"
        assert await read_alike(store, node, "t") == 2
        found = await SeekpointSaver(node).aget_tuple(thread("t"))
        assert found is not None
        assert found.checkpoint["channel_values"]["__pregel_tasks"] == [["x"]]


# --- again
async def test_an_import_may_be_repeated_and_catches_up(store: Store) -> None:
    """The second one writes nothing; after the graph has gone on in its store, the third one adds that only."""
    filled(store, "t")
    log = MemoryLog()
    async with Node.in_memory(log) as node:
        first = (await imported(node, store))["t"]
        size = size_of(log)
        assert (await imported(node, store))["t"].status == "there"
        assert (await imported(node, store, dry_run=True))["t"].status == "there"
        assert size_of(log) == size
        with store.saver() as saver:
            case_graph(saver).invoke(BEGIN, thread("t"))
        second = (await imported(node, store))["t"]
        assert second.status == "imported"
        assert second.counts["checkpoints"] == first.counts["checkpoints"] + second.new["checkpoints"]
        assert await read_alike(store, node, "t") == second.counts["checkpoints"]


async def test_a_thread_that_goes_on_in_the_journal_is_left_alone(store: Store) -> None:
    """A repeated import only compares; if the store has gone on as well, it is refused and nothing is written."""
    filled(store, "t")
    log = MemoryLog()
    async with Node.in_memory(log) as node:
        await imported(node, store)
        await case_graph(SeekpointSaver(node)).ainvoke(Command(resume="yes"), thread("t"))
        size = size_of(log)
        again = (await imported(node, store))["t"]
        assert (again.status, again.has_gone_on, again.difference_count) == ("there", True, 0)
        with store.saver() as saver:
            case_graph(saver).invoke(Command(resume="no"), thread("t"))
        refused = (await imported(node, store))["t"]
        assert refused.status == "refused"
        assert "gone on in the journal" in str(refused.error)
        assert size_of(log) == size


async def test_another_process_under_the_id_is_refused(store: Store, tmp_path: Path) -> None:
    """A thread with another history, and a process that is no thread; other threads are imported."""
    filled(store, "t", "u", "v")
    other = sqlite_store(tmp_path)
    filled(other, "t")
    async with Node.in_memory() as node:
        await imported(node, other)
        async with node.open("langgraph/u") as process:
            await process.update("mine", 1)
        reports = await imported(node, store)
        assert {name: one.status for name, one in reports.items()} == {"t": "refused", "u": "refused", "v": "imported"}
        assert "other content" in str(reports["t"].error)
        assert "not made by this adapter" in str(reports["u"].error)
        assert "--prefix" in str(reports["t"].error)
        await read_alike(other, node, "t")


async def test_a_thread_that_was_deleted_can_be_imported_again(store: Store) -> None:
    """The process begins anew."""
    filled(store, "t")
    async with Node.in_memory() as node:
        await imported(node, store)
        await SeekpointSaver(node).adelete_thread("t")
        assert (await imported(node, store))["t"].status == "imported"
        await read_alike(store, node, "t")


async def test_a_changed_checkpoint_is_refused(store: Store) -> None:
    """Its id is known, and its metadata is not what was imported."""
    filled(store, "t")
    async with Node.in_memory() as node:
        await imported(node, store)
        changed = '{"source": "loop", "step": 99}'
        store.execute(
            "UPDATE checkpoints SET metadata = CAST(:new AS BLOB)", "UPDATE checkpoints SET metadata = %(new)s",
            {"new": changed},
        )  # fmt: skip
        report = (await imported(node, store))["t"]
        assert (report.status, "with other content" in str(report.error)) == ("refused", True)


async def test_the_comparison_finds_another_value(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A value, a write and a missing checkpoint in the journal: each is named, with its checkpoint."""
    with store.saver() as saver:
        written(saver, "t", [(5, "", {"a": (["one"],)}, [("t1", "b", "w")]), (0, "", {"b": (2,)}, [])])
        first = [one.checkpoint["id"] for one in saver.list({"configurable": {"thread_id": "t"}})][-1]
    async with Node.in_memory() as node:
        await imported(node, store)
        with store.saver() as saver:
            kind, data = saver.serde.dumps_typed(["two"])
            old = saver.get_tuple(thread("t", first))
            assert old is not None
            whole = saver.serde.dumps_typed({**old.checkpoint, "channel_values": {"a": ["two"]}})[1]
        store.execute(
            "UPDATE checkpoints SET checkpoint = :whole WHERE checkpoint_id = :id",
            "UPDATE checkpoint_blobs SET blob = %(blob)s WHERE channel = 'a'",
            {"whole": whole, "id": first, "blob": data, "kind": kind},
        )
        report = (await imported(node, store))["t"]
        assert report.status == "differs"
        assert f"{first}: another value of a" in report.differences
        assert (await imported(node, store, compare=False))["t"].status == "there"


# --- what is refused
class Touches:
    """Makes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)


async def test_pickles_are_named_and_never_loaded(store: Store, tmp_path: Path) -> None:
    """The thread is refused before anything of it is written; the others are imported."""
    filled(store, "bad", "good")
    touched = tmp_path / "touched"
    store.execute(
        "UPDATE writes SET type = 'pickle', value = :data WHERE thread_id = 'bad' AND channel = 'round'",
        "UPDATE checkpoint_writes SET type = 'pickle', blob = %(data)s WHERE thread_id = 'bad' AND channel = 'round'",
        {"data": pickle.dumps(Touches(touched))},
    )
    async with Node.in_memory() as node:
        reports = await imported(node, store)
        assert {name: one.status for name, one in reports.items()} == {"bad": "refused", "good": "imported"}
        assert "pickles are never loaded" in str(reports["bad"].error)
        assert "a write to round at " in str(reports["bad"].error)
        assert not (await node.recover("langgraph/bad", missing_ok=True)).known
        assert not touched.exists()


@pytest.mark.parametrize("change", ["checkpoints SET checkpoint = 'text'", "writes SET value = 'text'"])
async def test_a_damaged_thread_does_not_keep_the_others_from_their_import(tmp_path: Path, change: str) -> None:
    """SQLite takes a text where bytes belong. The thread is refused."""
    store = sqlite_store(tmp_path)
    filled(store, "bad", "good")
    store.execute(f"UPDATE {change} WHERE thread_id = 'bad'", "", {})
    async with Node.in_memory() as node:
        reports = await imported(node, store)
    assert {name: one.status for name, one in reports.items()} == {"bad": "refused", "good": "imported"}
    assert "no bytes" in str(reports["bad"].error)


async def test_the_source_is_only_read(store: Store) -> None:
    """A file has the same bytes afterwards; a Postgres refuses writes in the transactions of an import."""
    filled(store, "t")
    before = bytes_of(store)
    async with Node.in_memory() as node:
        await imported(node, store)
    assert bytes_of(store) == before
    source: Any = open_source(store.kind, store.place)
    with pytest.raises(Refused, match=r"readonly|read-only"), source._threads.reading("t") as one:
        (getattr(one, "_file", None) or one._base).execute("DELETE FROM checkpoints")
    assert chosen_ids(open_source(store.kind, store.place)) == ["t"]


async def test_a_dry_run_counts_and_writes_nothing(store: Store) -> None:
    """With a journal it says what is new there; without one everything is."""
    filled(store, "t", "u")
    log = MemoryLog()
    async with Node.in_memory(log) as node:
        planned = await imported(node, store, dry_run=True)
        assert size_of(log) == 0
        assert planned == await imported(None, store, dry_run=True)
        assert {one.status for one in planned.values()} == {"planned"}
        done = await imported(node, store)
        assert {name: (one.counts, one.new) for name, one in planned.items()} == {
            name: (one.counts, one.new) for name, one in done.items()
        }


async def test_writes_without_a_checkpoint_are_counted_and_left_out(store: Store) -> None:
    """A run that was killed has left them, and no graph reads them."""
    with store.saver() as saver:
        written(saver, "t", [(5, "", {"a": (1,)}, [("t1", "b", 2)])])
        saver.put_writes(thread("t", str(uuid6())), [("a", 1), ("b", 2), ("c", 3)], "t9")
    async with Node.in_memory() as node:
        report = (await imported(node, store))["t"]
        assert (report.status, report.counts["orphaned_writes"], report.counts["writes"]) == ("imported", 3, 2)


def test_what_is_no_store_is_refused(tmp_path: Path, postgres: str) -> None:
    """No file, no database, no tables of LangGraph, no such kind, no such id."""
    (tmp_path / "text.db").write_text("no database, but more than a hundred bytes of text" * 4)
    for name, words in {"none.db": "no such file", "text.db": "SQLite cannot read"}.items():
        with pytest.raises(Refused, match=words):
            open_source("langgraph-sqlite", str(tmp_path / name))
    with sqlite_store(tmp_path).saver() as saver:
        place = str(tmp_path / "other.db")
        saver.conn.execute("ATTACH ? AS other", (place,))  # type: ignore[attr-defined]
        saver.conn.execute("CREATE TABLE other.notes (text)")  # type: ignore[attr-defined]
    with pytest.raises(Refused, match="not written by LangGraph"):
        open_source("langgraph-sqlite", place)
    with pytest.raises(Refused, match="no checkpoints of PostgresSaver"):
        open_source("langgraph-postgres", f"{postgres} options='-c search_path=nowhere'")
    with pytest.raises(Refused, match="Postgres cannot be read"):
        open_source("langgraph-postgres", "host=/nowhere")
    with pytest.raises(Refused, match="langgraph-sqlite"):
        open_source("langgraph", place)
    store = sqlite_store(tmp_path)
    filled(store, "t")
    with pytest.raises(Refused, match="no such id"):
        chosen_ids(open_source(store.kind, store.place), ["t", "nobody"])


def test_a_missing_driver_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says what to install."""
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(InvalidSetting, match=r'pip install "seekpoint\[langgraph-postgres\]"'):
        open_source("langgraph-postgres", "host=/nowhere")


def test_tests_and_importer_use_the_same_driver() -> None:
    """A release of psycopg that asks for other calls is noticed here."""
    assert psycopg.__version__ >= "3.2"
