"""Profiles of Kafka clusters in ``seekpoint.toml``, for replays, which use two clusters.

    [clusters.prod]
    bootstrap_servers = "kafka-1:9093"
    security.protocol = "SASL_SSL"            # any setting of librdkafka, as in [kafka]
    sasl.password.file = "/run/secrets/kafka"

    [clusters.staging]
    bootstrap_servers = "kafka-staging:9092"
    staging = true                            # replays write only into staging clusters

The cluster of the settings outside the profiles is called ``default``; it is never a staging cluster.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from seekpoint.schemas.config.setting_sources import read_clusters
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.config.settings_file import find_settings_file
from seekpoint.schemas.errors import InvalidSetting
from seekpoint.schemas.frozen_struct import FrozenStruct

DEFAULT_CLUSTER = "default"


class Cluster(FrozenStruct, frozen=True, kw_only=True):
    """One profile. ``settings`` hold the cluster's address and credentials; their journal has no meaning."""

    name: str
    settings: Settings
    is_staging: bool = False


def load_clusters(path: str | Path | None = None, environ: Mapping[str, str] | None = None) -> dict[str, Cluster]:
    """Return ``default`` and all profiles of the settings file. Raises ``InvalidSetting``."""
    environ = os.environ if environ is None else environ
    file = find_settings_file(path, environ)
    clusters = {name: _cluster(name, table, file.path) for name, table in read_clusters(file).items()} if file else {}
    default = Cluster(name=DEFAULT_CLUSTER, settings=Settings.load(path, environ))
    return {DEFAULT_CLUSTER: default, **clusters}


def cluster_of(clusters: Mapping[str, Cluster], name: str) -> Cluster:
    """Return the profile ``name``. Raises ``InvalidSetting``, which names the profiles that exist."""
    if name in clusters:
        return clusters[name]
    raise InvalidSetting(
        f"there is no cluster {name}",
        known=", ".join(sorted(clusters)),
        hint=f"describe it in seekpoint.toml: [clusters.{name}] bootstrap_servers = ...",
    )


def _cluster(name: str, table: Mapping[str, Any], file: Path) -> Cluster:
    if name == DEFAULT_CLUSTER:
        raise InvalidSetting("default is the cluster of the settings themselves", hint="give the profile another name")
    own = {each: value for each, value in table.items() if each in ("bootstrap_servers", "staging", "start_timeout_s")}
    if "bootstrap_servers" not in own:
        raise InvalidSetting(f"cluster {name} in {file} has no bootstrap_servers", cluster=name)
    staging = own.pop("staging", False)
    if type(staging) is not bool:
        raise InvalidSetting(f"staging of cluster {name} is true or false", found=str(staging)[:50])
    kafka = {each: value for each, value in table.items() if each not in own and each != "staging"}
    return Cluster(name=name, settings=Settings(redis_url=None, kafka=kafka, **own), is_staging=staging)
