"""Options that Seekpoint passes through to librdkafka, redis-py and the journal topic.

An option is refused if a guarantee depends on it, or if another setting controls it. Only the client knows its own
options: the module that passes them on raises a typed error for an unknown name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from seekpoint.schemas.config.secrets import MASK, is_secret, mask_options, read_secret_files, url_secrets
from seekpoint.schemas.config.setting_types import parse_switch
from seekpoint.schemas.errors import InvalidSetting

_OptionType = tuple[Callable[[str], str | int | float | bool], str]
"""The parser of an option, and the description of its legal values."""

_ACKS = "an acknowledged entry is on all in-sync replicas: acks=all"
_IDEMPOTENT = "a retry must not append an entry twice"
_GAPLESS = "a lost entry must stop the entries after it"
_TIMEOUT = "an entry that expires in the client leaves a gap in the log; set append_timeout_s instead"
_IN_FLIGHT = "the order within a process depends on it"
_RETRIES = "append_timeout_s decides when to give up; set it instead"
_REPORTS = "an append is acknowledged by its delivery report"
_OFFSETS = "Seekpoint decides where a reader starts and what it has done, never a group's automatic commit"
_LIMITS = "the journal's limits (its manifest) own the size of a record"
_KEEP = "only `seekpoint trim` removes entries, after it has checked what depends on them"
_URL = "redis_url says where Redis is"

_KAFKA = {
    "acks": _ACKS,
    "request.required.acks": _ACKS,
    "enable.idempotence": _IDEMPOTENT,
    "enable.gapless.guarantee": _GAPLESS,
    "message.timeout.ms": _TIMEOUT,
    "delivery.timeout.ms": _TIMEOUT,
    "max.in.flight": _IN_FLIGHT,
    "max.in.flight.requests.per.connection": _IN_FLIGHT,
    "queuing.strategy": _IN_FLIGHT,
    "retries": _RETRIES,
    "message.send.max.retries": _RETRIES,
    "transactional.id": "Seekpoint names its transactions itself, one id a projector",
    "partitioner": "every reader must find a process in the same partition: murmur2, as Java's default",
    "partitioner_cb": "every reader must find a process in the same partition: murmur2, as Java's default",
    "dr_cb": _REPORTS,
    "dr_msg_cb": _REPORTS,
    "on_delivery": _REPORTS,
    "delivery.report.only.error": _REPORTS,
    "linger.ms": "it has a setting of its own: linger_ms",
    "queue.buffering.max.ms": "it has a setting of its own: linger_ms",
    "message.max.bytes": _LIMITS,
    "isolation.level": "entries of an aborted transaction are not part of the journal: read_committed",
    "auto.offset.reset": "a reader that lost its place must fail loudly, not jump",
    "enable.auto.commit": _OFFSETS,
    "auto.commit.enable": _OFFSETS,
    "enable.auto.offset.store": _OFFSETS,
    "group.id": "Seekpoint names its consumer groups itself, after the journal",
    "enable.partition.eof": "readers compare positions; end-of-partition events are theirs to ask for",
    "check.crcs": "a damaged record must not be taken for what was written",
    "allow.auto.create.topics": "a topic made by accident has the wrong settings: seekpoint topics create",
    "bootstrap.servers": "it has a setting of its own: bootstrap_servers",
    "metadata.broker.list": "it has a setting of its own: bootstrap_servers",
}

_TOPIC = {
    "cleanup.policy": "the journal is never compacted: each entry counts",
    "retention.ms": _KEEP,
    "retention.bytes": _KEEP,
    "min.insync.replicas": "it follows replication_factor; set that instead",
    "unclean.leader.election.enable": "an unclean election loses acknowledged entries",
    "message.timestamp.type": "an entry carries the time its owner wrote: CreateTime",
    "max.message.bytes": _LIMITS,
}

_REDIS = {
    "decode_responses": "the view holds bytes; Seekpoint decodes them",
    "host": _URL,
    "port": _URL,
    "db": _URL,
    "unix_socket_path": _URL,
    "url": _URL,
}

REFUSED: Mapping[str, Mapping[str, str]] = {
    "kafka": _KAFKA,
    "kafka_producer": _KAFKA,
    "kafka_consumer": _KAFKA,
    "kafka_admin": _KAFKA,
    "redis": _REDIS,
    "topic": _TOPIC,
}
"""The refused names of each group of options, with the reasons."""

_WHOLE: _OptionType = (int, "a whole number")
_NUMBER: _OptionType = (float, "a number")
_SWITCH: _OptionType = (parse_switch, "true or false")
_REDIS_TYPES: Mapping[str, _OptionType] = {
    "health_check_interval": _WHOLE,
    "legacy_responses": _SWITCH,
    "max_connections": _WHOLE,
    "protocol": _WHOLE,
    "retry_on_timeout": _SWITCH,
    "single_connection_client": _SWITCH,
    "socket_connect_timeout": _NUMBER,
    "socket_keepalive": _SWITCH,
    "socket_read_size": _WHOLE,
    "socket_timeout": _NUMBER,
    "ssl": _SWITCH,
    "ssl_check_hostname": _SWITCH,
    "ssl_min_version": _WHOLE,
    "ssl_validate_ocsp": _SWITCH,
    "ssl_validate_ocsp_stapled": _SWITCH,
    "timeout": _NUMBER,
}
"""The options that redis-py does not take as text."""


class ClientOptions(Mapping[str, str]):
    """One group of passed-through options: a read-only mapping of names to texts. Its repr masks secrets.

    >>> ClientOptions("kafka", {"sasl.username": "ann", "sasl.password": "pw"})
    ClientOptions('kafka', {'sasl.username': 'ann', 'sasl.password': '***'})
    """

    __slots__ = ("_values", "group")

    def __init__(self, group: str, values: Mapping[str, Any]) -> None:
        """Check ``values`` and read secret files. Raises ``InvalidSetting``, which names the setting and the reason."""
        texts = {_name(group, name): option_text(f"{group} {name}", value) for name, value in values.items()}
        self.group = group
        self._values = read_secret_files(texts, group)
        for name in self._values:
            reason = REFUSED[group].get(name.lower())
            if reason is not None:
                raise InvalidSetting(
                    f"{name} may not be set: {reason}",
                    setting=f"{group} {name}",
                    hint="leave it out; see docs/settings.md",
                )

    def __getitem__(self, name: str) -> str:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __hash__(self) -> int:
        return hash(frozenset(self._values.items()))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.group!r}, {mask_options(self._values)!r})"

    def __reduce__(self) -> tuple[type[ClientOptions], tuple[str, dict[str, str]]]:
        return type(self), (self.group, self._values)

    def secrets(self) -> Iterator[str]:
        """Yield what must not be printed: the values of secret names, and passwords in URLs."""
        for name, value in self._values.items():
            if is_secret(name):
                yield value
            else:
                yield from url_secrets(value)


def option_text(setting: str, value: object) -> str:
    """Return a text, number or boolean as librdkafka's text for it. Raises ``InvalidSetting`` for other types."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return str(value)
    raise InvalidSetting(
        f"{setting} must be a text, a number or true/false, not {type(value).__name__}",
        setting=setting,
        hint="callbacks and objects cannot be passed through settings",
    )


def typed_redis_options(options: Mapping[str, str]) -> dict[str, str | int | float | bool]:
    """Return the options as redis-py takes them: numbers and booleans parsed, else text. Raises ``InvalidSetting``."""
    return {name: _typed_redis_option(name, text) for name, text in options.items()}


def check_redis_url(url: str | None) -> None:
    """Raise ``InvalidSetting`` if the URL's query sets a refused option: in redis-py the query overrides options."""
    query = (url or "").partition("?")[2].partition("#")[0]
    for pair in query.split("&"):
        name = pair.partition("=")[0].strip().lower()
        if name == "decode_responses":
            raise InvalidSetting(f"redis_url may not set {name}: {_REDIS[name]}", setting="redis_url")


def _typed_redis_option(name: str, text: str) -> str | int | float | bool:
    if name not in _REDIS_TYPES:
        return text
    parse, expected = _REDIS_TYPES[name]
    try:
        return parse(text)
    except ValueError:
        shown = MASK if is_secret(name) else text
        raise InvalidSetting(f"redis {name} must be {expected}", setting=f"redis {name}", value=shown) from None


def _name(group: str, name: object) -> str:
    if isinstance(name, str) and name:
        return name
    raise InvalidSetting(f"a name in {group} must be a text", setting=group, value=name)
