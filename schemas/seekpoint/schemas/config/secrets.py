"""Which settings are secret, how they are read from files, and how they are kept out of everything that is printed."""

from __future__ import annotations

import json
import re
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from functools import lru_cache
from pathlib import Path
from typing import Any
from uuid import UUID

from seekpoint.schemas.errors import InvalidSetting

__all__ = [
    "MASK",
    "is_secret",
    "longest_spelling",
    "mask_options",
    "mask_url",
    "read_secret_files",
    "scrub",
    "scrub_value",
    "url_secrets",
]

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

_BASE64 = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_")
_URL_SAFE = str.maketrans("+/", "-_")
_PLAIN = str.maketrans("-_", "+/")


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
    """Return ``text`` with each of ``secrets`` masked, in every spelling that messages are known to use.

    The spellings: as it is, as ``repr`` and JSON escape it, percent-encoded, and inside base64 (a basic auth header).
    """
    return _scrubbed(text, frozenset(secrets))


def scrub_value(value: Any, secrets: Iterable[str]) -> Any:
    """Return ``value`` with the secrets masked in every text, bytes and number inside it; as it is if it holds none."""
    return _scrubbed_value(value, frozenset(secrets))


def longest_spelling(secrets: Iterable[str]) -> int:
    """Return how many characters a secret takes at most in a text, in any spelling; 0 without secrets."""
    return 2 * max(map(len, _spellings(frozenset(secrets))), default=0)  # base64 takes less than that


def _scrubbed(text: str, secrets: frozenset[str]) -> str:
    for spelling in _spellings(secrets):
        text = text.replace(spelling, MASK)
    for secret, cores in _cores(secrets):
        for core in cores:
            text = _without_base64(text, secret, core)
    return text


def _scrubbed_value(value: Any, secrets: frozenset[str]) -> Any:
    if not secrets or value is None or value is True or value is False:
        return value
    if isinstance(value, str):
        return _scrubbed(value, secrets)
    if isinstance(value, bytes | bytearray):
        return _scrubbed(value.decode("utf-8", "surrogateescape"), secrets).encode("utf-8", "surrogateescape")
    if isinstance(value, dict):
        return {_scrubbed_value(name, secrets): _scrubbed_value(one, secrets) for name, one in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_scrubbed_value(one, secrets) for one in value)
    if not isinstance(value, int | float | Decimal | UUID):
        return value
    text = str(Decimal(value)) if isinstance(value, int) else str(value)  # whatever its length
    found = _scrubbed(text, secrets)
    return value if found == text else found


@lru_cache(maxsize=8)
def _spellings(secrets: frozenset[str]) -> tuple[str, ...]:
    """All that a secret may look like where its characters are still in order, the longest first."""
    from urllib.parse import quote, quote_plus

    found: set[str] = set()
    for secret in filter(None, secrets):
        data = secret.encode("utf-8", "surrogatepass")
        quoted = {how(data, safe) for how in (quote, quote_plus) for safe in ("", "/", "!*'()~")}
        found |= quoted | {re.sub("%..", lambda match: match[0].lower(), one) for one in quoted}
        # With both kinds of quotes in a text, repr escapes one of them.
        found |= {secret, repr(secret)[1:-1], repr(f"'{secret}\"")[3:-2], ascii(secret)[1:-1], repr(data)[2:-1]}
        found |= {json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]}
    return tuple(sorted(found, key=len, reverse=True))


@lru_cache(maxsize=8)
def _cores(secrets: frozenset[str]) -> tuple[tuple[bytes, frozenset[str]], ...]:
    """Each secret with what base64 makes of it, less the characters at both ends that its neighbours change."""
    found = []
    for secret in secrets:
        data = secret.encode("utf-8", "surrogatepass")
        cores = set()
        for before in range(3):
            text = b64encode(b"\0" * before + data).decode().rstrip("=")
            core = text[-(-before * 8 // 6) : (before + len(data)) * 8 // 6]
            cores |= {core, core.translate(_URL_SAFE)}
        found.append((data, frozenset(core for core in cores if len(core) > 1)))
    return tuple(found)


def _without_base64(text: str, secret: bytes, core: str) -> str:
    """Mask each run of base64 in ``text`` that has ``core`` in it and does decode to ``secret``."""
    start, kept, parts = 0, 0, []
    while (at := text.find(core, start)) >= 0:
        begin, end = at, at + len(core)
        while begin > start and text[begin - 1] in _BASE64:
            begin -= 1
        while end < len(text) and text[end] in _BASE64:
            end += 1
        run = text[begin:end].translate(_PLAIN)
        if any(secret in _decoded(run[skipped:]) for skipped in range(4)):
            while text[end : end + 1] == "=":
                end += 1
            parts += [text[kept:begin], MASK]
            kept = end
        start = end
    return "".join([*parts, text[kept:]])


def _decoded(run: str) -> bytes:
    whole = run[: len(run) - 1] if len(run) % 4 == 1 else run
    return b64decode(whole + "=" * (-len(whole) % 4))


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
