"""A PostgreSQL server for one benchmark, from the machine's own programs. Its commits wait for the disk."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["NoPostgresError", "postgres"]

_START_S = 30.0


class NoPostgresError(Exception):
    """This machine has no PostgreSQL."""


@contextmanager
def postgres() -> Iterator[str]:
    """Run a server, and give its address. Raises ``NoPostgresError`` where there are no programs for it."""
    programs = _programs()
    with tempfile.TemporaryDirectory(prefix="seekpoint-postgres-") as name:
        folder, port = Path(name), _free_port()
        as_user: list[str] = []
        if os.geteuid() == 0:  # it refuses to run as root
            shutil.chown(folder, "postgres")
            as_user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
        data = str(folder / "data")
        subprocess.run(
            [*as_user, str(programs / "initdb"), "-D", data, "-U", "bench", "--auth=trust", "-E", "UTF8"],
            check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=folder,
        )  # fmt: skip
        server = subprocess.Popen(
            [*as_user, str(programs / "postgres"), "-D", data, "-p", str(port), "-k", name, "-h", "127.0.0.1"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=folder,
        )  # fmt: skip
        try:
            _wait_for(port, server)
            yield f"postgresql://bench@127.0.0.1:{port}/postgres"
        finally:
            server.terminate()
            server.wait()


def _programs() -> Path:
    """Return the folder of ``initdb`` and ``postgres``: the newest of Debian's, or that on PATH."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda one: float(one.parts[-3]))
    path = str(found[-1]) if found else shutil.which("initdb")
    if path is None:
        raise NoPostgresError("no PostgreSQL on this machine: apt install postgresql")
    return Path(path).parent


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


def _wait_for(port: int, server: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + _START_S
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            if server.poll() is not None or time.monotonic() > deadline:
                raise NoPostgresError("PostgreSQL did not start") from None
            time.sleep(0.05)
