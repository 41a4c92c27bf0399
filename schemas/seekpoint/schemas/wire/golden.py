"""Golden files: for each release its schema, entries of every body, a history, and the state of that history.

``scripts/golden RELEASE`` writes the file of a release. A golden file never changes afterwards.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib import resources
from typing import Any

from seekpoint.schemas.bodies.entry import Entry
from seekpoint.schemas.frozen_struct import FrozenStruct


class Golden(FrozenStruct, frozen=True, kw_only=True):
    """One release, as its JSON file contains it. Records and ids are in hex."""

    release: str
    format: int
    fold_version: int
    fingerprint: str
    schema: Mapping[str, Any]
    entries: Sequence[Mapping[str, Any]]
    """``{"record": hex, "values": …}``: at least one of each body."""
    history: Sequence[str]
    """Records of one process, at offsets 0, 1, 2, …"""
    state: str
    """The result of ``State.to_bytes`` after these records."""
    hash: str
    content_hash: str

    def to_json(self) -> str:
        """Return the text of the file."""
        return json.dumps(asdict(self), indent=1, ensure_ascii=True) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Golden:
        """Return the release that ``to_json`` wrote."""
        return cls(**json.loads(text))


def load_goldens() -> list[Golden]:
    """Return all releases, sorted by file name."""
    folder = resources.files("seekpoint.schemas") / "golden"
    files = sorted((file for file in folder.iterdir() if file.name.endswith(".json")), key=lambda file: file.name)
    return [Golden.from_json(file.read_text(encoding="utf-8")) for file in files]


def entry_values(entry: Entry) -> dict[str, Any]:
    """Return an entry as JSON values, field by field, with its body as [kind, fields] and bytes in hex."""
    return {**_jsonable(entry._asdict()), "body": [entry.kind, _jsonable(asdict(entry.body))]}


def _jsonable(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value.hex() if isinstance(value, bytes) else value for name, value in values.items()}
