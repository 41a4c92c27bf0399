"""The journal that a command works on: its settings and its readers, each created on first use."""

from __future__ import annotations

import os
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seekpoint.console.render.output import say

if TYPE_CHECKING:
    from seekpoint.compose import LocalCluster
    from seekpoint.consumers.checkpoints.checkpoint import CheckpointReader
    from seekpoint.consumers.kafka.kafka_reader import KafkaReader
    from seekpoint.consumers.recovery.dead_letters import DeadLetters
    from seekpoint.consumers.recovery.recoverer import Recoverer
    from seekpoint.consumers.sqlite.sqlite_log import SqliteLog
    from seekpoint.consumers.view.view_store import ViewBrowser
    from seekpoint.schemas.config.settings import Settings

HOME_VARIABLE = "SEEKPOINT_HOME"


def home() -> Path:
    """Return the local cluster's directory: ``SEEKPOINT_HOME``, else ``.seekpoint`` in the working directory."""
    return Path(os.environ.get(HOME_VARIABLE) or ".seekpoint")


def running_cluster() -> LocalCluster | None:
    """Return the local cluster that runs in ``home()``, or None."""
    if not home().is_dir():
        return None
    from seekpoint.compose import LocalCluster
    from seekpoint.schemas.errors import ClusterFailed

    try:
        return LocalCluster.attach(home())
    except ClusterFailed:
        return None


class CommandTarget:
    """The journal that the options, the environment and ``seekpoint.toml`` select.

    If none of them gives the address of Kafka, the local cluster in ``home()`` is used, and stderr says so.
    """

    def __init__(
        self,
        journal: str | None,
        bootstrap_servers: str | None,
        config: Path | None,
        journal_url: str | None = None,
    ) -> None:
        self._config = config
        given = {"journal": journal, "bootstrap_servers": bootstrap_servers, "journal_url": journal_url}
        self._given: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
        if journal_url is None and bootstrap_servers is not None:
            self._given["journal_url"] = None  # this Kafka, whatever the settings file names
        self._has_no_address = False
        self._has_announced_file = False

    @property
    def config(self) -> Path | None:
        """The settings file given with ``--config``; None: the default search."""
        return self._config

    @property
    def words(self) -> list[str]:
        """The options of a command line that name the same journal, in this folder and environment."""
        given = {**self._given, "config": self._config}
        return [
            word
            for name, value in given.items()
            if value is not None
            for word in (f"--{name.replace('_', '-')}", str(value))
        ]

    @cached_property
    def settings(self) -> Settings:
        """The settings. Raises ``InvalidSetting``."""
        from seekpoint.schemas.config.settings import Settings

        file, configured = _configured(self._config)
        if file is not None and self._config is None and not self._has_announced_file:
            self._has_announced_file = True  # refused settings are loaded again to scrub the error
            say(f"using the settings in {file}")
        given = {*self._given, *configured}
        if given & {"bootstrap_servers", "journal_url"}:
            settings = Settings.load(self._config, **self._given)
            self._has_no_address = settings.sqlite_path is None and "bootstrap_servers" not in given
            return settings
        cluster = running_cluster()
        self._has_no_address = cluster is None
        if cluster is None:
            return Settings.load(self._config, **self._given)
        local: dict[str, Any] = {"bootstrap_servers": cluster.bootstrap_servers, "redis_url": cluster.redis_url}
        own = {name: value for name, value in local.items() if name not in given}
        settings = Settings.load(self._config, **own, **self._given)
        say(f"using the local cluster in {_shown(cluster.directory)}")
        return settings

    def reachable(self, *, may_create: bool = False) -> Settings:
        """Return the settings after a check that the journal is there, so that a wrong address fails at once.

        A broker of Kafka has to accept connections; the file of an embedded log has to exist, unless the command may
        create it. Raises ``JournalUnavailable`` with a hint about what to start or to set.
        """
        path = self.settings.sqlite_path
        if path is None:
            return self._with_brokers()
        if not may_create:
            _ = self.log.partitions
        return self.settings

    def require_kafka(self) -> Settings:
        """Return the settings after a check that Kafka answers. Raises ``Refused`` for an embedded log."""
        from seekpoint.schemas.errors import Refused

        if self.settings.sqlite_path is not None:
            raise Refused(
                "this command is for a journal on Kafka", file=str(self.settings.sqlite_path),
                hint="an embedded log needs none of it; seekpoint copy moves the journal to Kafka",
            )  # fmt: skip
        return self._with_brokers()

    def _with_brokers(self) -> Settings:
        from seekpoint.consumers.kafka.reach import reach
        from seekpoint.schemas.config.extras import require_kafka
        from seekpoint.schemas.errors import JournalUnavailable

        require_kafka()
        failures = reach(self.settings.bootstrap_servers)
        if failures:
            raise JournalUnavailable(
                "no Kafka accepts connections", tried=self.scrub("; ".join(failures)), hint=self._what_to_start()
            )
        return self.settings

    def _what_to_start(self) -> str:
        if not self._has_no_address:
            stopped = '; the local cluster of this folder starts again with eval "$(seekpoint up)"'
            return f"check that Kafka runs and bootstrap_servers is right{stopped if home().is_dir() else ''}"
        again = "it was stopped" if home().is_dir() else "start one on this machine"
        return (
            f"seekpoint up ({again}), or give the address of yours: --bootstrap-servers, SEEKPOINT_BOOTSTRAP_SERVERS;"
            " a journal in a file needs no Kafka: SEEKPOINT_JOURNAL_URL=sqlite:///runs.db"
        )

    @cached_property
    def log(self) -> KafkaReader | SqliteLog:
        """The journal's reader. Raises ``JournalUnavailable`` if no broker accepts connections."""
        from seekpoint.consumers.journal_log import journal_log

        if self.settings.sqlite_path is None:
            self._with_brokers()
        return journal_log(self.settings, must_exist=True)

    @cached_property
    def kafka_log(self) -> KafkaReader:
        """The reader of a journal on Kafka. Raises ``Refused`` for an embedded log."""
        from seekpoint.consumers.kafka.kafka_reader import KafkaReader

        self.require_kafka()
        assert isinstance(self.log, KafkaReader)
        return self.log

    @cached_property
    def dead_letters(self) -> DeadLetters:
        """The journal's dead letters."""
        from seekpoint.consumers.recovery.dead_letters import DeadLetters

        return DeadLetters(self.log, self.settings)

    @cached_property
    def checkpoints(self) -> CheckpointReader:
        """The journal's checkpoints."""
        return self.log.checkpoints()

    @cached_property
    def view(self) -> ViewBrowser | None:
        """The view; None if there is no place for one. It connects on first use."""
        if not self.settings.has_view:
            return None
        if self.settings.sqlite_path is not None:
            from seekpoint.consumers.journal_log import journal_view

            return journal_view(self.settings, self.log)
        from seekpoint.consumers.view.redis_view import RedisView

        return RedisView(self.settings, self.log.partitions)

    @cached_property
    def recoverer(self) -> Recoverer:
        """The recoverer over all tiers. Undecodable records that it finds become dead letters."""
        from seekpoint.consumers.recovery.recoverer import Recoverer
        from seekpoint.schemas.folds import import_folds

        import_folds(self.settings.folds)
        return Recoverer(
            self.log, self.dead_letters, view=self.view, checkpoints=self.checkpoints,
            transaction_wait_s=self.settings.transaction_wait_s,
        )  # fmt: skip

    def scrub(self, text: str) -> str:
        """Return ``text`` without the secrets of the settings."""
        from seekpoint.schemas.errors import SeekpointError

        try:
            return self.settings.scrub(text)
        except SeekpointError:  # unreadable settings hold no secrets to remove
            return text

    def close(self) -> None:
        """Close the connections."""
        if self.__dict__.get("view") is not None:
            self.__dict__["view"].close()
        if "log" in self.__dict__:
            self.log.close()


def _configured(config: Path | None) -> tuple[Path | None, set[str]]:
    """Return the settings file, if any, and the names of the settings that the environment or the file give."""
    from seekpoint.schemas.config.setting_sources import read_environment, read_file
    from seekpoint.schemas.config.settings_file import find_settings_file

    file = find_settings_file(config, os.environ)
    names = {*read_environment(os.environ), *(read_file(file) if file else ())}
    return (file.path if file else None), names


def _shown(path: Path) -> str:
    """Return a path relative to the working directory if it lies inside it."""
    return os.path.relpath(path) if path.is_relative_to(Path.cwd()) else str(path)
