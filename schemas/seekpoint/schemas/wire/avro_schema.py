"""The Avro schemas of this code, assembled from the ``.avsc`` files."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

SCHEMA_FINGERPRINT = bytes.fromhex("49128223426e0fed")
"""The CRC-64-AVRO of the current schema's parsing canonical form, little-endian. A test compares it with fastavro's."""

_NAMESPACE = "seekpoint"


@lru_cache(maxsize=3)
def schema_json(name: str = "Entry") -> str:
    """Return a current schema as one JSON text, which any Avro tool reads. ``NAME.schemas`` stores that of entries."""
    import json
    from importlib import resources  # imported late, as most programs need only the fingerprint: 5 % of the start time

    folder = resources.files("seekpoint.schemas") / "avsc"
    seen: set[str] = set()

    def inline(node: Any) -> Any:
        if isinstance(node, list):
            return [inline(member) for member in node]
        if isinstance(node, dict):
            return {name: inline(value) if name in ("type", "fields") else value for name, value in node.items()}
        if isinstance(node, str) and node.startswith(f"{_NAMESPACE}.") and node not in seen:
            seen.add(node)
            return inline(json.loads((folder / f"{node}.avsc").read_text(encoding="utf-8")))
        return node

    return json.dumps(inline(f"{_NAMESPACE}.{name}"), separators=(",", ":"))
