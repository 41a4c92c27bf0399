"""The data of entries as JSON, as Promptise's own ``FileJournal`` stores it."""

from __future__ import annotations

import json
from typing import Any

from seekpoint.errors import UnserializableValue


def as_json(data: Any) -> tuple[Any, int]:
    """Return a copy of ``data`` as JSON, and its width in characters. Raises ``UnserializableValue``.

    As in ``FileJournal``, ``str(value)`` stands for what is not JSON. It also stands for NaN and for infinite numbers.

    >>> as_json({1: (2, {3}), "x": float("nan")})
    ({'1': [2, '{3}'], 'x': 'NaN'}, 27)
    """
    try:
        text = json.dumps(data, default=str, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError) as exc:
        raise UnserializableValue(f"an entry's data is not JSON: {exc}", path="$") from exc
    return json.loads(text.encode("utf-8", "replace"), parse_constant=str), len(text)
