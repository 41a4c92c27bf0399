"""The texts of values whose types JSON does not have: ``{"$decimal": "1.10"}``.

Each text restores the same value of the same type. A value that no text can represent exactly is refused, not rounded.
"""

from __future__ import annotations

import re
from binascii import Error as Base64Error
from binascii import a2b_base64, b2a_base64
from collections.abc import Callable, Mapping
from datetime import date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from typing import Any, Final, TypeVar
from uuid import UUID

from seekpoint.schemas.values.decimal_arithmetic import parse_decimal

_Clock = TypeVar("_Clock", date, datetime, time)

NUMBER_CHARS_MAX: Final = 4096
"""The maximum length of the text of an integer or a Decimal: the time to read one is quadratic in its length."""

_INT_BITS_MAX: Final = 13_607
_INT = r"-?(?:0|[1-9][0-9]*)"
_DECIMAL = r"-?[0-9]+(?:\.[0-9]+)?(?:E[+-]?[0-9]{1,19})?"
_SECONDS = r"(-?)([0-9]{1,14})\.([0-9]{6})"
_FOLD: Final = "[fold=1]"
"""The suffix of a time in the second pass of an hour that a clock change repeats. ISO 8601 has no notation for it."""


class Unwritable(Exception):
    """The error for a value that no text can represent exactly, with the reason and a hint."""

    def __init__(self, reason: str, hint: str, *, too_large: bool = False) -> None:
        super().__init__(reason)
        self.reason, self.hint, self.too_large = reason, hint, too_large


def _write_int(value: int) -> str:
    # Decimal is not subject to sys.set_int_max_str_digits, so all nodes write and read the same texts.
    if value.bit_length() > _INT_BITS_MAX or len(text := str(parse_decimal(value))) > NUMBER_CHARS_MAX:
        raise _too_long("an integer")
    return text


def _read_int(text: str) -> int:
    return int(parse_decimal(_matched(_INT, text)))


def _write_decimal(value: Decimal) -> str:
    if not value.is_finite():
        raise Unwritable(f"a Decimal that is not finite ({value})", "use None, or a text, for a missing number")
    # The context may format the exponent with a small e.
    if len(text := str(value).upper()) > NUMBER_CHARS_MAX:
        raise _too_long("a Decimal")
    return text


def _read_decimal(text: str) -> Decimal:
    value = parse_decimal(_matched(_DECIMAL, text))
    if not value.is_finite():
        raise ValueError("beyond Decimal's exponents")
    return value


def _write_bytes(value: bytes) -> str:
    return b2a_base64(value, newline=False).decode("ascii")


def _read_bytes(text: str) -> bytes:
    try:
        return a2b_base64(text, strict_mode=True)
    except Base64Error as exc:
        raise ValueError(str(exc)) from None


def _write_datetime(value: datetime) -> str:
    return _clock(value.tzinfo, value.isoformat(), value.fold)


def _write_time(value: time) -> str:
    return _clock(value.tzinfo, value.isoformat(), value.fold)


def _clock(zone: tzinfo | None, text: str, fold: int) -> str:
    if zone is not None and not _is_fixed(zone):
        raise Unwritable(
            "a time whose zone is not a plain offset in seconds (its rules or its name would be lost)",
            "convert it with .astimezone(datetime.timezone.utc), and keep the zone's name beside it",
        )
    return text + _FOLD if fold else text


def _is_fixed(zone: tzinfo) -> bool:
    # A timezone with a name has it as its second initial argument, and no text represents the name.
    # Offsets with fractions of a second are legal, but fromisoformat loses some of them.
    return (
        type(zone) is timezone
        and len(zone.__getinitargs__()) == 1  # type: ignore[attr-defined]
        and zone.utcoffset(None).microseconds == 0
    )


def _read_datetime(text: str) -> datetime:
    plain = text.removesuffix(_FOLD)
    value = datetime.fromisoformat(plain)
    return _canonical(value, plain) if plain == text else _canonical(value, plain).replace(fold=1)


def _read_time(text: str) -> time:
    plain = text.removesuffix(_FOLD)
    value = time.fromisoformat(plain)
    return _canonical(value, plain) if plain == text else _canonical(value, plain).replace(fold=1)


def _read_date(text: str) -> date:
    return _canonical(date.fromisoformat(text), text)


def _canonical(value: _Clock, text: str) -> _Clock:
    # fromisoformat accepts several notations, but the text of a value must be unique.
    if value.isoformat() != text:
        raise ValueError("not written as isoformat() writes it")
    return value


def _write_timedelta(value: timedelta) -> str:
    micros = value // timedelta(microseconds=1)
    seconds, rest = divmod(abs(micros), 1_000_000)
    return f"{'-' if micros < 0 else ''}{seconds}.{rest:06d}"


def _read_timedelta(text: str) -> timedelta:
    match = re.fullmatch(_SECONDS, text, re.ASCII)
    if match is None:
        raise ValueError("no seconds with six decimals")
    micros = int(match[2]) * 1_000_000 + int(match[3])
    return timedelta(microseconds=-micros if match[1] else micros)


def _read_uuid(text: str) -> UUID:
    value = UUID(text)
    if str(value) != text:
        raise ValueError("not written as str(UUID) writes it")
    return value


def _matched(pattern: str, text: str) -> str:
    if len(text) > NUMBER_CHARS_MAX or re.fullmatch(pattern, text, re.ASCII) is None:
        raise ValueError("no number, or too long a one")
    return text


def _too_long(what: str) -> Unwritable:
    return Unwritable(f"{what} of more than {NUMBER_CHARS_MAX} characters", "journal it as bytes", too_large=True)


WRITERS: Mapping[type, tuple[str, Callable[[Any], str]]] = {
    int: ("$int", _write_int),
    Decimal: ("$decimal", _write_decimal),
    bytes: ("$bytes", _write_bytes),
    datetime: ("$datetime", _write_datetime),
    date: ("$date", date.isoformat),
    time: ("$time", _write_time),
    timedelta: ("$timedelta", _write_timedelta),
    UUID: ("$uuid", str),
}
"""The tag and the writer of each type, by exact type. Writers raise ``Unwritable``."""

READERS: Mapping[str, Callable[[str], object]] = {
    "$int": _read_int,
    "$decimal": _read_decimal,
    "$bytes": _read_bytes,
    "$datetime": _read_datetime,
    "$date": _read_date,
    "$time": _read_time,
    "$timedelta": _read_timedelta,
    "$uuid": _read_uuid,
}
"""The reader of each tag. Readers raise ``ValueError``, or ``ArithmeticError`` as Decimal does."""
