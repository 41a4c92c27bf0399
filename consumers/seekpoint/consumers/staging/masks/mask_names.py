"""Checks of the kinds and paths in mask rules: a misspelt one would mask nothing, so it is refused."""

from __future__ import annotations

from dataclasses import fields
from typing import Final

from seekpoint.consumers.staging.masks.mask_paths import Path
from seekpoint.schemas import bodies as b
from seekpoint.schemas.errors import InvalidSetting

_ENVELOPE = frozenset({"actor", "correlation_id", "process_id"})
_PLAIN = frozenset({"value", "process_id"})
"""The names in records that are no entries."""
_CONTEXT = frozenset({"context", "call"})
_RENAMED: Final[dict[str, frozenset[str]]] = {
    b.ContextUpdated.KIND: _CONTEXT,
    b.ContextUpdatedMany.KIND: _CONTEXT,
    b.ContextDeleted.KIND: _CONTEXT,
    b.ContextPatched.KIND: _CONTEXT,
    b.ContentBatch.KIND: _CONTEXT | {"message"},
    b.MessageSaid.KIND: frozenset({"message", "call"}),
    b.CallsSetAside.KIND: frozenset({"key", "reason"}),
    b.ParentAnswered.KIND: frozenset({"key"}),
    b.Detached.KIND: frozenset({"digest"}),
}
"""The kinds whose fields have other names in mask rules: those of the state."""
_STATES = frozenset({b.Seeded.KIND, b.Forked.KIND, b.Rewound.KIND, b.Promoted.KIND})


def _names(body: type[b.Body]) -> frozenset[str]:
    return _ENVELOPE | _RENAMED.get(body.KIND, frozenset(each.name for each in fields(body)))


_NAMES = {body.KIND: _names(body) for body in b.BODIES}
_ALL = frozenset[str]().union(*_NAMES.values()) | {"folds", "degraded"}


def check_kind(kind: str) -> None:
    """Raise ``InvalidSetting`` if no entry is of this kind."""
    if kind not in b.KINDS:
        raise InvalidSetting(
            "mask rules name a kind that no entry has",
            kind=kind[:100],
            hint="the user's own kinds are all custom; seekpoint log shows the kinds of a process",
        )


def check_path(path: Path, kinds: frozenset[str]) -> None:
    """Raise ``InvalidSetting`` if entries of none of ``kinds`` (without any: no record) have the path's first name."""
    first = path.parts[0]
    known = frozenset[str]().union(*(_ALL if kind in _STATES else _NAMES[kind] for kind in kinds))
    known = known if kinds else _ALL | _PLAIN
    if first not in ("*", "**") and first not in known:
        names = f"entries of {', '.join(sorted(kinds))} have {', '.join(sorted(known))}"
        raise InvalidSetting(
            "the path of a mask rule matches no field: the data that it should mask would pass unmasked",
            path=".".join(path.parts)[:200],
            kinds=", ".join(sorted(kinds)) or "any",
            hint=names if len(kinds) == 1 else InvalidSetting.hint,
        )
