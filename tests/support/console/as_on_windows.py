"""Take away what Windows lacks, then import all of Seekpoint and use what is promised there. Run as a program.

The standard library and the clients are imported first: they choose their own Windows parts when they are, which do not
exist here. So this shows what Seekpoint's own modules ask of the system, and not that its clients work on Windows.
"""

from __future__ import annotations

import asyncio
import importlib
import os
import pkgutil
import select
import shutil
import signal
import sys
import sysconfig
import tempfile
import types
from pathlib import Path
from typing import Any

import activegraph
import agents
import agnt5
import confluent_kafka.admin
import fastavro
import faust
import google.adk.runners
import jinja2
import mcp.server.stdio
import msgpack
import orjson
import prometheus_client
import promptise.runtime
import pydantic_ai
import redis
import rich.box
import rich.console
import rich.progress
import rich.table
import rich.text
import starlette.applications
import typer
import uvicorn

shutil._use_fd_functions = False  # type: ignore[attr-defined]  # as on Windows
if sys.version_info >= (3, 13):
    os.process_cpu_count = os.cpu_count  # as on Windows; elsewhere it calls os.sched_getaffinity
POSIX_MODULES = ("fcntl", "grp", "pty", "pwd", "resource", "syslog", "termios", "tty")
POSIX_NAMES = {
    os: "O_CLOEXEC O_NOFOLLOW O_NONBLOCK WNOHANG chown fchmod fork forkpty getegid geteuid getgid getloadavg getpgid "
    "getuid killpg mkfifo register_at_fork sched_getaffinity setsid statvfs sysconf uname",
    signal: "SIGALRM SIGCHLD SIGCONT SIGHUP SIGKILL SIGQUIT SIGSTOP SIGUSR1 SIGUSR2 pthread_sigmask",
    select: "epoll poll",
}
CLIENTS = (
    activegraph,
    agents,
    agnt5,
    importlib.import_module("aiokafka"),
    confluent_kafka,
    fastavro,
    faust,
    google.adk,
    jinja2,
    mcp,
    msgpack,
    orjson,
    prometheus_client,
    promptise,
    pydantic_ai,
    redis,
    rich,
    starlette,
    typer,
    uvicorn,
)


def take_away() -> None:
    """From here on this is as much of a Windows as can be made of another system."""
    sysconfig.get_config_vars()  # kept: it would look for those of another system
    for name in POSIX_MODULES:
        sys.modules[name] = None  # type: ignore[assignment]  # an import of it fails
    for module, names in POSIX_NAMES.items():
        for name in names.split():
            if hasattr(module, name):
                delattr(module, name)

    def refuse(*_: object) -> None:
        raise NotImplementedError

    loop: Any = asyncio.SelectorEventLoop
    loop.add_signal_handler = refuse
    locking = types.ModuleType("msvcrt")
    locking.LK_NBLCK, locking.LK_UNLCK, locking.locking = 2, 0, lambda *_: None  # type: ignore[attr-defined]
    sys.modules["msvcrt"] = locking
    sys.platform = "win32"


def import_everything() -> int:
    """Every module of the wheel; how many there are."""
    import seekpoint

    names = [each.name for each in pkgutil.walk_packages(seekpoint.__path__, "seekpoint.")]
    for name in names:
        importlib.import_module(name)
    return len(names)


async def quickstart() -> None:
    """The first program of docs/start.md."""
    from seekpoint.producers import Node

    async with Node.in_memory() as node:
        async with node.open("case-17") as process:
            await process.update("status", "checking")
        assert (await node.recover("case-17")).state.context == {"status": "checking"}


async def embedded() -> None:
    """A journal in a file: a node, a worker and a client."""
    from seekpoint.producers import Client, Node, Process, Worker, agent

    @agent("double")
    async def double(process: Process, number: int) -> int:
        return await process.step("double", lambda: 2 * number)

    with tempfile.TemporaryDirectory() as name:
        file = Path(name) / "runs.db"
        async with Node.local(file) as node:
            assert await node.run(double, "case-17", 3) == 6
        async with Node.local(file) as node:
            assert await node.run(double, "case-17", 3) == 6
        async with Worker.local([double], file), Client.local(file) as client:
            assert await (await client.submit(double, "case-18", 4)).result(60) == 8


async def told_to_stop() -> None:
    """A service hears of it without the loop's own handlers."""
    from seekpoint.console.services.daemons.termination import on_stop

    stop = asyncio.Event()
    on_stop(stop.set)
    signal.raise_signal(signal.SIGTERM)
    await asyncio.wait_for(stop.wait(), 30)


def files() -> None:
    """A file that becomes whole, a lock, a file that is replaced."""
    from seekpoint.consumers.staging.capture.new_file import NewFile
    from seekpoint.schemas.config.private_files import (
        free_lock,
        open_private,
        private_directory,
        take_lock,
        write_private,
    )

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "folder"
        private_directory(folder)
        write_private(folder / "state", "text", sync=True)
        new = NewFile("a file", folder / "file", overwrite=False)
        new.out.write(b"whole")
        new.finish()
        gone = NewFile("a file", folder / "gone", overwrite=False)
        gone.abandon()
        lock = open_private(folder / "lock", os.O_RDWR | os.O_CREAT)
        assert take_lock(lock)
        free_lock(lock)
        os.close(lock)
        assert {each.name: each.read_text() for each in folder.iterdir()} == {
            "state": "text",
            "file": "whole",
            "lock": "",
        }


def commands() -> None:
    """Help works; what does not work there says so in one line."""
    from seekpoint.console.cli import main
    from seekpoint.console.render.output import is_abandoned

    for arguments in (["--help"], ["state", "--help"], ["--version"]):
        assert main(arguments) == 0, arguments
    with tempfile.TemporaryDirectory() as name:
        os.chdir(name)
        assert main(["up"]) == 3
        assert main(["demo"]) == 3
        assert main(["state", "x", "--bootstrap-servers", "127.0.0.1:1"]) == 3
        os.chdir("/")
    assert not is_abandoned(sys.stdout)


if __name__ == "__main__":
    take_away()
    print(import_everything(), "modules")
    asyncio.run(quickstart())
    asyncio.run(embedded())
    asyncio.run(told_to_stop())
    files()
    commands()
    print("all is well")
