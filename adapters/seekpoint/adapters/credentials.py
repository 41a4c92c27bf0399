"""Tell which options of a request say who asks: keys, tokens and passwords never go into a journal. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

__all__ = ["is_credential", "without_credentials"]

_ENDS = (
    "accesskey", "accesskeyid", "apikey", "apikeystring", "authorization", "credential", "credentials", "headers",
    "password", "privatekey", "secret", "subscriptionkey", "token", "tokenprovider",
)  # fmt: skip


def is_credential(name: str) -> bool:
    """Return whether an option of this name holds a credential. HTTP headers count as such, whatever they are called.

    >>> [is_credential(name) for name in ("azure_ad_token", "Subscription-Key", "max_tokens", "prompt_cache_key")]
    [True, True, False, False]
    """
    return name.lower().replace("_", "").replace("-", "").endswith(_ENDS)


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
