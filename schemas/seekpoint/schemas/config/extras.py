"""Packages that a part of Seekpoint needs and the base installation does not have: the extras of ``pyproject.toml``."""

from __future__ import annotations

from importlib.util import find_spec

from seekpoint.schemas.errors import InvalidSetting


def extra_missing(packages: str | None, extra: str, purpose: str, otherwise: str | None = None) -> InvalidSetting:
    """Return the error for packages that ``purpose`` needs, and ``extra`` installs. ``otherwise``: how to do without.

    >>> print(extra_missing("faust", "kafka", "a service of recoveries"))
    a service of recoveries needs packages that are not installed (missing=faust); pip install "seekpoint[kafka]"
    """
    hint = f'pip install "seekpoint[{extra}]"' + ("" if otherwise is None else f", {otherwise}")
    return InvalidSetting(f"{purpose} needs packages that are not installed", missing=packages, hint=hint)


def kafka_missing(package: str | None) -> InvalidSetting:
    """Return the error for a package that a journal on Kafka needs."""
    otherwise = "or keep the journal in a file: --journal-url sqlite:///runs.db"
    return extra_missing(package, "kafka", "a journal on Kafka", otherwise)


def require_kafka() -> None:
    """Raise ``InvalidSetting`` if the client of Kafka is not installed. Imports nothing."""
    if find_spec("confluent_kafka") is None:
        raise kafka_missing("confluent_kafka")


def require_extra(extra: str, purpose: str, *modules: str) -> None:
    """Raise ``InvalidSetting`` if a module that ``purpose`` needs is not installed. Imports nothing."""
    missing = [module for module in modules if find_spec(module) is None]
    if missing:
        raise extra_missing(", ".join(missing), extra, purpose)
