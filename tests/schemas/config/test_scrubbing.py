"""The scrubber masks every encoding of a secret, for any secret in any text."""

from __future__ import annotations

import json
import re
import time
from base64 import b64encode, encodebytes, urlsafe_b64encode
from collections.abc import Callable
from typing import Any
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from seekpoint.schemas.config.secrets import MASK, scrub, scrub_value
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.values.json_values import dump, load

SECRETS = st.text(st.characters(codec="utf-8", exclude_characters="*"), min_size=1, max_size=12)
"""Any length, signs of regular expressions and format strings included; none that the mask itself would show."""
AROUND = st.text(st.characters(codec="utf-8"), max_size=20)

SPELLINGS: dict[str, Callable[[str, str, str], tuple[str, str]]] = {
    "plain": lambda before, secret, after: (before + secret + after, secret),
    "repr": lambda before, secret, after: (before + repr(secret) + after, repr(secret)[1:-1]),
    "ascii": lambda before, secret, after: (before + ascii(secret) + after, ascii(secret)[1:-1]),
    "repr of bytes": lambda before, secret, after: (
        before + repr(secret.encode()) + after,
        repr(secret.encode())[2:-1],
    ),
    "JSON": lambda before, secret, after: (before + json.dumps(secret) + after, json.dumps(secret)[1:-1]),
    "quoted": lambda before, secret, after: (before + quote(secret, "") + after, quote(secret, "")),
    "quoted as a path": lambda before, secret, after: (before + quote(secret) + after, quote(secret)),
    "quoted as a form": lambda before, secret, after: (before + quote_plus(secret) + after, quote_plus(secret)),
}


@pytest.mark.parametrize("spelling", SPELLINGS)
@given(AROUND, SECRETS, AROUND)
@example("redis://ann:", "p/w@%", "@cache")
@example("", ".*+?[a](b)|^$\\", "")
@example("'", 'it\'s "so"\n', "")
@example("", "é\\x", "")
def test_no_encoding_of_a_secret_is_left(spelling: str, before: str, secret: str, after: str) -> None:
    """Short secrets, quotes, newlines and percent signs are masked too."""
    text, spelt = SPELLINGS[spelling](before, secret, after)
    found = scrub(text, {secret})
    assert spelt not in found or spelt in MASK
    assert secret not in found or secret in MASK


@given(AROUND, SECRETS, AROUND)
def test_no_secret_is_left_in_the_repr_of_a_text(before: str, secret: str, after: str) -> None:
    """If a text has both kinds of quotes, repr escapes one of them."""
    found = scrub(repr(before + secret + after), {secret})
    assume(len(secret) > 3)
    assert repr(f"'{secret}\"")[3:-2] not in found
    assert repr(secret)[1:-1] not in found


@given(st.binary(max_size=9), st.text(min_size=2, max_size=12).map(str), st.binary(max_size=9), st.booleans(), AROUND)
@example(b"ann:", "hu", b"", False, "Authorization: Basic ")
@example(b"ann:", "hush", b"", True, "path/")
def test_no_base64_of_a_secret_is_left(before: bytes, secret: str, after: bytes, url_safe: bool, text: str) -> None:
    """The secret may begin anywhere: a basic auth header has the user's name before it."""
    assume("*" not in secret and secret.isprintable())
    encode = urlsafe_b64encode if url_safe else b64encode
    encoded = encode(before + secret.encode() + after).decode()
    found = scrub(f"{text}{encoded}", {secret})
    assert encoded.rstrip("=") not in found


def test_ordinary_words_are_not_masked_as_base64() -> None:
    """A run of letters is masked only if it decodes to the secret."""
    text = "/usr/lib/python3/site-packages/cHc/password cHdk BhcHc1 GVhcHB3"
    assert scrub(text, {"pz"}) == text
    assert scrub("Basic YW5uOnB3", {"pw"}) == "Basic ***"
    assert scrub(text, set()) == scrub(text, {""}) == text


def test_overlapping_secrets_are_all_masked() -> None:
    """The longest is masked first."""
    assert scrub("hushhush hush", {"hush", "hushhush"}) == "*** ***"


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.decimals(allow_nan=False),
    lambda inner: st.lists(inner, max_size=3) | st.tuples(inner, inner) | st.dictionaries(AROUND, inner, max_size=3),
    max_leaves=6,
)


@given(VALUES, st.text("0123456789abcdef-", min_size=3, max_size=6), AROUND)
def test_no_secret_is_left_in_a_value(value: Any, secret: str, text: str) -> None:
    """Texts, bytes, numbers and keys are scrubbed at any depth."""
    whole = [value, {text + secret: (secret + text, f"{text}{secret}".encode(), b"\xff" + secret.encode())}]
    assert secret not in _texts(scrub_value(whole, {secret}))
    assert scrub_value(value, {"never in there"}) == value


def _texts(value: Any) -> str:
    if isinstance(value, dict):
        return "\n".join(map(_texts, [*value.keys(), *value.values()]))
    if isinstance(value, list | tuple):
        return "\n".join(map(_texts, value))
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)


def test_a_value_without_secrets_keeps_its_types() -> None:
    """The journal's text of the value does not change."""
    value = {"a": (1, b"\xff\x00", [2.5, None, True]), 3: "x"}
    assert scrub_value(value, {"hush"}) == value
    assert dump(load(dump([1, b"\xff"]))) == dump(scrub_value([1, b"\xff"], {"hush"}))


@pytest.mark.parametrize("spell", [str, lambda one: b64encode(f"ann:{one}".encode()).decode(), quote, repr])
@pytest.mark.parametrize("shift", range(0, 140, 7))
def test_a_cut_never_leaves_half_a_secret(spell: Callable[[str], str], shift: int) -> None:
    """The text is scrubbed before it is cut."""
    secret = "correct/horse%battery staple\\" * 3
    settings = Settings(kafka={"sasl.password": secret})
    for length in (100, 16 * 100):
        found = settings.excerpt("x " * ((length - shift) // 2) + spell(secret) * 30, 100)
        assert len(found) <= 100
        assert "corr" not in found
        assert not re.search("[A-Za-wyz]{3}", found)


def test_megabytes_are_scrubbed_quickly() -> None:
    """A message may have any length."""
    secrets = frozenset({"hush", "correct horse battery", "0123456789abcdef"})
    began = time.perf_counter()
    for text in ("aHVz" * 500_000, "hus" * 500_000, "/" * 1_000_000, "%20" * 500_000, "YW5uOmh1c2g " * 200_000):
        scrub(text, secrets)
    assert time.perf_counter() - began < 10


@pytest.mark.parametrize(
    "how",
    [
        lambda secret: secret.encode().hex(),
        lambda secret: secret.encode().hex().upper(),
        lambda secret: encodebytes(b"user:" + secret.encode() * 5).decode(),
        lambda secret: json.dumps({"body": json.dumps({"password": secret})}),
        lambda secret: json.dumps({"body": encodebytes(b"user:" + secret.encode() * 5).decode()}),
    ],
    ids=["hex", "HEX", "base64 in lines", "JSON in JSON", "base64 in lines in JSON"],
)
def test_a_secret_in_hex_in_lines_or_in_json_of_json_is_masked(how: Callable[[str], str]) -> None:
    """Bodies of errors quote requests so."""
    secret = 'hush"e=42-and-more'
    text = how(secret)
    assert scrub(text, {secret}) != text
    assert "aHVzaCJlPTQy" not in scrub(text, {secret}).replace("\n", "")
    assert "hush" not in scrub(text, {secret})
    assert scrub("two\nlines", {secret}) == "two\nlines"
