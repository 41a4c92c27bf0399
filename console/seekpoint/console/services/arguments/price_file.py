"""The prices of models from a file: ``--prices FILE``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from seekpoint.producers import Prices


def prices_in(path: Path | None) -> Prices | None:
    """Return the prices in a TOML or JSON file: a table a model, USD a million tokens as texts. None: no file.

        ["small-*"]
        input = "0.15"
        output = "0.60"

    Raises ``BadParameter`` for a file that cannot be read, and ``InvalidSetting`` for a price that is none.
    """
    if path is None:
        return None
    import json
    import tomllib

    from seekpoint.producers import Prices

    try:
        text = path.read_text(encoding="utf-8-sig")
        found = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except (OSError, ValueError) as exc:
        raise typer.BadParameter(f"{path} cannot be read: {exc}", param_hint="--prices") from exc
    if not isinstance(found, dict) or not all(isinstance(one, dict) for one in found.values()):
        raise typer.BadParameter(f"{path} has no table of prices for each model", param_hint="--prices")
    return Prices(found)
