"""A PostgreSQL server of this machine for one test session, with its programs where Debian or Homebrew put them."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

__all__ = ["postgres_programs", "running_postgres"]

_PLACES = ("/usr/lib/postgresql", "/usr/local/opt/postgresql", "/opt/homebrew/opt/postgresql")


def postgres_programs() -> Path | None:
    """Return the folder with ``initdb`` and ``postgres``; None if there is none."""
    found = shutil.which("initdb")
    if found is not None:
        return Path(found).parent
    folders = [path for place in _PLACES for path in Path(place).glob("**/bin/initdb")]
    return max(folders).parent if folders else None


@contextmanager
def running_postgres(programs: Path, folder: Path) -> Iterator[str]:
    """Run a server in ``folder``, reached by a socket there. Yield its connection string."""
    user: dict[str, Any] = {}
    control: list[Any]
    if os.geteuid() == 0:  # PostgreSQL does not run as root
        owner = pwd.getpwnam("nobody")
        user = {"user": owner.pw_uid, "group": owner.pw_gid, "extra_groups": []}
        os.chown(folder, owner.pw_uid, owner.pw_gid)
    data = folder / "data"
    # fsync is off: a test that kills kills the importer, not the server.
    subprocess.run(
        [programs / "initdb", "-D", data, "-U", "tester", "-A", "trust", "-E", "UTF8", "--no-sync", "--locale=C"],
        check=True, stdout=subprocess.DEVNULL, cwd=folder, **user,
    )  # fmt: skip
    options = f"-c listen_addresses= -c unix_socket_directories={folder} -c fsync=off"
    control = [programs / "pg_ctl", "-D", data, "-w", "-t", "60", "-l", folder / "log"]
    subprocess.run([*control, "-o", options, "start"], check=True, stdout=subprocess.DEVNULL, cwd=folder, **user)
    try:
        yield f"host={folder} user=tester dbname=postgres"
    finally:
        subprocess.run([*control, "-m", "immediate", "stop"], check=True, stdout=subprocess.DEVNULL, cwd=folder, **user)
