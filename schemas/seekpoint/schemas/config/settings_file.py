"""Find the settings file, and limit what it may say when nobody named it.

``seekpoint.toml`` in the working directory is read without being asked for. Whoever can write there (the author of a
checkout, another user of a shared folder) must not be able to load code into the program, to weaken TLS, to read files
of the user, or to send credentials of the environment to a server of their own. An allow list says what is left. A
file that was named (``--config``, ``SEEKPOINT_CONFIG``, ``Settings.load(path)``) may set everything.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from seekpoint.schemas.config.secrets import is_secret, url_secrets
from seekpoint.schemas.errors import InvalidSetting

__all__ = ["CONFIG_VARIABLE", "SettingsFile", "check_redirection", "check_unnamed", "find_settings_file"]

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
"""Sizes, times and names. Nothing that loads code, names a file, or says how to trust a server."""

_KAFKA_VALUES: Mapping[str, frozenset[str]] = {
    "security.protocol": frozenset({"SSL", "SASL_SSL"}),
    "sasl.mechanism": frozenset({"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"}),
    "sasl.mechanisms": frozenset({"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"}),
}
"""TLS may be turned on, never off; mechanisms that run commands or ask the machine for credentials are left out."""

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
"""What says where a server is, and the groups of options that hold credentials for it."""


class SettingsFile(NamedTuple):
    """A settings file to be read."""

    path: Path
    is_named: bool
    """Whether an argument or ``SEEKPOINT_CONFIG`` named it; else it merely lies in the working directory."""


def find_settings_file(path: str | Path | None, environ: Mapping[str, str]) -> SettingsFile | None:
    """``path``, else that of ``SEEKPOINT_CONFIG``, else ``seekpoint.toml`` in the working directory if there is one."""
    named = path or environ.get(CONFIG_VARIABLE)
    if named:
        return SettingsFile(Path(named), True)
    return SettingsFile(Path(_UNNAMED), False) if os.path.isfile(_UNNAMED) else None


def check_unnamed(file: Path, options: Iterable[tuple[str, str, Any]]) -> None:
    """Refuse what a file that nobody named may not set. ``options`` are (group, name, value); ``""``: no group.

    Raises ``InvalidSetting`` with the file and the option. Called before any file that an option names is read.
    """
    for group, name, value in options:
        if not _is_allowed(group, name, value):
            shown = f"{group} {name}".strip()
            raise _refused(file, shown, "only a file that was named may")


def check_redirection(file: Path, written: Mapping[str, Any], outside: Mapping[str, Any]) -> None:
    """Refuse a file that nobody named where it would take credentials given elsewhere to a server that it names.

    ``written`` is what the file says, ``outside`` what the environment and the keyword arguments say. The file may
    not change the identity that goes with such credentials either. Raises ``InvalidSetting``.
    """
    for server, groups in _SERVERS.items():
        credential = next(_credentials(server, groups, outside), None)
        if credential is None:
            continue
        identity = _KAFKA_IDENTITY | _REDIS_IDENTITY
        taken = [f"{group} {name}" for group in groups for name in written.get(group, ()) if name in identity]
        if server in written and server not in outside:
            taken.insert(0, server)
        if taken:
            raise _refused(file, taken[0], f"{credential} comes from elsewhere, and this file would say who gets it")


def _is_allowed(group: str, name: str, value: Any) -> bool:
    if not group:
        if name == "redis_url" and isinstance(value, str):
            return set(_query_names(value)) <= _REDIS | {"db"}
        return name not in ("folds", "redis_url_file")
    if group == "redis":
        return name in _REDIS
    if group == "topic":
        return True  # goes to the broker with `topics create`, and nowhere else
    if name in _KAFKA_VALUES:
        return str(value).upper() in _KAFKA_VALUES[name]
    return name in _KAFKA or name in _KAFKA_IDENTITY


def _query_names(url: str) -> Iterator[str]:
    from urllib.parse import parse_qsl, urlsplit

    try:
        query = urlsplit(url).query
    except ValueError:  # no URL: its form is refused later
        return
    yield from (name for name, _ in parse_qsl(query, keep_blank_values=True))


def _credentials(server: str, groups: Iterable[str], outside: Mapping[str, Any]) -> Iterator[str]:
    """The names of credentials that ``outside`` gives for a server."""
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
        f"{file.absolute()}, which nobody named, may not set {option}: {why}",
        setting=option,
        hint=f"if you trust it, name it: --config {file}, SEEKPOINT_CONFIG={file} or Settings.load({str(file)!r})",
    )
