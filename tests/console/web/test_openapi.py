"""The API against its own description: schemathesis makes requests of every kind, and none of them is a 500."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis.specs.openapi.checks import positive_data_acceptance

from consoles import Served, serving
from seekpoint.console.services.arguments.target import CommandTarget
from seekpoint.console.web.console_options import ConsoleOptions
from seekpoint.console.web.routes import OPERATIONS


@pytest.fixture
def open_console(target: CommandTarget) -> Iterator[tuple[Served, dict[str, str]]]:
    """A console that changes the journal, and the headers that let a request do so."""
    with (
        serving(target, ConsoleOptions(port=0, allow_changes=True)) as served,
        served.client() as client,
    ):
        page = client.get("/processes")
        csrf = re.findall(r'name="csrf-token" content="([^"]+)"', page.text)[0]
        yield served, {"X-CSRF-Token": csrf, "Cookie": page.headers["set-cookie"].partition(";")[0]}


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda one: f"{one.method} {one.path}")
def test_no_request_is_a_server_error(open_console: tuple[Served, dict[str, str]], operation: Any) -> None:
    """Valid and invalid ones. Every answer has a status and a form that the document describes.

    Only one check is left out: a process id may have the form that the schema says, and still not be allowed.
    """
    console, headers = open_console
    schema = schemathesis.openapi.from_url(f"{console.url}/api/openapi.json")
    described = schema[operation.path][operation.method]
    modes = [schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE]
    cases = st.one_of(*(described.as_strategy(generation_mode=mode) for mode in modes))

    @given(case=cases)
    @settings(
        max_examples=30, deadline=None, derandomize=True, database=None, phases=[Phase.generate],
        suppress_health_check=[*HealthCheck],
    )  # fmt: skip
    def ask(case: Any) -> None:
        answer = case.call(base_url=console.url, headers=headers)
        assert answer.status_code < 500, (case.as_curl_command(), answer.text)
        case.validate_response(answer, excluded_checks=[positive_data_acceptance])

    ask()


def test_a_connection_is_answered_at_once(console: Served) -> None:
    """Its later requests too: the fastest of twenty, of which each waited 40 ms for an acknowledgement of its head."""
    with console.client() as client:
        times = []
        for _ in range(20):
            began = time.perf_counter()
            assert client.get("/api/me").status_code == 200
            times.append(time.perf_counter() - began)
    assert min(times[1:]) < 0.03
