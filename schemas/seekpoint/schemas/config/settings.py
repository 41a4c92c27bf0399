"""The settings of a journal and of the nodes that use it: keyword arguments, environment, ``seekpoint.toml``, defaults.

Kafka's and Redis' own settings pass through (``ClientOptions``), except those that a guarantee depends on.
docs/settings.md has the table.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from msgspec import StructMeta, field
from msgspec.structs import force_setattr

from seekpoint.schemas.config.client_options import REFUSED, ClientOptions, check_redis_url, typed_redis_options
from seekpoint.schemas.config.secrets import longest_spelling, mask_url, scrub, scrub_value, url_secrets
from seekpoint.schemas.config.setting_sources import read_environment, read_file, unknown_setting
from seekpoint.schemas.config.setting_types import SETTING_TYPES
from seekpoint.schemas.config.settings_file import check_redirection, find_settings_file
from seekpoint.schemas.errors import InvalidName, InvalidSetting
from seekpoint.schemas.frozen_struct import FrozenStruct

if TYPE_CHECKING:
    from pathlib import Path

_SQLITE = "sqlite:///"
TOPICS = ("journal", "checkpoints", "schemas", "nodes", "deadletters", "inbox", "recover", "recovered")
"""The topics of a journal. The name of each is ``NAME.`` and one of these."""


class _CheckedNames(StructMeta):
    """Check the names that are given: the ``TypeError`` of msgspec for a misspelt one suggests no other."""

    if not TYPE_CHECKING:  # a type checker knows the parameters by the fields

        def __call__(cls, *no: Any, **given: Any) -> Settings:
            _check_names(given)
            return super().__call__(*no, **given)


class Settings(FrozenStruct, frozen=True, kw_only=True, metaclass=_CheckedNames):
    """The place of a journal and the behaviour of a node: checked at construction, printed without secrets, picklable.

    ``Settings(...)`` takes keywords only; ``Settings.load()`` also reads the environment and ``seekpoint.toml``.
    ``dataclasses.replace`` returns a checked copy. All three raise ``InvalidSetting``, which names the setting and its
    legal values.

    >>> Settings(journal="fleet").topic_name("journal")
    'fleet.journal'
    """

    journal: str = "seekpoint"
    journal_url: str | None = None
    bootstrap_servers: str = "127.0.0.1:9092"
    redis_url: str | None = "redis://127.0.0.1:6379/0"
    partitions: int = 8
    replication_factor: int | None = None
    node_id: str | None = None
    append_timeout_s: float = 120.0
    heal_timeout_s: float = 120.0
    confirm_interval_s: float = 5.0
    confirm_timeout_s: float = 30.0
    owner_timeout_s: float = 15.0
    loop_timeout_s: float = 300.0
    owner_deaths_max: int = 3
    heartbeat_interval_s: float = 3.0
    producer_drain_s: float = 1.0
    linger_ms: float = 0.0
    dead_letters_max: int = 100
    dead_letter_window_s: float = 60.0
    recover_concurrency_max: int = 4
    start_timeout_s: float = 15.0
    transaction_wait_s: float = 5.0
    checkpoint_age_max_s: float = 30.0
    checkpoint_bytes_min: int = 16_384
    checkpoint_after_invocation: bool = False
    finished_content_s: float = 604_800.0
    effects: str = "real"
    tracing: str = "off"
    folds: tuple[str, ...] = ()
    blob_store: str | None = None
    kafka: Mapping[str, str] = field(default_factory=dict)
    kafka_producer: Mapping[str, str] = field(default_factory=dict)
    kafka_consumer: Mapping[str, str] = field(default_factory=dict)
    kafka_admin: Mapping[str, str] = field(default_factory=dict)
    redis: Mapping[str, str] = field(default_factory=dict)
    topic: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, setting_type in SETTING_TYPES.items():
            setting_type.check(name, getattr(self, name))
        force_setattr(self, "folds", tuple(self.folds))
        for group in REFUSED:
            given = getattr(self, group)
            if not isinstance(given, Mapping):
                raise InvalidSetting(f"{group} must be a mapping of names to values", setting=group)
            checked = isinstance(given, ClientOptions) and given.group == group
            force_setattr(self, group, given if checked else ClientOptions(group, given))
        if self.journal_url is not None:
            path = os.path.abspath(self.journal_url.removeprefix(_SQLITE))  # the program may change its directory
            force_setattr(self, "journal_url", f"{_SQLITE}{path}")
            force_setattr(self, "redis_url", None)  # an embedded log has no view outside its file
        typed_redis_options(self.redis)
        check_redis_url(self.redis_url)
        if self.heartbeat_interval_s >= self.owner_timeout_s:
            raise InvalidSetting(
                "heartbeat_interval_s must be below owner_timeout_s, or every owner looks dead",
                heartbeat_interval_s=self.heartbeat_interval_s,
                owner_timeout_s=self.owner_timeout_s,
            )

    @classmethod
    def load(
        cls, path: str | Path | None = None, environ: Mapping[str, str] | None = None, **overrides: Any
    ) -> Settings:
        """Load the settings: a keyword overrides the environment, which overrides ``seekpoint.toml``, then defaults.

        ``path`` is the file, else ``SEEKPOINT_CONFIG``, else ``seekpoint.toml`` in the working directory, if it exists;
        that one may not set everything (docs/settings.md). ``environ`` is ``os.environ`` by default. Options
        (``kafka`` and so on) are merged name by name.
        """
        environ = os.environ if environ is None else environ
        _check_names(overrides)
        file = find_settings_file(path, environ)
        written = read_file(file) if file else {}
        outside = _merge(read_environment(environ), overrides)
        if file and not file.is_named:
            check_redirection(file.path, written, outside)
        return cls(**_merge(written, outside))

    @property
    def sqlite_path(self) -> Path | None:
        """The file of the embedded log; None for a journal on Kafka."""
        from pathlib import Path

        return None if self.journal_url is None else Path(self.journal_url.removeprefix(_SQLITE))

    @property
    def has_view(self) -> bool:
        """Whether there is a place for a view: a Redis, or the file of an embedded log."""
        return self.redis_url is not None or self.journal_url is not None

    def topic_name(self, topic: str) -> str:
        """Return the name of one of the journal's topics (``TOPICS``). Raises ``InvalidName`` for any other."""
        if topic not in TOPICS:
            raise InvalidName(f"a journal has no topic {topic!r}", topic=topic, hint=f"one of {', '.join(TOPICS)}")
        return f"{self.journal}.{topic}"

    def producer_config(self) -> dict[str, str | int | float | bool]:
        """Return librdkafka's settings for a producer. The caller adds those that guarantees depend on."""
        return {**self.kafka, **self.kafka_producer, **self._connection(), "linger.ms": self.linger_ms}

    def consumer_config(self) -> dict[str, str | int | float | bool]:
        """Return librdkafka's settings for a consumer. The caller adds those that guarantees depend on."""
        return {**self.kafka, **self.kafka_consumer, **self._connection()}

    def admin_config(self) -> dict[str, str | int | float | bool]:
        """Return librdkafka's settings for an admin client."""
        return {**self.kafka, **self.kafka_admin, **self._connection()}

    def redis_config(self) -> dict[str, str | int | float | bool]:
        """Return redis-py's keyword arguments beside ``redis_url``, with their types."""
        return typed_redis_options(self.redis)

    def secrets(self) -> frozenset[str]:
        """Return the secret values: passwords, keys, tokens, and those in ``redis_url``."""
        found = set(url_secrets(self.redis_url or ""))
        for group in REFUSED:
            options = getattr(self, group)
            found.update(options.secrets())
        return frozenset(found - {""})

    def scrub(self, text: str) -> str:
        """Return ``text`` with the secrets masked. Use it for messages of libraries before they are shown or stored."""
        return scrub(text, self.secrets())

    def scrub_value(self, value: Any) -> Any:
        """Return ``value`` with the secrets masked in all texts, bytes and numbers inside it."""
        return scrub_value(value, self.secrets())

    def excerpt(self, text: str, characters_max: int) -> str:
        """Return the beginning of ``text`` with the secrets masked and lone surrogates replaced.

        The text is scrubbed before it is cut, because scrubbing would not find half a secret.
        """
        secrets = self.secrets()
        cut = text[: 16 * characters_max]
        found = scrub(cut, secrets)
        if len(cut) < len(text):
            found = found[: max(0, len(found) - longest_spelling(secrets))]
        return found[:characters_max].encode("utf-8", "replace").decode()

    def _connection(self) -> dict[str, str | int | float | bool]:
        named = {} if self.node_id is None else {"client.id": self.node_id}
        return {**named, "bootstrap.servers": self.bootstrap_servers}

    def __repr__(self) -> str:
        shown = {name: getattr(self, name) for name in self.__struct_fields__}
        if self.redis_url is not None:
            shown["redis_url"] = mask_url(self.redis_url)
        return f"Settings({', '.join(f'{name}={value!r}' for name, value in shown.items())})"


def local_settings(path: str | os.PathLike[str], given: Mapping[str, Any]) -> Settings:
    """Return the settings of an embedded log in the file ``path``. Raises ``InvalidSetting``."""
    name = os.fspath(path)
    if name.startswith("sqlite:"):
        plain = name.removeprefix(_SQLITE) if name.startswith(_SQLITE) else name.removeprefix("sqlite:").lstrip("/")
        raise InvalidSetting(f"local() takes a path, without {_SQLITE}", value=repr(name), hint=f"give {plain!r}")
    return Settings(journal_url=f"{_SQLITE}{name}", **given)


def _check_names(given: Mapping[str, Any]) -> None:
    for name in given.keys() - SETTING_TYPES.keys() - REFUSED.keys():
        raise unknown_setting(name, [*SETTING_TYPES, *REFUSED], "a keyword argument")


def _merge(*layers: Mapping[str, Any]) -> dict[str, Any]:
    """Merge layers: later ones override earlier ones; options are merged name by name."""
    merged: dict[str, Any] = {}
    for layer in layers:
        for name, value in layer.items():
            both = name in REFUSED and isinstance(value, Mapping)
            merged[name] = {**merged.get(name, {}), **ClientOptions(name, value)} if both else value
    return merged
