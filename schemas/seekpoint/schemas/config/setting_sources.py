"""The sources of settings: the environment and ``seekpoint.toml``, each read into a mapping of fields to values.

An unknown name raises an error that suggests the nearest known one: a misspelt setting must not silently be ignored.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from seekpoint.schemas.config.client_options import REFUSED, option_text
from seekpoint.schemas.config.secrets import read_secret_file, read_secret_files
from seekpoint.schemas.config.setting_types import SETTING_TYPES
from seekpoint.schemas.config.settings_file import CONFIG_VARIABLE, SettingsFile, check_unnamed
from seekpoint.schemas.errors import InvalidSetting

if TYPE_CHECKING:
    from pathlib import Path

__all__ = [
    "CONFIG_VARIABLE",
    "PREFIX",
    "read_clusters",
    "read_environment",
    "read_file",
    "unknown_setting",
    "variable",
]

PREFIX = "SEEKPOINT_"

_NO_SETTINGS = frozenset({CONFIG_VARIABLE, "SEEKPOINT_HOME", "SEEKPOINT_DEBUG", "SEEKPOINT_OIDC_CLIENT_SECRET"})
"""Variables with the prefix that are no settings: they locate the settings file, or belong to the command line."""

_GROUP_PREFIXES = (
    ("KAFKA_PRODUCER_", "kafka_producer", "."),
    ("KAFKA_CONSUMER_", "kafka_consumer", "."),
    ("KAFKA_ADMIN_", "kafka_admin", "."),
    ("KAFKA_", "kafka", "."),
    ("REDIS_", "redis", "_"),
    ("TOPIC_", "topic", "."),
)
"""Prefixes of the groups, longest first. A variable that is also the name of a field sets it: SEEKPOINT_REDIS_URL."""

_KUBERNETES = r"SEEKPOINT_(?:\w+_)?(?:SERVICE_(?:HOST|PORT(?:_\w+)?)|PORT_\d+_(?:TCP|UDP|SCTP)(?:_\w+)?)"
"""Variables that Kubernetes sets in every pod beside a service named ``seekpoint…``; they are no settings."""

_TOML_NAMES = (
    *SETTING_TYPES,
    "redis_url_file",
    "kafka",
    "kafka.producer",
    "kafka.consumer",
    "kafka.admin",
    "redis",
    "topic",
)

Layer = dict[str, Any]


def variable(field: str) -> str:
    """Return the environment variable of a setting.

    >>> variable("redis_url")
    'SEEKPOINT_REDIS_URL'
    """
    return PREFIX + field.upper()


def read_environment(environ: Mapping[str, str]) -> Layer:
    """Return the settings in ``SEEKPOINT_…`` variables, with options by group.

    Raises ``InvalidSetting``, which names the variable.
    """
    layer: Layer = {}
    for name, text in environ.items():
        if name.startswith(PREFIX) and name not in _NO_SETTINGS and not _set_by_kubernetes(name, text):
            _read_variable(layer, name, text, environ)
    for group in REFUSED.keys() & layer.keys():
        layer[group] = read_secret_files(layer[group], f"{variable(group)}_…")
    return layer


def read_file(file: SettingsFile) -> Layer:
    """Return the settings in a file. Raises ``InvalidSetting`` with the path if it cannot be read or is invalid.

    A file that the user did not name may not set everything: see ``settings_file``.
    """
    content = _content(file.path)
    if not file.is_named:
        check_unnamed(file.path, _options(content))
    return _read_tables(content, file.path)


def read_clusters(file: SettingsFile) -> dict[str, Layer]:
    """Return the tables ``[clusters.NAME]`` of a settings file, with dotted option names. Raises as ``read_file``."""
    tables = _content(file.path).get("clusters", {})
    if not isinstance(tables, dict) or not all(isinstance(table, dict) for table in tables.values()):
        raise InvalidSetting(f"clusters in {file.path} must be tables", hint="write [clusters.NAME]")
    profiles = {name: dict(_flat(table, "")) for name, table in tables.items()}
    if not file.is_named:
        check_unnamed(file.path, _profile_options(profiles))
    return profiles


def _content(path: Path) -> dict[str, Any]:
    import tomllib  # imported late: it takes 5 ms, and only a file needs it

    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))  # a byte-order mark is no fault of the TOML
    except OSError as exc:
        raise InvalidSetting(f"{path} cannot be read: {exc.strerror}", setting=CONFIG_VARIABLE, path=str(path)) from exc
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as exc:
        raise InvalidSetting(f"{path} is not TOML: {exc}", path=str(path), hint="see docs/settings.md") from None


def unknown_setting(name: str, known: Iterable[str], where: str) -> InvalidSetting:
    """Return the error for an unknown setting, which suggests the nearest known one."""
    from seekpoint.schemas.values.near_names import nearest

    # The prefix is removed because it would make all variables similar.
    spellings = {each.removeprefix(PREFIX).lower(): each for each in known}
    near = nearest(name.removeprefix(PREFIX).lower(), spellings)
    hint = f"did you mean {spellings[near]}?" if near else "see docs/settings.md for all of them"
    return InvalidSetting(f"there is no setting {name}", where=where, hint=hint)


def _set_by_kubernetes(name: str, text: str) -> bool:
    if name.endswith("_PORT") and text.startswith(("tcp://", "udp://", "sctp://")):
        return True
    return re.fullmatch(_KUBERNETES, name) is not None


def _read_variable(layer: Layer, name: str, text: str, environ: Mapping[str, str]) -> None:
    rest = name.removeprefix(PREFIX)
    field = rest.lower()
    if rest.isupper() and field in SETTING_TYPES:
        if f"{name}_FILE" in environ and field == "redis_url":
            raise InvalidSetting(f"both {name} and {name}_FILE are set", setting=name, hint="keep one of them")
        layer[field] = SETTING_TYPES[field].read(name, text)
    elif name == "SEEKPOINT_REDIS_URL_FILE":
        layer["redis_url"] = SETTING_TYPES["redis_url"].read(name, read_secret_file(text, name))
    else:
        group, option = _option(name, rest)
        layer.setdefault(group, {})[option] = text


def _option(name: str, rest: str) -> tuple[str, str]:
    for prefix, group, separator in _GROUP_PREFIXES:
        option = rest.removeprefix(prefix)
        if option != rest and option and rest.isupper() and f"{option}_" not in ("PRODUCER_", "CONSUMER_", "ADMIN_"):
            return group, option.lower().replace("_", separator)
    known = [*map(variable, SETTING_TYPES), CONFIG_VARIABLE, "SEEKPOINT_REDIS_URL_FILE"]
    raise unknown_setting(name, known, "the environment")


def _read_tables(content: Mapping[str, Any], path: Path) -> Layer:
    layer: Layer = {}
    for name, value in content.items():
        if name in SETTING_TYPES:
            layer[name] = SETTING_TYPES[name].read(f"{name} in {path}", value) if isinstance(value, str) else value
            SETTING_TYPES[name].check(f"{name} in {path}", layer[name])
        elif name in ("kafka", "redis", "topic"):
            _read_group(layer, name, value, path)
        elif name == "redis_url_file" and isinstance(value, str) and "redis_url" not in content:
            layer["redis_url"] = SETTING_TYPES["redis_url"].read(name, read_secret_file(value, f"{name} in {path}"))
        elif name != "clusters":  # profiles of other clusters: see cluster_profiles.py
            raise unknown_setting(name, _TOML_NAMES, str(path))
    return layer


def _read_group(layer: Layer, group: str, table: Any, path: Path) -> None:
    if not isinstance(table, dict):
        raise InvalidSetting(f"{group.replace('_', '.')} in {path} must be a table", setting=group)
    if group == "kafka":
        own = {name: value for name, value in table.items() if name in ("producer", "consumer", "admin")}
        table = {name: value for name, value in table.items() if name not in own}
        for name, value in own.items():
            _read_group(layer, f"kafka_{name}", value, path)
    flat = {name: option_text(f"{group} {name} in {path}", value) for name, value in _flat(table, "")}
    layer[group] = read_secret_files(flat, f"{group} in {path}")


def _options(content: Mapping[str, Any]) -> Iterable[tuple[str, str, Any]]:
    """Yield (group, name, value) of all settings outside the profiles; the group of a plain field is ""."""
    for group, value in content.items():
        if group in ("kafka", "redis", "topic") and isinstance(value, dict):
            for name, inner in _flat(value, ""):
                # [kafka.producer] is a nested table, as a dotted name is
                yield group, _without_client(name) if group == "kafka" else name, inner
        elif group != "clusters":
            yield "", group, value


def _without_client(name: str) -> str:
    client, _, rest = name.partition(".")
    return rest if client in ("producer", "consumer", "admin") else name


def _profile_options(profiles: Mapping[str, Layer]) -> Iterable[tuple[str, str, Any]]:
    for profile, table in profiles.items():
        for name, value in table.items():
            if name not in ("bootstrap_servers", "staging", "start_timeout_s"):
                yield f"clusters.{profile}", name, value


def _flat(table: Mapping[str, Any], prefix: str) -> Iterable[tuple[str, Any]]:
    """Yield dotted names: TOML parses an unquoted ``sasl.password`` as ``{"sasl": {"password": x}}``."""
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value
