"""Every Kafka consumer in the sources is constructed with the settings for safe reading."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from seekpoint.schemas.config.client_options import REFUSED
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.errors import InvalidSetting
from seekpoint.schemas.log.safe_reading import SAFE_CONFIG, safe_config, watermark_config

ROOT = Path(__file__).parents[3]
ROOTS = ("api", "schemas", "consumers", "producers", "compose", "console")


def unsafe(source: str) -> list[int]:
    """Return the lines that construct a Kafka consumer without ``safe_config()`` or ``watermark_config()``."""
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
    return isinstance(first, ast.Call) and _name(first.func) in ("safe_config", "watermark_config")


def test_every_consumer_is_made_from_a_safe_configuration() -> None:
    """A consumer without one of the settings would silently read damaged or aborted records, or skip some."""
    found = {
        path.relative_to(ROOT).as_posix(): path.read_text()
        for root in ROOTS
        for path in (ROOT / root).rglob("*.py")
        if ".venv" not in path.parts
    }
    makers = [path for path, source in found.items() if any(True for _ in _constructions(ast.parse(source)))]
    assert len(makers) >= 6, makers
    assert {path: unsafe(found[path]) for path in makers if unsafe(found[path])} == {}
    asks = [path for path, source in found.items() if "watermark_config(config)" in source]
    assert asks == ["consumers/seekpoint/consumers/kafka/kafka_pool.py"]  # never assigned there


@pytest.mark.parametrize(
    "source",
    [
        "Consumer({})",
        "confluent_kafka.Consumer(config)",
        "Consumer({**safe_config(config), 'check.crcs': False})",
        "Consumer(safe_config(config), **more)",
        "DeserializingConsumer(config)",
        "class Mine(Consumer):\n    def __init__(self, config):\n        super().__init__(config)",
    ],
)
def test_the_audit_finds_a_consumer_without_a_safe_configuration(source: str) -> None:
    """Each of these constructor calls bypasses the safe settings."""
    assert unsafe(source)


def test_the_safe_settings_override_all_others() -> None:
    """Neither a caller nor a user can replace them."""
    assert SAFE_CONFIG["check.crcs"] is True
    assert (SAFE_CONFIG["isolation.level"], SAFE_CONFIG["auto.offset.reset"]) == ("read_committed", "error")
    others = dict.fromkeys(SAFE_CONFIG, "other") | {"fetch.wait.max.ms": 1}
    assert safe_config(others) == {**SAFE_CONFIG, "fetch.wait.max.ms": 1}


def test_a_consumer_that_only_queries_offsets_is_safe_except_for_its_isolation_level() -> None:
    """The end of a partition that it reports includes uncommitted records."""
    config = watermark_config(dict.fromkeys(SAFE_CONFIG, "other"))
    assert config == {**SAFE_CONFIG, "isolation.level": "read_uncommitted"}


@pytest.mark.parametrize("name", sorted(SAFE_CONFIG))
def test_a_user_cannot_set_a_safe_setting(name: str) -> None:
    """The error says why. To ignore the value silently would suggest that it is used."""
    assert REFUSED["kafka_consumer"][name]
    with pytest.raises(InvalidSetting, match="may not be set"):
        Settings(kafka_consumer={name: "false"})
