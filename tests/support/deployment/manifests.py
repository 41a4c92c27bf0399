"""Manifests of Kubernetes, read strictly: by the schemas of its API, without a field that it does not know."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec
import yaml

__all__ = ["manifests", "problems"]


def manifests(*files: Path) -> list[dict[str, Any]]:
    """The documents of some YAML files."""
    return [document for file in files for document in yaml.safe_load_all(file.read_text())]


def problems(manifest: dict[str, Any]) -> Iterator[str]:
    """What the API of Kubernetes would refuse, or ignore, in a manifest."""
    version, kind = manifest["apiVersion"], manifest["kind"]
    module = import_module("lightkube.models." + ("core_v1" if version == "v1" else version.replace("/", "_")))
    try:
        found = msgspec.convert(manifest, getattr(module, kind), strict=True)
    except msgspec.ValidationError as exc:
        yield f"{kind}: {exc}"
    else:
        yield from _unknown(manifest, msgspec.to_builtins(found), kind)


def _unknown(given: Any, known: Any, where: str) -> Iterator[str]:
    """The fields of a manifest that are gone after it was read."""
    if isinstance(given, dict):
        for name, value in given.items():
            if name in known:
                yield from _unknown(value, known[name], f"{where}.{name}")
            else:
                yield f"{where}: there is no field {name}"
    elif isinstance(given, list):
        for index, (value, read) in enumerate(zip(given, known, strict=True)):
            yield from _unknown(value, read, f"{where}[{index}]")
