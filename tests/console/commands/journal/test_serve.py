"""``seekpoint serve recovery`` and its health port."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from agent_programs import environment, until
from health_pages import get
from seekpoint.console.services.daemons.projector_health import ProjectorHealth, projector_families
from seekpoint.console.services.daemons.service_metrics import recovery_families
from seekpoint.consumers.heartbeats.health_port import HealthPort
from seekpoint.consumers.heartbeats.progress_health import ProgressHealth
from seekpoint.consumers.projector.projector_loop import Lag
from seekpoint.consumers.recovery_service.recovery_service import RecoveryService
from seekpoint.producers import Node
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.errors import InvalidSetting
from shells import Shell


def test_health_is_503_without_progress() -> None:
    """503 and why; green again with progress."""
    now = [0.0]
    health = ProgressHealth(30.0, lambda: now[0])
    with HealthPort("127.0.0.1", 0, health, lambda: ()) as served:
        assert get(served.port, "/healthz")[0] == get(served.port, "/livez")[0] == 200
        assert get(served.port, "/readyz") == (503, '{"ok": false, "reason": "it has not begun to work"}')
        now[0] = 31.0
        health.observe(4)
        code, body = get(served.port, "/healthz")
        assert (code, json.loads(body)) == (503, {"ok": False, "lag": 4, "stalled_s": 31.0})
        assert get(served.port, "/readyz") == (503, '{"ok": false, "reason": "no progress for 31 s"}')
        health.progress()
        assert get(served.port, "/healthz?x")[0] == get(served.port, "/readyz")[0] == 200
        assert get(served.port, "/")[0] == 404
        with pytest.raises(InvalidSetting, match="--health-port"):
            HealthPort("127.0.0.1", served.port, health, lambda: ())


async def test_metrics_have_units_and_no_process_ids() -> None:
    """Prometheus' names; outcomes are the only labels."""
    service = RecoveryService(Settings())
    service.figures.answered, service.figures.answer_seconds = 3, 0.5
    service.health.observe(7)
    with HealthPort("127.0.0.1", 0, service.health, lambda: recovery_families(service)) as served:
        _, text = await asyncio.to_thread(get, served.port, "/metrics")
    assert 'seekpoint_recovery_requests_total{outcome="answered"} 3.0' in text
    assert "seekpoint_recovery_answer_duration_seconds_sum 0.5" in text
    assert "seekpoint_recovery_waiting_requests 7.0" in text
    assert {line.partition("{")[2].partition("=")[0] for line in text.splitlines() if "{" in line} == {"outcome"}
    await service.close()


@contextmanager
def serving(
    settings: Settings, *arguments: str, service: str = "recovery"
) -> Iterator[tuple[subprocess.Popen[str], Callable[[str], str]]]:
    """The command as a process of its own, and the first line of its stderr that holds some words."""
    command = [sys.executable, "-m", "seekpoint.console", "serve", service, *arguments]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment(settings)) as running:
        assert running.stderr is not None
        os.set_blocking(running.stderr.fileno(), False)
        said: list[str] = []

        def line(words: str) -> str:
            def look() -> str | None:
                said.extend(running.stderr or ())
                return next((each for each in said if words in each), None)

            return str(until(look, 120, lambda: "".join(said)))

        try:
            yield running, line
        finally:
            running.kill()


@pytest.mark.cluster
async def test_serve_recovery_answers_until_a_signal_stops_it(journal: Settings) -> None:
    """With health and metrics on its port; SIGTERM ends it in order."""
    async with Node.connect(journal) as node:
        async with node.open("case-1") as process:
            await process.update("a", 1)
        with serving(journal, "--health-port", "0") as (running, line):
            port = int((await asyncio.to_thread(line, "health on")).split("/healthz")[0].rpartition(":")[2])
            found = await node.request_recovery("case-1")
            assert found.state is not None
            assert found.state.context == {"a": 1}
            assert (await asyncio.to_thread(get, port, "/healthz"))[0] == 200
            # More than one where an answer came late and the node asked again.
            answered = re.compile(r'seekpoint_recovery_requests_total\{outcome="answered"\} [1-9]')
            async with asyncio.timeout(60):  # it is counted once its offset is committed, after it was sent
                while not answered.search((await asyncio.to_thread(get, port, "/metrics"))[1]):  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
            running.send_signal(signal.SIGTERM)
            assert await asyncio.to_thread(running.wait, 25) == 0


@pytest.mark.cluster
def test_serve_recovery_needs_a_journal(
    settings: Settings, shell: Shell, point_at: Callable[[Settings], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No topics: one line and the next command. No Kafka: not reachable."""
    point_at(settings)
    ran = shell("serve", "recovery")
    assert ran.code == 1
    assert "seekpoint topics create" in ran.err
    monkeypatch.setenv("SEEKPOINT_BOOTSTRAP_SERVERS", "127.0.0.1:1")
    assert shell("serve", "recovery").code == 3


# --- projector --------------------------------------------------------------------------------------------------------
def test_a_projector_with_lag_and_no_progress_is_unhealthy() -> None:
    """Lag alone is no illness, nor is rest; a partition that stands is, and a loop that does not turn."""
    now = [1_000.0]
    health = ProjectorHealth(30.0, lambda: now[0])
    idle_s = {0: 500.0, 1: 0.1}

    def pass_time(seconds: int, *, lag: int, is_applying: bool) -> None:
        for _ in range(seconds):
            now[0] += 1
            idle_s[0] += 1
            idle_s[1] = 0.1 if is_applying else idle_s[1] + 1
            health.look(
                {
                    0: Lag(entries=0, seconds=0.0, idle_s=idle_s[0]),
                    1: Lag(entries=lag, seconds=1.0, idle_s=idle_s[1]),
                }
            )

    pass_time(100, lag=7, is_applying=True)
    assert (health.is_well, health.lag) == (True, 7)
    pass_time(100, lag=0, is_applying=False)
    assert health.is_well
    pass_time(29, lag=7, is_applying=False)
    assert health.is_well
    pass_time(2, lag=7, is_applying=False)
    assert not health.is_well
    pass_time(3, lag=7, is_applying=True)
    assert health.is_well
    same = {0: Lag(entries=0, seconds=0.0, idle_s=0.0)}
    for _ in range(33):
        now[0] += 1
        health.look(same)
    assert not health.is_well


async def test_metrics_of_a_projector_have_a_partition_label() -> None:
    """Entries and seconds; no process id anywhere."""
    health = ProjectorHealth()
    assert health.not_ready == "it has not begun to work"
    health.look({3: Lag(entries=7, seconds=1.5, idle_s=2.0, stopped="why")})
    assert health.not_ready is None
    with HealthPort("127.0.0.1", 0, health, lambda: projector_families(health)) as served:
        _, text = await asyncio.to_thread(get, served.port, "/metrics")
        code, body = await asyncio.to_thread(get, served.port, "/healthz")
    assert 'seekpoint_projector_lag_entries{partition="3"} 7.0' in text
    assert 'seekpoint_projector_lag_seconds{partition="3"} 1.5' in text
    assert "seekpoint_projector_stopped_partitions 1.0" in text
    assert {line.partition("{")[2].partition("=")[0] for line in text.splitlines() if "{" in line} == {"partition"}
    assert (code, json.loads(body)["lag"]) == (200, 7)


@pytest.mark.cluster
async def test_serve_projector_updates_the_view_until_a_signal_stops_it(
    journal: Settings, shell: Shell, point_at: Callable[[Settings], None]
) -> None:
    """What was appended shows in ``ps`` without reading the log; SIGTERM saves checkpoints and ends it in order."""
    point_at(journal)
    with serving(journal, "--health-port", "0", service="projector") as (running, line):
        port = int((await asyncio.to_thread(line, "health on")).split("/healthz")[0].rpartition(":")[2])
        async with Node.connect(journal) as node, node.open("case-1") as process:
            await process.update("a", 1)

        def applied() -> object:
            return shell("lag", "--json").json["behind"] == 0

        await asyncio.to_thread(until, applied, 30)
        listed = await asyncio.to_thread(shell, "ps", "--json")
        assert "reading from the log" not in listed.err
        assert [one["process_id"] for one in listed.json["processes"]] == ["case-1"]
        assert (await asyncio.to_thread(get, port, "/healthz"))[0] == 200

        def measured() -> bool:
            return "seekpoint_projector_partitions 4.0" in get(port, "/metrics")[1]

        await asyncio.to_thread(until, measured, 10)
        running.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(running.wait, 25) == 0
    assert (await asyncio.to_thread(shell, "recover", "case-1", "--tier", "checkpoint")).code == 0


def test_serve_projector_needs_a_redis(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """The view is kept there."""
    monkeypatch.setattr("seekpoint.consumers.kafka.reach.reach", lambda servers: [])
    monkeypatch.setenv("SEEKPOINT_REDIS_URL", "none")
    ran = shell("serve", "projector")
    assert ran.code == 2
    assert "needs a Redis" in ran.err
