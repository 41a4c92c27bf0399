"""Send a trace to an OpenTelemetry collector over HTTP."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from seekpoint.schemas.errors import JournalUnavailable

_TIMEOUT_S = 10.0


def send(url: str, document: Mapping[str, Any]) -> None:
    """POST a trace to a collector. If ``url`` has no path, add ``/v1/traces``. Raises ``JournalUnavailable``."""
    from urllib.error import URLError
    from urllib.parse import urlsplit
    from urllib.request import Request, urlopen

    import orjson

    whole = url if urlsplit(url).path not in ("", "/") else f"{url.rstrip('/')}/v1/traces"
    if urlsplit(whole).scheme not in ("http", "https"):
        raise JournalUnavailable("a collector's address begins with http:// or https://", url=url, hint="--otlp URL")
    request = Request(whole, orjson.dumps(document), {"Content-Type": "application/json"})
    try:
        urlopen(request, timeout=_TIMEOUT_S).close()
    except (URLError, OSError, ValueError) as exc:
        raise JournalUnavailable(
            f"the collector did not take the trace: {exc}", url=whole, hint="check --otlp"
        ) from exc
