"""The dashboard and the alert rules ask for metrics that a worker and a projector export."""

from __future__ import annotations

import json
import re
from itertools import combinations
from typing import Any

import pytest
import yaml

from pages import ROOT, table
from seekpoint.console.services.daemons.projector_health import ProjectorHealth, projector_families
from seekpoint.console.services.daemons.service_metrics import swept_family
from seekpoint.consumers.projector.projector_loop import Lag
from seekpoint.producers import Process, Worker, agent
from seekpoint.producers.health.worker_health import WorkerHealth, worker_families
from seekpoint.schemas import MemoryLog

FOLDER = ROOT / "compose" / "grafana"
DASHBOARD: dict[str, Any] = json.loads((FOLDER / "fleet.json").read_text())
RULES = [rule for group in yaml.safe_load((FOLDER / "alerts.yaml").read_text())["groups"] for rule in group["rules"]]
SHOWN = {f"panel {panel['title']}": [target["expr"] for target in panel["targets"]] for panel in DASHBOARD["panels"]}
EXPRESSIONS = {**SHOWN, **{f"alert {rule['alert']}": [rule["expr"]] for rule in RULES}}
ADDED_BY_PROMETHEUS = {"instance", "job"}
_METRIC = re.compile(r"`(\w+)(?:\{(.*?)\})?`")


@agent("nothing")
async def nothing(process: Process, input: Any) -> None:
    return None


@pytest.fixture
async def exported() -> dict[str, set[str]]:
    """The names of all samples, with the names of their labels."""
    projector = ProjectorHealth()
    projector.look({0: Lag(entries=1, seconds=1.0, idle_s=0.0)})
    async with Worker.in_memory([nothing], MemoryLog()) as worker:
        families = [*worker_families(WorkerHealth(worker)), *projector_families(projector), swept_family({})]
    return {sample.name: set(sample.labels) for family in families for sample in family.samples}


@pytest.mark.parametrize("where", EXPRESSIONS)
def test_an_expression_asks_for_metrics_that_exist(where: str, exported: dict[str, set[str]]) -> None:
    """With labels that they have."""
    for expression in EXPRESSIONS[where]:
        names = set(re.findall(r"seekpoint_\w+", expression))
        assert names
        assert names <= exported.keys()
        known = set.union(*(exported[name] for name in names)) | ADDED_BY_PROMETHEUS
        used = set(re.findall(r"(\w+)\s*=~?\s*\"", expression))
        used |= {label for group in re.findall(r"by \((.*?)\)", expression) for label in group.split(", ")}
        assert used <= known
        assert expression.count("(") == expression.count(")")


async def test_the_dashboard_shows_every_metric_of_a_worker(exported: dict[str, set[str]]) -> None:
    """Of a histogram it needs the buckets only."""
    shown = {
        name for expressions in SHOWN.values() for each in expressions for name in re.findall(r"seekpoint_\w+", each)
    }
    expected = {name for name in exported if name.startswith("seekpoint_worker_")}
    assert {name for name in expected if not name.endswith(("_count", "_sum"))} <= shown


async def test_the_page_lists_every_metric_of_a_worker(exported: dict[str, set[str]]) -> None:
    """With its labels."""
    rows = table(ROOT / "docs" / "guides" / "fleet.md", "metric `seekpoint_worker_…`", "meaning")
    listed = {name: set(filter(None, labels.split(","))) for row in rows for name, labels in _METRIC.findall(row[0])}
    expected = {
        re.sub("_bucket$", "", name).removeprefix("seekpoint_worker_"): labels - {"le"}
        for name, labels in exported.items()
        if name.startswith("seekpoint_worker_") and not name.endswith(("_count", "_sum"))
    }
    assert listed == expected


def test_rates_are_taken_of_counters() -> None:
    """A rate of a gauge, or a histogram without its buckets, says nothing."""
    for expressions in EXPRESSIONS.values():
        for each in expressions:
            for name in re.findall(r"(?:rate|increase)\((seekpoint_\w+)", each):
                assert name.endswith(("_total", "_bucket"))
            for name in re.findall(r"seekpoint_\w+_total", each):
                assert re.search(rf"(rate|increase)\({name}\b", each)


def test_the_panels_have_places_of_their_own() -> None:
    """Each has an id, says what it shows, and covers no other one."""
    panels = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    assert all(panel["description"] for panel in panels)
    for one, two in combinations([panel["gridPos"] for panel in panels], 2):
        apart = one["x"] + one["w"] <= two["x"] or two["x"] + two["w"] <= one["x"]
        assert apart or one["y"] + one["h"] <= two["y"] or two["y"] + two["h"] <= one["y"]
    assert all(panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24 for panel in panels)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: str(rule["alert"]))
def test_an_alert_says_what_to_do(rule: dict[str, Any]) -> None:
    """It has a severity, and its labels in the text are those of its expression."""
    assert rule["labels"]["severity"] in ("critical", "warning")
    assert rule["annotations"].keys() == {"summary", "description"}
    kept = {label for group in re.findall(r"by \((.*?)\)", rule["expr"]) for label in group.split(", ")}
    named = set(re.findall(r"\$labels\.(\w+)", str(rule["annotations"])))
    assert named <= (kept or ADDED_BY_PROMETHEUS)
