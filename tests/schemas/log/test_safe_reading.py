"""Every consumer of the sources reads safely: what its settings are, and that no constructor call goes round them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from seekpoint.schemas.config.client_options import REFUSED
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.errors import InvalidSetting
from seekpoint.schemas.log.safe_reading import SAFE, asking, safe

ROOT = Path(__file__).parents[3]
ROOTS = ("schemas", "consumers", "producers", "compose", "console")


def unsafe(source: str) -> list[int]:
    """The lines that make a consumer of the Kafka client from anything but ``safe(...)`` or ``asking(...)``."""
    return [call.lineno for call in _constructions(ast.parse(source)) if not _is_safe(call)]


def _constructions(tree: ast.Module) -> Iterator[ast.Call]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _name(node.func).endswith("Consumer"):
            yield node
        if isinstance(node, ast.ClassDef) and any(_name(base).endswith("Consumer") for base in node.bases):
            inits = [each for each in ast.walk(node) if isinstance(each, ast.Call)]
            yield from (each for each in inits if _name(each.func) == "__init__")


def _name(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def _is_safe(call: ast.Call) -> bool:
    first = call.args[0] if len(call.args) == 1 and not call.keywords else None
    return isinstance(first, ast.Call) and _name(first.func) in ("safe", "asking")


def test_every_consumer_is_made_from_a_safe_configuration() -> None:
    """A consumer that forgets one of the settings would read damaged, aborted or passed-over records in silence."""
    found = {
        path.relative_to(ROOT).as_posix(): path.read_text()
        for root in ROOTS
        for path in (ROOT / root).rglob("*.py")
        if ".venv" not in path.parts
    }
    makers = [path for path, source in found.items() if any(True for _ in _constructions(ast.parse(source)))]
    assert len(makers) >= 6, makers
    assert {path: unsafe(found[path]) for path in makers if unsafe(found[path])} == {}
    asks = [path for path, source in found.items() if "asking(config)" in source]
    assert asks == ["consumers/seekpoint/consumers/kafka/kafka_pool.py"]  # where a consumer that asks is never assigned


@pytest.mark.parametrize(
    "source",
    [
        "Consumer({})",
        "confluent_kafka.Consumer(config)",
        "Consumer({**safe(config), 'check.crcs': False})",
        "Consumer(safe(config), **more)",
        "DeserializingConsumer(config)",
        "class Mine(Consumer):\n    def __init__(self, config):\n        super().__init__(config)",
    ],
)
def test_the_audit_finds_a_consumer_that_forgot(source: str) -> None:
    """The audit itself can fail."""
    assert unsafe(source)


def test_the_safe_settings_win_over_everything() -> None:
    """Whatever a caller or a user sets."""
    assert SAFE["check.crcs"] is True
    assert (SAFE["isolation.level"], SAFE["auto.offset.reset"]) == ("read_committed", "error")
    assert safe(dict.fromkeys(SAFE, "other") | {"fetch.wait.max.ms": 1}) == {**SAFE, "fetch.wait.max.ms": 1}


def test_a_consumer_that_only_asks_for_offsets_is_safe_but_for_what_it_asks() -> None:
    """Where a partition ends includes what is not committed."""
    assert asking(dict.fromkeys(SAFE, "other")) == {**SAFE, "isolation.level": "read_uncommitted"}


@pytest.mark.parametrize("name", sorted(SAFE))
def test_a_user_who_sets_a_safe_setting_is_told_why_not(name: str) -> None:
    """Silence would let the user believe that the value is used."""
    assert REFUSED["kafka_consumer"][name]
    with pytest.raises(InvalidSetting, match="may not be set"):
        Settings(kafka_consumer={name: "false"})
