"""Profiles of clusters: settings and secrets of other clusters in the settings file."""

from __future__ import annotations

from pathlib import Path

import pytest

from seekpoint.schemas import Settings
from seekpoint.schemas.config.cluster_profiles import DEFAULT_CLUSTER, cluster_of, load_clusters
from seekpoint.schemas.errors import InvalidSetting

FILE = """
bootstrap_servers = "own:9092"

[clusters.prod]
bootstrap_servers = "kafka-1:9093"
security.protocol = "SASL_SSL"
sasl.password.file = "{secret}"

[clusters.staging]
bootstrap_servers = "kafka-staging:9092"
staging = true
start_timeout_s = 3
"""


def written(tmp_path: Path, text: str = FILE) -> Path:
    secret = tmp_path / "secret"
    secret.write_text("hunter2\n")
    file = tmp_path / "seekpoint.toml"
    file.write_text(text.replace("{secret}", str(secret)))
    return file


def test_a_profile_is_a_cluster_with_its_own_client_settings(tmp_path: Path) -> None:
    """Names may be dotted, secrets come from files, and only `staging = true` makes a staging cluster."""
    clusters = load_clusters(written(tmp_path), {})
    assert set(clusters) == {DEFAULT_CLUSTER, "prod", "staging"}
    prod = clusters["prod"]
    assert prod.settings.bootstrap_servers == "kafka-1:9093"
    assert prod.settings.kafka == {"security.protocol": "SASL_SSL", "sasl.password": "hunter2"}
    assert [name for name, each in clusters.items() if each.is_staging] == ["staging"]
    assert clusters["staging"].settings.start_timeout_s == 3
    assert "hunter2" not in repr(clusters)


def test_default_is_the_cluster_of_the_settings(tmp_path: Path) -> None:
    """It is never a staging cluster, and profiles change no setting of it."""
    file = written(tmp_path)
    clusters = load_clusters(file, {})
    assert clusters[DEFAULT_CLUSTER].settings == Settings.load(file, {}) == Settings(bootstrap_servers="own:9092")
    assert not clusters[DEFAULT_CLUSTER].is_staging


def test_without_a_file_there_is_only_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error for an unknown name lists the known ones."""
    monkeypatch.chdir(tmp_path)
    clusters = load_clusters(environ={})
    assert set(clusters) == {DEFAULT_CLUSTER}
    with pytest.raises(InvalidSetting, match=r"\[clusters\.prod\]"):
        cluster_of(clusters, "prod")


@pytest.mark.parametrize(
    "text",
    [
        "clusters = 1",
        "[clusters]\nprod = 1",
        "[clusters.prod]\nstaging = true",
        '[clusters.prod]\nbootstrap_servers = "a:1"\nstaging = "yes"',
        '[clusters.prod]\nbootstrap_servers = "no server/"',
        '[clusters.prod]\nbootstrap_servers = "a:1"\ngroup.id = "production"',
        '[clusters.prod]\nbootstrap_servers = "a:1"\nenable.idempotence = false',
        '[clusters.default]\nbootstrap_servers = "a:1"',
        '[clusters.prod]\nbootstrap_servers = "a:1"\nsasl.password.file = "/nowhere"',
    ],
)
def test_an_invalid_profile_is_refused(tmp_path: Path, text: str) -> None:
    """A profile cannot set an option that a guarantee depends on either."""
    with pytest.raises(InvalidSetting):
        load_clusters(written(tmp_path, text), {})
