"""Kafka's jars are those whose SHA-256 sums the release pins, or nothing of them is run."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from seekpoint.compose import runtime
from seekpoint.compose.setup_phases import KAFKA_VERSION
from seekpoint.schemas.errors import ClusterFailed

SUMS = Path(runtime.__file__).with_name("kafka_jars.sha256")


@pytest.mark.parametrize("name", [f"kafka_2.13-{KAFKA_VERSION}.jar", "extra-1.0.jar"])
def test_another_jar_is_refused(name: str, tmp_path: Path) -> None:
    """A whole one under a pinned name, and one that is not pinned at all."""
    with zipfile.ZipFile(tmp_path / name, "w") as jar:
        jar.writestr("Other.class", b"")
    with pytest.raises(ClusterFailed, match="SHA-256"):
        runtime._check_jar(str(tmp_path / name), runtime.pinned_sums())


def test_the_jars_of_this_release_are_pinned() -> None:
    """The list is for the version of Kafka that is started, and names each jar once."""
    names = [line.split()[1] for line in SUMS.read_text().splitlines()]
    assert f"kafka_2.13-{KAFKA_VERSION}.jar" in names
    assert len({*names}) == len(names) == len(runtime.pinned_sums())
