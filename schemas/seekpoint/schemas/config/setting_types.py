"""The type of each setting: its legal values, and how to parse one from text."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from math import inf
from typing import Any

from seekpoint.schemas.config.secrets import MASK, mask_url
from seekpoint.schemas.errors import InvalidSetting
from seekpoint.schemas.frozen_struct import FrozenStruct


def _show(value: object) -> str:
    return repr(mask_url(value) if isinstance(value, str) else value)


class SettingType(FrozenStruct, frozen=True):
    """The type of a setting: which values are legal, and how one is parsed."""

    expected: str
    """The description for error messages: "a number of seconds above 0"."""
    is_legal: Callable[[Any], bool]
    parse: Callable[[str], object]
    show: Callable[[object], str] = _show
    """Formats an illegal value for an error message, without secrets."""
    advise: Callable[[object], str | None] = lambda _: None
    """Returns what to write instead of an illegal value, if that is known."""

    def check(self, setting: str, value: object) -> None:
        """Raise ``InvalidSetting`` with the setting, the value and the expected type if ``value`` is illegal."""
        if not self.is_legal(value):
            raise self._error(setting, value)

    def read(self, setting: str, text: str) -> object:
        """Return the value of ``text``. Raises ``InvalidSetting`` as ``check`` does."""
        try:
            value = self.parse(text)
        except ValueError:
            raise self._error(setting, text) from None
        if self.is_legal(value):
            return value
        raise self._error(setting, text)

    def _error(self, setting: str, value: object) -> InvalidSetting:
        hint = self.advise(value) or InvalidSetting.hint
        return InvalidSetting(f"{setting} must be {self.expected}", setting=setting, value=self.show(value), hint=hint)


def _whole(low: int, high: int) -> SettingType:
    return SettingType(
        f"a whole number from {low} to {high}",
        lambda value: type(value) is int and low <= value <= high,
        int,
    )


def _number(expected: str, in_range: Callable[[float], bool]) -> SettingType:
    return SettingType(expected, lambda value: type(value) in (int, float) and in_range(value), float)


def _text(expected: str, pattern: str) -> SettingType:
    return SettingType(
        expected, lambda value: isinstance(value, str) and re.fullmatch(pattern, value) is not None, str.strip
    )


def _or_none(
    inner: SettingType,
    show: Callable[[object], str] = _show,
    advise: Callable[[object], str | None] = lambda _: None,
) -> SettingType:
    return SettingType(
        f"{inner.expected}, or none",
        lambda value: value is None or inner.is_legal(value),
        lambda text: None if text.strip().lower() in ("", "none") else inner.parse(text),
        show,
        advise,
    )


def _show_url(value: object) -> str:
    # A text that is no URL may be a bare password.
    return mask_url(value) if isinstance(value, str) and re.match(r"(redis|rediss|unix)://", value) else MASK


def _advise_url(value: object) -> str | None:
    """Return what somebody meant who gave ``value`` as the journal's URL."""
    if not isinstance(value, str):
        return None
    scheme, colon, rest = value.strip().partition(":")
    path = rest.lstrip("/") if scheme.lower() in ("sqlite", "sqlite3", "file") else ""
    if ":memory:" in value or scheme.lower() == "memory":
        return "Node.in_memory() is a log in memory; to keep it, name a file: sqlite:///runs.db"
    if path and "@" not in path:  # which may be a password
        return f"write sqlite:///{path}, or sqlite:////{path} from the root of the file system"
    if scheme.lower() == "kafka" or re.fullmatch(r"[^\s/:]+:\d{1,5}", value.strip()):
        return "a journal on Kafka has no journal_url: leave it out, and give Kafka's address as bootstrap_servers"
    if not colon and value.strip():
        return f"write sqlite:///{value.strip()}"
    return "name a file, such as sqlite:///runs.db"


def parse_switch(text: str) -> bool:
    """Return the boolean in ``text``. Raises ``ValueError`` if it is none."""
    spelling = text.strip().lower()
    if spelling not in _SWITCH:
        raise ValueError(text)
    return _SWITCH[spelling]


_SWITCH = {"true": True, "1": True, "yes": True, "on": True, "false": False, "0": False, "no": False, "off": False}


def _is_modules(value: object) -> bool:
    return isinstance(value, tuple | list) and all(isinstance(one, str) and re.fullmatch(_MODULE, one) for one in value)


_MODULE = r"[^\W\d]\w*(?:\.[^\W\d]\w*)*"
_SECONDS = _number("a number of seconds above 0", lambda value: 0 < value < inf)
_BROKER = r"(?:[A-Za-z_]+://)?(?:\[[0-9A-Fa-f:.%]+\]|[^\s,:/@\[\]]+)(?::\d{1,5})?"

SETTING_TYPES: Mapping[str, SettingType] = {
    "journal": _text(
        "1 to 200 of the characters a-z A-Z 0-9 . _ -, but not . or ..", r"(?!\.\.?\Z)[a-zA-Z0-9._-]{1,200}"
    ),
    "journal_url": _or_none(
        _text("sqlite:///PATH, the file of an embedded log", r"sqlite:///(?!:memory:)\S(?:.*\S)?"), advise=_advise_url
    ),
    "bootstrap_servers": _text("HOST:PORT, or several with commas", rf"{_BROKER}(?:\s*,\s*{_BROKER})*"),
    "redis_url": _or_none(
        _text("redis://HOST:PORT/DB, rediss://… or unix://…", r"(?:redis|rediss|unix)://\S*"), _show_url
    ),
    "partitions": _whole(1, 10_000),
    "replication_factor": _or_none(_whole(1, 32_767)),
    "node_id": _or_none(_text("1 to 200 visible characters", r"[^\s\x00-\x1f\x7f]{1,200}")),
    "append_timeout_s": _SECONDS,
    "heal_timeout_s": _SECONDS,
    "confirm_interval_s": _SECONDS,
    "confirm_timeout_s": _SECONDS,
    "owner_timeout_s": _SECONDS,
    "loop_timeout_s": _SECONDS,
    "owner_deaths_max": _whole(1, 1_000_000),
    "heartbeat_interval_s": _SECONDS,
    "producer_drain_s": _SECONDS,
    "linger_ms": _number("a number of milliseconds from 0 to 900000", lambda value: 0 <= value <= 900_000),
    "dead_letters_max": _whole(1, 1_000_000_000),
    "dead_letter_window_s": _SECONDS,
    "recover_concurrency_max": _whole(1, 10_000),
    "start_timeout_s": _SECONDS,
    "transaction_wait_s": _SECONDS,
    "checkpoint_age_max_s": _SECONDS,
    "checkpoint_bytes_min": _whole(0, 1_000_000_000),
    "finished_content_s": _number("a number of seconds from 0", lambda value: 0 <= value < inf),
    "effects": SettingType("real or recorded", lambda value: value in ("real", "recorded"), str.strip),
    "tracing": SettingType("off, on or content", lambda value: value in ("off", "on", "content"), str.strip),
    "blob_store": _or_none(
        _text(
            "file:///FOLDER or s3://BUCKET/PREFIX, without credentials",
            r"file:///\S(?:.*\S)?|s3://[a-z0-9][a-z0-9.-]+(?:/[^\s?#@]+)?/?",
        )
    ),
    "checkpoint_after_invocation": SettingType("true or false", lambda value: type(value) is bool, parse_switch),
    "folds": SettingType(
        "names of Python modules, with commas",
        _is_modules,
        lambda text: tuple(part.strip() for part in text.split(",") if part.strip()),
    ),
}
"""The type of each setting that is not a group of options."""
