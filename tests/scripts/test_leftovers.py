"""A test that leaves a thread, an event loop or a node behind fails."""

from __future__ import annotations

import asyncio
import threading

import pytest

from leftovers import nothing_left
from seekpoint.producers import SyncNode


def test_a_running_thread_is_reported_with_its_stack() -> None:
    """One that ends in time is fine."""
    go_on = threading.Event()
    thread = threading.Thread(target=go_on.wait, name="forgotten")
    with pytest.raises(pytest.fail.Exception, match=r"(?s)thread forgotten.*in wait"), nothing_left(0.05):
        thread.start()
    with nothing_left():
        ending = threading.Thread(target=go_on.wait)
        ending.start()
        threading.Timer(0.05, go_on.set).start()
    thread.join()


def test_an_open_event_loop_is_reported() -> None:
    """Also one that nobody runs."""
    loops = []
    with pytest.raises(pytest.fail.Exception, match="an open event loop"), nothing_left(0.05):
        loops.append(asyncio.new_event_loop())
    loops[0].close()


def test_an_open_node_is_reported() -> None:
    """By its threads."""
    node = SyncNode.in_memory()
    with pytest.raises(pytest.fail.Exception, match="thread seekpoint-"), nothing_left(0.05):
        node.__enter__()
    with nothing_left():
        node.__exit__(None, None, None)
