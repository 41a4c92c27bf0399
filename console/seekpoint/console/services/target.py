"""The journal a command works on: whose settings, which Kafka, and the readers on it, each made when first needed."""

from __future__ import annotations

import os
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seekpoint.console.render.output import say

if TYPE_CHECKING:
    from seekpoint.compose import LocalCluster
    from seekpoint.consumers.kafka.kafka_checkpoints import KafkaCheckpoints
    from seekpoint.consumers.kafka.kafka_reader import KafkaReader
    from seekpoint.consumers.recovery.dead_letters import DeadLetters
    from seekpoint.consumers.recovery.recoverer import Recoverer
    from seekpoint.consumers.view.redis_view import RedisView
    from seekpoint.schemas.config.settings import Settings

__all__ = ["HOME_VARIABLE", "CommandTarget", "home", "running_cluster"]

HOME_VARIABLE = "SEEKPOINT_HOME"


def home() -> Path:
    """Where the local cluster lives: ``SEEKPOINT_HOME``, else ``.seekpoint`` in the working directory."""
    return Path(os.environ.get(HOME_VARIABLE) or ".seekpoint")


def running_cluster() -> LocalCluster | None:
    """The local cluster that runs at ``home()``; None if none does."""
    if not home().is_dir():
        return None
    from seekpoint.compose import LocalCluster
    from seekpoint.schemas.errors import ClusterFailed

    try:
        return LocalCluster.attach(home())
    except ClusterFailed:
        return None


class CommandTarget:
    """What ``--journal``, ``--bootstrap-servers``, ``--config``, the environment and ``seekpoint.toml`` point at.

    Where none of them says where Kafka is, the local cluster at ``home()`` is taken, and stderr says so.
    """

    def __init__(self, journal: str | None, bootstrap_servers: str | None, config: Path | None) -> None:
        self._config = config
        given = {"journal": journal, "bootstrap_servers": bootstrap_servers}
        self._given: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
        self._nothing_said = False
        self._named = False

    @property
    def config(self) -> Path | None:
        """The settings file that was named; None: whichever there is."""
        return self._config

    @cached_property
    def settings(self) -> Settings:
        """The settings. Raises ``InvalidSetting``."""
        from seekpoint.schemas.config.settings import Settings

        file, written = _written(self._config)
        if file is not None and self._config is None and not self._named:
            self._named = True  # settings that are refused are asked for again, to scrub the error
            say(f"using the settings in {file}")
        said = {*self._given, *written}
        if "bootstrap_servers" in said:
            return Settings.load(self._config, **self._given)
        cluster = running_cluster()
        self._nothing_said = cluster is None
        if cluster is None:
            return Settings.load(self._config, **self._given)
        local: dict[str, Any] = {"bootstrap_servers": cluster.bootstrap_servers, "redis_url": cluster.redis_url}
        own = {name: value for name, value in local.items() if name not in said}
        settings = Settings.load(self._config, **own, **self._given)
        say(f"using the local cluster in {_shown(cluster.directory)}")
        return settings

    def require_kafka(self) -> Settings:
        """The settings, once a broker accepts connections: a typing error shows at once, not after a time-out.

        Raises ``JournalUnavailable`` saying what to start or to set.
        """
        from seekpoint.console.services.reach import reach
        from seekpoint.schemas.errors import JournalUnavailable

        failures = reach(self.settings.bootstrap_servers)
        if failures:
            raise JournalUnavailable(
                "no Kafka accepts connections", tried=self.scrub("; ".join(failures)), hint=self._what_to_start()
            )
        return self.settings

    def _what_to_start(self) -> str:
        if not self._nothing_said:
            return "check that Kafka runs and bootstrap_servers is right"
        again = "it was stopped" if home().is_dir() else "start one on this machine"
        return f"seekpoint up ({again}), or say where yours is: --bootstrap-servers, SEEKPOINT_BOOTSTRAP_SERVERS"

    @cached_property
    def log(self) -> KafkaReader:
        """The journal, to be read. Raises ``JournalUnavailable`` if nothing listens there."""
        from seekpoint.consumers.kafka.kafka_reader import KafkaReader

        return KafkaReader(self.require_kafka())

    @cached_property
    def dead_letters(self) -> DeadLetters:
        """The journal's dead letters."""
        from seekpoint.consumers.recovery.dead_letters import DeadLetters

        return DeadLetters(self.log, self.settings)

    @cached_property
    def checkpoints(self) -> KafkaCheckpoints:
        """The journal's checkpoints."""
        return self.log.checkpoints()

    @cached_property
    def view(self) -> RedisView | None:
        """The view; None if the settings name no Redis. Connects when first used."""
        if self.settings.redis_url is None:
            return None
        from seekpoint.consumers.view.redis_view import RedisView

        return RedisView(self.settings, self.log.partitions)

    @cached_property
    def recoverer(self) -> Recoverer:
        """Finds states by any tier; poison on the way becomes a dead letter."""
        from seekpoint.consumers.recovery.recoverer import Recoverer
        from seekpoint.schemas.folds import import_folds

        import_folds(self.settings.folds)
        return Recoverer(
            self.log, self.dead_letters, view=self.view, checkpoints=self.checkpoints,
            transaction_wait_s=self.settings.transaction_wait_s,
        )  # fmt: skip

    def scrub(self, text: str) -> str:
        """``text`` without the settings' secrets."""
        from seekpoint.schemas.errors import SeekpointError

        try:
            return self.settings.scrub(text)
        except SeekpointError:  # settings that cannot be read give away nothing either
            return text

    def close(self) -> None:
        """Give up connections."""
        if self.__dict__.get("view") is not None:
            self.__dict__["view"].close()
        if "log" in self.__dict__:
            self.log.close()


def _written(config: Path | None) -> tuple[Path | None, set[str]]:
    """The file, if there is one, and the names of the settings that the environment or it give."""
    from seekpoint.schemas.config.setting_sources import read_environment, read_file
    from seekpoint.schemas.config.settings_file import find_settings_file

    file = find_settings_file(config, os.environ)
    names = {*read_environment(os.environ), *(read_file(file) if file else ())}
    return (file.path if file else None), names


def _shown(path: Path) -> str:
    """A path as short as it can be said."""
    return os.path.relpath(path) if path.is_relative_to(Path.cwd()) else str(path)
