"""Tell which options of a request say who asks: keys, tokens and passwords never go into a journal. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

_ENDS = (
    "accesskey", "accesskeyid", "apikey", "apikeystring", "authorization", "cookie", "cookies", "credential",
    "credentials", "headers", "password", "privatekey", "secret", "secretkey", "subscriptionkey", "token",
    "tokenprovider",
)  # fmt: skip
_WHOLE = frozenset({"auth", "basicauth", "tokens", "accesstokens", "authtokens", "refreshtokens"})
"""Names that are no credential as the end of another one: ``max_tokens`` is a number."""


def is_credential(name: str) -> bool:
    """Return whether an option of this name holds a credential. HTTP headers count as such, whatever they are called.

    >>> [is_credential(name) for name in ("secret_key", "Set-Cookie", "auth", "max_tokens", "prompt_cache_key")]
    [True, True, True, False, False]
    """
    plain = name.lower().replace("_", "").replace("-", "")
    return plain.endswith(_ENDS) or plain in _WHOLE


def without_credentials(options: Any) -> Any:
    """Return options without those that hold credentials, also within objects and lists.

    >>> without_credentials([{"model": "m", "api_key": "k", "litellm_params": {"api_key": "k", "n": 1}}])
    [{'model': 'm', 'litellm_params': {'n': 1}}]
    """
    if isinstance(options, Mapping):
        return {name: without_credentials(one) for name, one in options.items() if not is_credential(str(name))}
    if isinstance(options, Iterable) and not isinstance(options, str | bytes):
        return [without_credentials(one) for one in options]
    return options
