"""Find the settings file, and restrict a file that the user did not name.

``seekpoint.toml`` in the working directory is read automatically. Somebody else who can write there (the author of a
checkout, another user of a shared folder) must not be able to load code into the program, weaken TLS, read the user's
files, or send credentials of the environment to another server. So an allow list restricts that file. A file that the
user named (``--config``, ``SEEKPOINT_CONFIG``, ``Settings.load(path)``) may set everything.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from seekpoint.schemas.config.secrets import is_secret, url_secrets
from seekpoint.schemas.errors import InvalidSetting
from seekpoint.schemas.frozen_struct import FrozenStruct

if TYPE_CHECKING:
    from pathlib import Path

CONFIG_VARIABLE = "SEEKPOINT_CONFIG"
_UNNAMED = "seekpoint.toml"

_KAFKA = frozenset(
    {
        "batch.num.messages",
        "batch.size",
        "broker.address.family",
        "broker.address.ttl",
        "client.dns.lookup",
        "client.id",
        "client.rack",
        "compression.codec",
        "compression.level",
        "compression.type",
        "connections.max.idle.ms",
        "fetch.error.backoff.ms",
        "fetch.max.bytes",
        "fetch.message.max.bytes",
        "fetch.min.bytes",
        "fetch.queue.backoff.ms",
        "fetch.wait.max.ms",
        "heartbeat.interval.ms",
        "log.connection.close",
        "max.partition.fetch.bytes",
        "max.poll.interval.ms",
        "metadata.max.age.ms",
        "queue.buffering.max.kbytes",
        "queue.buffering.max.messages",
        "queued.max.messages.kbytes",
        "queued.min.messages",
        "receive.message.max.bytes",
        "reconnect.backoff.max.ms",
        "reconnect.backoff.ms",
        "request.timeout.ms",
        "retry.backoff.max.ms",
        "retry.backoff.ms",
        "session.timeout.ms",
        "socket.connection.setup.timeout.ms",
        "socket.keepalive.enable",
        "socket.max.fails",
        "socket.nagle.disable",
        "socket.receive.buffer.bytes",
        "socket.send.buffer.bytes",
        "socket.timeout.ms",
        "sticky.partitioning.linger.ms",
        "topic.metadata.refresh.interval.ms",
    }
)
"""Sizes, times and names: no option that loads code, reads a file, or changes which servers are trusted."""

_KAFKA_VALUES: Mapping[str, frozenset[str]] = {
    "security.protocol": frozenset({"SSL", "SASL_SSL"}),
    "sasl.mechanism": frozenset({"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"}),
    "sasl.mechanisms": frozenset({"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"}),
}
"""TLS can be turned on but not off. Mechanisms that run commands or use the machine's credentials are left out."""

_KAFKA_IDENTITY = frozenset({"sasl.mechanism", "sasl.mechanisms", "sasl.username", "sasl.password"})

_REDIS_IDENTITY = frozenset({"username", "password"})
_REDIS = _REDIS_IDENTITY | {
    "client_name",
    "health_check_interval",
    "max_connections",
    "protocol",
    "retry_on_timeout",
    "socket_connect_timeout",
    "socket_keepalive",
    "socket_timeout",
}

_SERVERS: Mapping[str, tuple[str, ...]] = {
    "bootstrap_servers": ("kafka", "kafka_producer", "kafka_consumer", "kafka_admin"),
    "redis_url": ("redis",),
}
"""The settings that locate a server, with the groups of options that hold credentials for it."""


class SettingsFile(FrozenStruct, frozen=True):
    """The settings file to read."""

    path: Path
    is_named: bool
    """Whether an argument or ``SEEKPOINT_CONFIG`` named it; else it was found in the working directory."""


def find_settings_file(path: str | Path | None, environ: Mapping[str, str]) -> SettingsFile | None:
    """Return the file at ``path``, else in ``SEEKPOINT_CONFIG``, else ``seekpoint.toml`` in the working directory."""
    named = path or environ.get(CONFIG_VARIABLE)
    if not named and not os.path.isfile(_UNNAMED):
        return None
    from pathlib import Path

    return SettingsFile(Path(named or _UNNAMED), bool(named))


def check_unnamed(file: Path, options: Iterable[tuple[str, str, Any]]) -> None:
    """Raise ``InvalidSetting`` if a file that the user did not name sets an option that is not on the allow list.

    ``options`` are (group, name, value); the group of a plain field is ``""``. Call this before any secret file is
    read.
    """
    for group, name, value in options:
        if not _is_allowed(group, name, value):
            shown = f"{group} {name}".strip()
            raise _refused(file, shown, "only a file that you name may set it")


_PLACES = ("journal", "journal_url", "bootstrap_servers")
"""The settings that say which journal is meant."""


def check_redirection(file: Path, written: Mapping[str, Any], outside: Mapping[str, Any]) -> None:
    """Raise ``InvalidSetting`` if a file that the user did not name would send credentials of others to its server.

    ``written`` are the settings in the file, ``outside`` those of the environment and of keyword arguments. The file
    may not change the identity that belongs to outside credentials either.
    """
    named = next((name for name in _PLACES if name in outside), None)
    for name in ("journal", "journal_url") if named else ():
        if name in written and name not in outside:
            raise _refused(file, name, f"{named} is set elsewhere, and the file would choose another journal")
    for server, groups in _SERVERS.items():
        credential = next(_credentials(server, groups, outside), None)
        if credential is None:
            continue
        identity = _KAFKA_IDENTITY | _REDIS_IDENTITY
        taken = [f"{group} {name}" for group in groups for name in written.get(group, ()) if name in identity]
        if server in written and server not in outside:
            taken.insert(0, server)
        if taken:
            raise _refused(file, taken[0], f"it would decide which server gets {credential}, which it does not set")


def _is_allowed(group: str, name: str, value: Any) -> bool:
    if not group:
        if name == "redis_url" and isinstance(value, str):
            return set(_query_names(value)) <= _REDIS | {"db"}
        if name == "tracing":
            return str(value).strip() != "content"
        return name not in ("folds", "redis_url_file", "blob_store", "effects")
    if group == "redis":
        return name in _REDIS
    if group == "topic":
        return True  # used only by `topics create`, which sends it to the broker
    if name in _KAFKA_VALUES:
        return str(value).upper() in _KAFKA_VALUES[name]
    return name in _KAFKA or name in _KAFKA_IDENTITY


def _query_names(url: str) -> Iterator[str]:
    from urllib.parse import parse_qsl, urlsplit

    try:
        query = urlsplit(url).query
    except ValueError:  # no URL, which is refused later
        return
    yield from (name for name, _ in parse_qsl(query, keep_blank_values=True))


def _credentials(server: str, groups: Iterable[str], outside: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names of the credentials for a server in ``outside``."""
    for group in groups:
        for name in outside.get(group, ()):
            plain = name.lower().replace("_", ".")
            if is_secret(name) or plain == "username" or plain.startswith(("sasl.", "ssl.key", "ssl.cert")):
                yield f"{group} {name}"
    given = outside.get(server)
    if server == "redis_url" and isinstance(given, str) and any(url_secrets(given)):
        yield server


def _refused(file: Path, option: str, why: str) -> InvalidSetting:
    return InvalidSetting(
        f"{file.absolute()}, which you did not name, may not set {option}: {why}",
        setting=option,
        hint=f"if you trust it, name it: --config {file}, SEEKPOINT_CONFIG={file} or Settings.load({str(file)!r})",
    )
