"""``seekpoint recover | verify`` on a real Kafka: what they print, as JSON too, and what they exit with."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest

from owners import Owner
from raw_kafka import RawKafka
from seekpoint.producers import Node
from seekpoint.schemas.config.settings import Settings
from shells import Shell

pytestmark = pytest.mark.cluster

PointAt = Callable[[Settings], None]


@pytest.mark.usefixtures("on_cases")
def test_recover_prints_the_report(shell: Shell) -> None:
    """The same as the library's."""
    ran = shell("recover", "case-1")
    assert ran.code == 0
    assert "tier        scan" in ran.out
    found = shell("recover", "case-1", "--json").json
    assert found["report"]["tier"] == "scan"
    assert found["report"]["entries_applied"] == 5  # four and the signal
    assert found["claim"] is None
    assert found["hash"] == shell("state", "case-1", "--json").json["hash"]


def test_recover_claims_and_releases(shell: Shell, journal: Settings, point_at: PointAt) -> None:
    """What a dead node left behind is free again; a claim creates nothing that is misspelt."""
    point_at(journal)
    owner = Owner(RawKafka(journal).append, journal.partitions, "case-2")
    owner.claim("node-gone")
    owner.update("a", "1")
    found = shell("recover", "case-2", "--claim", "--json").json
    assert found["claim"]["epoch"] == 2
    assert (found["owner_node"], found["seq"], found["last_kind"]) == (None, 2, "context_updated")
    assert shell("recover", "cse-2", "--claim").code == 1
    assert [process["process_id"] for process in shell("ps", "--json").json["processes"]] == ["case-2"]


async def test_recover_does_not_take_a_living_owners_process(
    shell: Shell, journal: Settings, point_at: PointAt
) -> None:
    """It watches the heartbeat, and is refused; ``--take-over`` is not."""
    hasty = replace(journal, owner_timeout_s=2.0, heartbeat_interval_s=0.2)
    point_at(hasty)
    async with Node.connect(hasty) as node:
        await node.open("case-3")
        ran = await asyncio.to_thread(shell, "recover", "case-3", "--claim")
        assert ran.code == 4
        assert "the process's owner looks alive" in ran.err
        assert "--take-over" in ran.err
        ran = await asyncio.to_thread(shell, "recover", "case-3", "--claim", "--take-over", "--json")
        assert ran.code == 0, ran.err
        assert ran.json["claim"]["epoch"] == 2


def test_recover_claims_a_degraded_process_only_with_an_option(
    shell: Shell, journal: Settings, point_at: PointAt
) -> None:
    """Refused with the command that accepts the loss; then it is done."""
    point_at(journal)
    owner = Owner(RawKafka(journal).append, journal.partitions, "case-4")
    owner.claim("node-gone")
    owner.seq += 1
    owner.update("a", "1")
    ran = shell("recover", "case-4", "--claim")
    assert ran.code == 4
    assert "seekpoint recover case-4 --claim --accept-degraded" in ran.err
    found = shell("recover", "case-4", "--claim", "--accept-degraded", "--json").json
    assert found["degraded"] is None


@pytest.mark.usefixtures("on_cases")
def test_recover_of_a_finished_process_is_refused(shell: Shell) -> None:
    """Its result stays readable."""
    ran = shell("recover", "case-done", "--claim")
    assert ran.code == 4
    assert "seekpoint state case-done" in ran.err
    assert shell("state", "case-done", "--json").json["result"] == {"refund": 12}


@pytest.mark.usefixtures("on_cases")
def test_verify_folds_twice(shell: Shell) -> None:
    """Several at once; one that is not there is a fault, and does not hide the others."""
    ran = shell("verify", "case-1", "case-gap")
    assert ran.code == 0
    assert [line.split()[:2] for line in ran.out.splitlines()[1:]] == [["case-1", "yes"], ["case-gap", "yes"]]
    ran = shell("verify", "case-1", "nobody", "--json")
    assert ran.code == 1
    assert "no such process" in ran.err
    [one] = ran.json["processes"]
    assert one["agrees"]
    assert set(one["hashes"]) == {"scan", "audit"}


@pytest.mark.usefixtures("on_cases")
def test_verify_that_finds_a_difference_is_a_fault(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exit code 1, and the row says no."""
    from seekpoint.consumers import Verification

    wrong = Verification(process_id="case-1", offset=1, seq=1, epoch=1, hashes={"scan": "a", "audit": "b"})
    monkeypatch.setattr("seekpoint.consumers.recovery.verification.verify", lambda recoverer, process_id: wrong)
    ran = shell("verify", "case-1")
    assert ran.code == 1
    assert ran.out.splitlines()[1].split() == ["case-1", "no", "scan", "but", "not", "audit"]
    assert shell("verify", "case-1", "--wide").out.splitlines()[1].split()[-4:] == ["a", "b", "-", "-"]
