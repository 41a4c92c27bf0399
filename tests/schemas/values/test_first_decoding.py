"""msgspec crashes when several threads decode a Struct for the first time at once: here one thread builds each type."""

from __future__ import annotations

import subprocess
import sys

import pytest

_THREADS = """
import sys, threading
sys.setswitchinterval(1e-6)
import msgspec

def at_once(call, count=8):
    barrier, failures = threading.Barrier(count), []
    def work():
        barrier.wait()
        try:
            call()
        except Exception as exc:
            failures.append(exc)
    threads = [threading.Thread(target=work) for _ in range(count)]
    [one.start() for one in threads]
    [one.join() for one in threads]
    assert not failures, failures
"""

_USERS = """
from seekpoint.schemas.values.value_types import value_type
for number in range(300):
    inner = msgspec.defstruct(f"Inner{number}", [(f"f{at}", int | None, None) for at in range(30)])
    outer = msgspec.defstruct(f"Outer{number}", [(f"f{at}", list[inner] | None, None) for at in range(30)])
    at_once(lambda: value_type(outer))
"""

_OURS = """
from seekpoint.schemas.frozen_struct import built
for number in range(300):
    inner = msgspec.defstruct(f"Inner{number}", [(f"f{at}", int | None, None) for at in range(30)])
    outer = msgspec.defstruct(f"Outer{number}", [(f"f{at}", list[inner] | None, None) for at in range(30)])
    at_once(lambda: msgspec.convert({"f0": [{"f1": 1}]}, built(outer)))
"""


@pytest.mark.parametrize("code", [_USERS, _OURS], ids=["users", "ours"])
def test_threads_that_decode_a_type_first_do_not_crash(code: str) -> None:
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", _THREADS + code], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr[-2000:]
