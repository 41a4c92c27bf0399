"""Mask rules and their TOML file. A record that no rule covers does not pass: see ``unknown``.

key_file = "/run/secrets/masks"          # for do = "hash"
pass = ["claim", "released", "lifecycle_changed"]
unknown = "stop"                          # kinds that neither `pass` nor a rule names: or "drop"
undecodable = "stop"                      # records that are no entry (or, without kinds, no JSON): or "drop"

[[mask]]
kinds = ["message_said"]                  # left out: every kind a rule or `pass` names
path = "message.content"                  # left out: everywhere
regex = '[\\w.+-]+@[\\w-]+\\.[\\w.]+'     # left out: the whole value
do = "hash"                               # "redact", "hash" or "drop"
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from hashlib import blake2b
from pathlib import Path as FilePath
from typing import Any, Final, TypeVar

from seekpoint.consumers.staging.masks.mask_paths import Path
from seekpoint.schemas import bodies as b
from seekpoint.schemas.config.secrets import read_secret_file
from seekpoint.schemas.errors import InvalidSetting
from seekpoint.schemas.frozen_struct import FrozenStruct

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
_KEY_BYTES_MIN = 16
EVERYWHERE = Path(("**",))
_Choice = TypeVar("_Choice", bound=StrEnum)


class Do(StrEnum):
    """The action of a mask rule on a value."""

    REDACT = "redact"
    HASH = "hash"
    DROP = "drop"


class Policy(StrEnum):
    """The treatment of a record that no rule covers or that cannot be decoded."""

    STOP = "stop"
    DROP = "drop"


class MaskRule(FrozenStruct, frozen=True, kw_only=True):
    """One rule. Empty ``kinds`` mean all kinds that are covered."""

    do: Do
    kinds: frozenset[str] = frozenset()
    path: Path = EVERYWHERE
    regex: re.Pattern[str] | None = None

    def __post_init__(self) -> None:
        if self.path == EVERYWHERE and self.regex is None and self.do is Do.DROP:
            raise InvalidSetting("a rule that drops needs a path or a regex", hint='write path = "context.customer"')


@dataclass(frozen=True, slots=True, kw_only=True)  # msgspec cannot leave a field out of the repr
class MaskRules:
    """All mask rules. The constructor raises ``InvalidSetting`` for contradictory rules."""

    rules: tuple[MaskRule, ...]
    passed: frozenset[str] = frozenset()
    unknown: Policy = Policy.STOP
    undecodable: Policy = Policy.STOP
    keep_headers: tuple[str, ...] = ()
    """The patterns of the headers to keep; all others are dropped while values are masked."""
    key: bytes = field(default=b"", repr=False)

    def __post_init__(self) -> None:
        if any(rule.do is Do.HASH for rule in self.rules) and len(self.key) < _KEY_BYTES_MIN:
            raise InvalidSetting(
                f"rules that hash need a key of at least {_KEY_BYTES_MIN} bytes",
                setting="key_file",
                hint="without a secret key anybody can hash guesses; head -c 32 /dev/urandom | base64 > FILE",
            )

    def covers(self, kind: str) -> bool:
        """Return whether a rule or ``pass`` names this kind."""
        return kind in self.passed or any(kind in rule.kinds for rule in self.rules)

    @property
    def digest(self) -> str:
        """The digest of the rules, without the key. Progress files store it, so the names in their repr stay."""
        text = repr((self.rules, sorted(self.passed), self.unknown, self.undecodable, self.keep_headers))
        return blake2b(text.encode(), digest_size=8).hexdigest()

    @classmethod
    def load(cls, path: str | FilePath) -> MaskRules:
        """Load the rules of a TOML file. Raises ``InvalidSetting`` with the path."""
        try:
            with open(path, encoding="utf-8-sig") as file:
                return cls.from_dict(tomllib.loads(file.read()))
        except OSError as exc:
            raise InvalidSetting(f"the mask rules cannot be read: {exc.strerror}", path=str(path)) from exc
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as exc:
            raise InvalidSetting(f"the mask rules are not TOML: {exc}", path=str(path)) from None

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], *, key: bytes = b"") -> MaskRules:
        """Return the rules of a parsed TOML file. ``key`` is for callers without a ``key_file``."""
        known = {"mask", "pass", "unknown", "undecodable", "keep_headers", "key_file"}
        _refuse_others(data, known, "the mask rules")
        rules = data.get("mask", [])
        if not isinstance(rules, list) or not rules:
            raise InvalidSetting("the mask rules have no rule", hint="write a [[mask]]")
        key_file = data.get("key_file")
        return cls(
            rules=tuple(_rule(rule) for rule in rules),
            passed=frozenset(_kinds(data, "pass")),
            unknown=_choice(Policy, data, "unknown", Policy.STOP),
            undecodable=_choice(Policy, data, "undecodable", Policy.STOP),
            keep_headers=tuple(_texts(data, "keep_headers")),
            key=key if key_file is None else read_secret_file(str(key_file), "key_file").encode(),
        )


def _rule(data: Any) -> MaskRule:
    if not isinstance(data, dict):
        raise InvalidSetting("a mask rule must be a table", found=str(data)[:100])
    _refuse_others(data, {"kinds", "path", "regex", "do"}, "a mask rule")
    if "do" not in data:
        raise InvalidSetting("a mask rule has no do", hint='write do = "redact", "hash" or "drop"')
    path = EVERYWHERE if data.get("path") is None else Path.parse(str(data["path"]))
    kinds = frozenset(_kinds(data, "kinds"))
    _check_path(path, kinds)
    return MaskRule(
        do=_choice(Do, data, "do", Do.REDACT),
        kinds=kinds,
        path=path,
        regex=_regex(data.get("regex")),
    )


def _regex(text: Any) -> re.Pattern[str] | None:
    if text is None:
        return None
    try:
        found = re.compile(str(text))
    except re.error as exc:
        raise InvalidSetting(f"the regex of a mask rule is invalid: {exc}", regex=str(text)[:200]) from None
    if found.match(""):
        raise InvalidSetting("the regex of a mask rule matches the empty text, so any text", regex=str(text)[:200])
    return found


def _choice(kind: type[_Choice], data: Mapping[str, Any], name: str, default: _Choice) -> _Choice:
    try:
        return kind(data.get(name, default))
    except ValueError:
        allowed = ", ".join(kind)
        raise InvalidSetting(f"{name} of mask rules must be one of {allowed}", found=str(data[name])[:100]) from None


def _texts(data: Mapping[str, Any], name: str) -> list[str]:
    found = data.get(name, [])
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        raise InvalidSetting(f"{name} of mask rules must be a list of texts", found=str(found)[:100])
    return found


def _kinds(data: Mapping[str, Any], name: str) -> list[str]:
    found = _texts(data, name)
    for kind in found:
        _check_kind(kind)
    return found


def _refuse_others(data: Mapping[str, Any], known: set[str], where: str) -> None:
    for name in sorted(data.keys() - known):
        raise InvalidSetting(f"{where} must not have {name}", hint=f"allowed are {', '.join(sorted(known))}")


def _names(body: type[b.Body]) -> frozenset[str]:
    return _ENVELOPE | _RENAMED.get(body.KIND, frozenset(each.name for each in fields(body)))


_NAMES = {body.KIND: _names(body) for body in b.BODIES}
_ALL = frozenset[str]().union(*_NAMES.values()) | {"folds", "degraded"}


def _check_kind(kind: str) -> None:
    """Raise ``InvalidSetting`` if no entry is of this kind."""
    if kind not in b.KINDS:
        raise InvalidSetting(
            "mask rules name a kind that no entry has",
            kind=kind[:100],
            hint="the user's own kinds are all custom; seekpoint log shows the kinds of a process",
        )


def _check_path(path: Path, kinds: frozenset[str]) -> None:
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
