"""Which settings are secret, how they are read from files, and how they are kept out of everything that is printed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from seekpoint.schemas.errors import InvalidSetting

__all__ = ["MASK", "is_secret", "mask_options", "mask_url", "read_secret_files", "scrub", "url_secrets"]

MASK = "***"

_MARKS = ("password", "passphrase", "passwd", "secret", "token", "credential", "jaas", "key.pem", "ssl.key", "oauth")
"""A name that holds one of these is secret, a setting of tomorrow's librdkafka included."""

_PUBLIC = re.compile(
    r"enable\..*|.*\.(location|url|file|method|algorithm|scope|type|name|id|aud|sub|iss|include|seconds|ms)",
)
"""…unless it only says where or how: to scrub "oidc" or "true" out of every error message would help nobody."""

_LIBRDKAFKA_FILES = frozenset(
    {
        "sasl.oauthbearer.assertion.file",
        "sasl.oauthbearer.assertion.jwt.template.file",
        "sasl.oauthbearer.assertion.private.key.file",
    }
)
"""The names of librdkafka's own that end like ours for "read this from a file": passed through as they are."""

_USERINFO = re.compile(r"(?<=://)([^:@/?#]*):(.*)@", re.DOTALL)
"""Up to the last @: a password that should have been percent-encoded must not show its second half."""

_NARROW = re.compile(r"(?<=://)[^/?#@]*:([^/?#]*)@")
_QUERY = re.compile(r"([?&])([^=&#]+)=([^&#]*)")


def is_secret(name: str) -> bool:
    """Whether the value of this librdkafka or Redis setting must never be printed."""
    name = name.lower().replace("_", ".")
    return any(mark in name for mark in _MARKS) and _PUBLIC.fullmatch(name) is None


def mask_options(options: Mapping[str, str]) -> dict[str, str]:
    """The options with their secrets masked: what may be printed."""
    return {name: MASK if is_secret(name) else mask_url(value) for name, value in options.items()}


def mask_url(url: str) -> str:
    """The URL with its password, and any secret in its query, masked."""
    if "://" not in url:
        return url
    masked = _USERINFO.sub(rf"\1:{MASK}@", url)
    return _QUERY.sub(lambda m: f"{m[1]}{m[2]}={MASK if is_secret(m[2]) else m[3]}", masked)


def url_secrets(url: str) -> Iterator[str]:
    """The secrets in a URL, as written and as decoded; none in a text that is no URL."""
    if "://" not in url:
        return
    written = [match[2] for match in _USERINFO.finditer(url)]
    written += [match[1] for match in _NARROW.finditer(url)]
    written += [match[3] for match in _QUERY.finditer(url) if is_secret(match[2])]
    for secret in written:
        yield secret
        if "%" in secret or "+" in secret:
            from urllib.parse import unquote

            yield unquote(secret)


def scrub(text: str, secrets: Iterable[str]) -> str:
    """``text`` without any of ``secrets``, also as ``repr`` would have written them."""
    spellings = {spelling for secret in secrets if secret for spelling in (secret, repr(secret)[1:-1])}
    for spelling in sorted(spellings, key=len, reverse=True):
        text = text.replace(spelling, MASK)
    return text


def read_secret_files(options: Mapping[str, str], label: str) -> dict[str, str]:
    """``options`` with each ``NAME.file = path`` replaced by NAME and the file's text, less one newline at its end.

    ``label`` is how the user wrote the group. Raises ``InvalidSetting`` when a file cannot be read, or when both the
    value and its file are given.
    """
    read: dict[str, str] = {}
    for name, value in options.items():
        base = _secret_of_file(name)
        if base is None:
            read[name] = value
            continue
        if base in options:
            raise InvalidSetting(f"{label} has both {base} and {name}", setting=name, hint="keep one of them")
        read[base] = read_secret_file(value, f"{label} {name}")
    return read


def read_secret_file(path: str, setting: str) -> str:
    """The text of a secret's file, less one newline at its end. ``InvalidSetting`` names the setting and the path."""
    try:
        text = Path(path).read_bytes().decode("utf-8")
    except UnicodeDecodeError:
        # Without its cause: a UnicodeDecodeError carries the bytes of the secret.
        raise InvalidSetting(f"the file of {setting} is not UTF-8 text", setting=setting, path=path) from None
    except (OSError, ValueError) as exc:
        raise InvalidSetting(
            f"the file of {setting} cannot be read: {getattr(exc, 'strerror', None) or exc}",
            setting=setting,
            path=path,
            hint="check the path and its permissions",
        ) from exc
    return text.removesuffix("\n").removesuffix("\r")


def _secret_of_file(name: str) -> str | None:
    if name in _LIBRDKAFKA_FILES:
        return None
    for suffix in (".file", "_file"):
        if name.endswith(suffix):
            return name.removesuffix(suffix)
    return None
