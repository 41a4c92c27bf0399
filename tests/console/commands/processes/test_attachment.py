"""``seekpoint attachment``, and what ``seekpoint state`` says of attachments."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from seekpoint.producers import Client, Node
from seekpoint.schemas import Ref
from seekpoint.schemas.config.settings import local_settings
from shells import Shell

BYTES = bytes(range(256)) * 8_000


@pytest.fixture
def refs(tmp_path: Path) -> list[Ref]:
    """Two attachments in a file."""

    async def attach() -> list[Ref]:
        async with Node.local(tmp_path / "runs.db") as node, node.open("case-17") as process:
            return [await process.attach(BYTES, media_type="image/png"), await process.attach(b"small")]

    return asyncio.run(attach())


def test_a_state_lists_attachments_and_one_is_written(tmp_path: Path, refs: list[Ref], shell: Shell) -> None:
    """The beginning of a digest is enough."""
    address = ("--journal-url", f"sqlite:///{tmp_path / 'runs.db'}")
    ran = shell("state", "case-17", *address)
    assert f"  {refs[0].digest[:12]}  2,048,000 bytes, image/png" in ran.out
    [first, second] = shell("state", "case-17", "--json", *address).json["attachments"]
    assert (first["digest"], first["size"], first["is_whole"], second["size"]) == (refs[0].digest, 2_048_000, True, 5)
    file = tmp_path / "scan.png"
    done = shell("attachment", "case-17", refs[0].digest[:8], str(file), *address)
    assert (done.code, done.err) == (0, f"2,048,000 bytes, image/png, in {file}\n")
    assert file.read_bytes() == BYTES
    again = shell("attachment", "case-17", refs[1].digest, str(file), *address)
    assert (again.code, file.read_bytes()) == (4, BYTES)
    facts = shell("attachment", "case-17", refs[1].digest, str(file), "--overwrite", "--json", *address).json
    assert (facts["bytes"], file.read_bytes()) == (5, b"small")


def test_an_unknown_digest_and_a_bad_place_are_told(tmp_path: Path, refs: list[Ref], shell: Shell) -> None:
    """With what to do next."""
    address = ("--journal-url", f"sqlite:///{tmp_path / 'runs.db'}")
    unknown = shell("attachment", "case-17", "no", str(tmp_path / "x"), *address)
    assert unknown.code == 1
    assert "seekpoint state case-17" in unknown.err
    assert shell("attachment", "case-17", "", str(tmp_path / "x"), *address).code == 1
    assert shell("attachment", "case-17", refs[0].digest, str(tmp_path / "none" / "x"), *address).code == 4
    assert shell("attachment", "case-17", refs[0].digest, "-", "--json", *address).code == 2


async def test_a_client_reads_what_a_result_refers_to(tmp_path: Path) -> None:
    """It owns nothing, and needs no node."""
    settings = local_settings(tmp_path / "runs.db", {})
    async with Node.connect(settings) as node, node.open("p") as process:
        ref = await process.attach(BYTES)
    async with Client.connect(settings) as client:
        assert await client.read_attachment(ref) == BYTES
