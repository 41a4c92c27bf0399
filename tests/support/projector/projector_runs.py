"""Projectors in processes of their own, to be killed and stopped."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from own_valkey import OwnValkey
from seekpoint.schemas.config.settings import Settings

__all__ = ["hurried", "program", "reached"]

PROGRAM = Path(__file__).with_name("projector_program.py")
TIMEOUT_S = 60.0


def hurried(journal: Settings, server: OwnValkey) -> Settings:
    """The journal with a Valkey of its own, saved often, members that are given up soon."""
    server.client.flushall()
    return replace(
        journal,
        redis_url=server.url,
        redis={"socket_timeout": "20"},
        checkpoint_age_max_s=0.3,
        kafka_consumer={"session.timeout.ms": "3000", "heartbeat.interval.ms": "300"},
    )


@contextmanager
def program(settings: Settings, at: str, *, stop: bool = False) -> Iterator[subprocess.Popen[str]]:
    """A projector in a process of its own that ends, or stands still, at a point."""
    environ = {
        **os.environ,
        "SEEKPOINT_JOURNAL": settings.journal,
        "SEEKPOINT_BOOTSTRAP_SERVERS": settings.bootstrap_servers,
        "SEEKPOINT_REDIS_URL": settings.redis_url or "",
        "SEEKPOINT_PARTITIONS": str(settings.partitions),
        "SEEKPOINT_CHECKPOINT_AGE_MAX_S": str(settings.checkpoint_age_max_s),
        "SEEKPOINT_KAFKA_CONSUMER_SESSION_TIMEOUT_MS": "3000",
        "SEEKPOINT_KAFKA_CONSUMER_HEARTBEAT_INTERVAL_MS": "300",
    }
    command = [sys.executable, str(PROGRAM), "--at", at, *(["--stop"] if stop else [])]
    with subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, text=True) as child:
        try:
            yield child
        finally:
            child.kill()


async def reached(child: subprocess.Popen[str]) -> str:
    """The point it is at."""
    assert child.stdout is not None
    return (await asyncio.wait_for(asyncio.to_thread(child.stdout.readline), TIMEOUT_S)).strip()
