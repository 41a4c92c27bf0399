"""Secret settings: which they are, how they are read from files, and how they are masked in all output."""

from __future__ import annotations

import json
import re
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from functools import lru_cache
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

_SECRET_WORDS = (
    "password",
    "passphrase",
    "passwd",
    "secret",
    "token",
    "credential",
    "jaas",
    "key.pem",
    "ssl.key",
    "oauth",
)
"""A name that contains one of these is secret, also in future versions of librdkafka."""

_PUBLIC = r"enable\..*|.*\.(location|url|file|method|algorithm|scope|type|name|id|aud|sub|iss|include|seconds|ms)"
"""Names that only describe a place or a method are not secret. Error messages must not lose "oidc" or "true"."""

_LIBRDKAFKA_FILES = frozenset(
    {
        "sasl.oauthbearer.assertion.file",
        "sasl.oauthbearer.assertion.jwt.template.file",
        "sasl.oauthbearer.assertion.private.key.file",
    }
)
"""librdkafka's own names that end in ``.file``. They are passed through; all other such names are read from files."""

_USERINFO = r"(?s)(?<=://)([^:@/?#]*):(.*)@"
"""Matches up to the last @, so that of a password with an unencoded @ no part is shown."""

_NARROW = r"(?<=://)[^/?#@]*:([^/?#]*)@"
_QUERY = r"([?&])([^=&#]+)=([^&#]*)"

_BASE64 = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_")
_LINE_END = re.compile(r"(?:\r?\n|\\r\\n|\\n)")
"""The end of a line, or as JSON writes it."""
_URL_SAFE = str.maketrans("+/", "-_")
_PLAIN = str.maketrans("-_", "+/")


def is_secret(name: str) -> bool:
    """Return whether the value of this librdkafka or Redis setting must never be printed."""
    name = name.lower().replace("_", ".")
    return any(word in name for word in _SECRET_WORDS) and re.fullmatch(_PUBLIC, name) is None


def mask_options(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options with their secrets masked, for output."""
    return {name: MASK if is_secret(name) else mask_url(value) for name, value in options.items()}


def mask_url(url: str) -> str:
    """Return the URL with its password, and any secret in its query, masked."""
    if "://" not in url:
        return url
    masked = re.sub(_USERINFO, rf"\1:{MASK}@", url)
    return re.sub(_QUERY, lambda m: f"{m[1]}{m[2]}={MASK if is_secret(m[2]) else m[3]}", masked)


def url_secrets(url: str) -> Iterator[str]:
    """Yield the secrets in a URL, as written and percent-decoded; none for a text that is no URL."""
    if "://" not in url:
        return
    written = [match[2] for match in re.finditer(_USERINFO, url)]
    written += [match[1] for match in re.finditer(_NARROW, url)]
    written += [match[3] for match in re.finditer(_QUERY, url) if is_secret(match[2])]
    for secret in written:
        yield secret
        if "%" in secret or "+" in secret:
            from urllib.parse import unquote

            yield unquote(secret)


def scrub(text: str, secrets: Iterable[str]) -> str:
    """Return ``text`` with each of ``secrets`` masked, in every encoding that messages are known to use.

    The encodings: plain, escaped as by ``repr`` or JSON (also twice), percent-encoded, hex, and inside base64 (a basic
    auth header), also in lines.
    """
    return _scrubbed(text, frozenset(secrets))


def scrub_value(value: Any, secrets: Iterable[str]) -> Any:
    """Return ``value`` with the secrets masked in every text, bytes and number inside it; unchanged without secrets."""
    return _scrubbed_value(value, frozenset(secrets))


def longest_spelling(secrets: Iterable[str]) -> int:
    """Return the maximum length of a secret in a text, in any encoding; 0 without secrets."""
    return 2 * max(map(len, _spellings(frozenset(secrets))), default=0)  # base64 takes less than this


def _scrubbed(text: str, secrets: frozenset[str]) -> str:
    for spelling in _spellings(secrets):
        text = text.replace(spelling, MASK)
    for secret, fragments in _base64_fragments(secrets):
        for fragment in fragments:
            text = _without_base64(text, secret, fragment)
            whole = _LINE_END.sub("", text)
            if whole != text and (masked := _without_base64(whole, secret, fragment)) != whole:
                text = masked  # base64 in lines: their ends are lost
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
    text = str(Decimal(value)) if isinstance(value, int) else str(value)  # str() of an int has a length limit
    found = _scrubbed(text, secrets)
    return value if found == text else found


@lru_cache(maxsize=8)
def _spellings(secrets: frozenset[str]) -> tuple[str, ...]:
    """Return all encodings of the secrets that can be replaced as texts, the longest first."""
    from urllib.parse import quote, quote_plus

    found: set[str] = set()
    for secret in filter(None, secrets):
        data = secret.encode("utf-8", "surrogatepass")
        quoted = {how(data, safe) for how in (quote, quote_plus) for safe in ("", "/", "!*'()~")}
        found |= quoted | {re.sub("%..", lambda match: match[0].lower(), one) for one in quoted}
        # If a text has both kinds of quotes, repr escapes one of them.
        found |= {secret, repr(secret)[1:-1], repr(f"'{secret}\"")[3:-2], ascii(secret)[1:-1], repr(data)[2:-1]}
        found |= {
            json.dumps(json.dumps(secret)[1:-1])[1:-1],
            json.dumps(secret)[1:-1],
            json.dumps(secret, ensure_ascii=False)[1:-1],
        }
        if len(data) > 3:  # the hex of a shorter one is in many numbers
            found |= {data.hex(), data.hex().upper()}
    return tuple(sorted(found, key=len, reverse=True))


@lru_cache(maxsize=8)
def _base64_fragments(secrets: frozenset[str]) -> tuple[tuple[bytes, frozenset[str]], ...]:
    """Return each secret with its base64 encodings, without the characters at both ends that depend on neighbours."""
    found = []
    for secret in secrets:
        data = secret.encode("utf-8", "surrogatepass")
        fragments = set()
        for before in range(3):
            text = b64encode(b"\0" * before + data).decode().rstrip("=")
            fragment = text[-(-before * 8 // 6) : (before + len(data)) * 8 // 6]
            fragments |= {fragment, fragment.translate(_URL_SAFE)}
        found.append((data, frozenset(fragment for fragment in fragments if len(fragment) > 1)))
    return tuple(found)


def _without_base64(text: str, secret: bytes, fragment: str) -> str:
    """Mask each run of base64 in ``text`` that contains ``fragment`` and decodes to ``secret``."""
    start, copied, pieces = 0, 0, []
    while (at := text.find(fragment, start)) >= 0:
        begin, end = at, at + len(fragment)
        while begin > start and text[begin - 1] in _BASE64:
            begin -= 1
        while end < len(text) and text[end] in _BASE64:
            end += 1
        run = text[begin:end].translate(_PLAIN)
        if any(secret in _decoded(run[skipped:]) for skipped in range(4)):
            while text[end : end + 1] == "=":
                end += 1
            pieces += [text[copied:begin], MASK]
            copied = end
        start = end
    return "".join([*pieces, text[copied:]])


def _decoded(run: str) -> bytes:
    whole = run[: len(run) - 1] if len(run) % 4 == 1 else run
    return b64decode(whole + "=" * (-len(whole) % 4))


def read_secret_files(options: Mapping[str, str], label: str) -> dict[str, str]:
    """Return ``options`` with each ``NAME.file = path`` replaced by NAME and the file's text without a final newline.

    ``label`` is the user's name of the group, for errors. Raises ``InvalidSetting`` if a file cannot be read, or if
    both the value and its file are given.
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
    """Return the text of a secret's file without a final newline.

    Raises ``InvalidSetting``, which names the setting and the path.
    """
    try:
        with open(path, "rb") as file:
            text = file.read().decode("utf-8-sig")  # editors on Windows begin a file with a byte-order mark
    except UnicodeDecodeError:
        # The cause is left out: a UnicodeDecodeError contains the bytes of the secret.
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
