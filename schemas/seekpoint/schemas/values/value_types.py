"""Check journaled values against an annotation, and rebuild models of them.

    a value -> its JSON text, models as objects -> load -> msgspec or pydantic -> the value that the annotation says

A live call returns what is rebuilt of the text that it records, so that every later run gets an equal value. Members
that the text does not have get their defaults. Members that a model does not have are dropped of a record, which older
code may have written, and refused of a new value. A ``TypedDict`` keeps them.

    >>> from typing import NamedTuple
    >>> Point = NamedTuple("Point", [("x", int), ("y", int)])
    >>> points = value_type(list[Point])
    >>> points.rebuilt("[[1,2]]", "the result")
    [Point(x=1, y=2)]
"""

from __future__ import annotations

import re
import sys
import types
from collections import abc
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import lru_cache
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec

from seekpoint.schemas.config.limits import DEFAULT_LIMITS, Limits
from seekpoint.schemas.errors import InvalidOption, InvalidValue, RecordedValueInvalid
from seekpoint.schemas.frozen_struct import BUILDING
from seekpoint.schemas.values.dates_and_decimals import WRITERS
from seekpoint.schemas.values.exact_paths import exact_path
from seekpoint.schemas.values.json_values import dump, load
from seekpoint.schemas.values.models import NO_MODEL, encoded_names, is_model_class, is_pydantic, parts_of

_SAYS_NOTHING = (Any, object)
_AT = re.compile(r"(?s)(.*) - at `(.*)`")
_UNKNOWN_STEP = "[...]"
_CHECKED = {
    str, bool, float, type(None), dict, list, tuple, set, frozenset, *WRITERS, abc.Collection, abc.Sequence,
    abc.MutableSequence, abc.Set, abc.MutableSet, abc.Mapping, abc.MutableMapping,
}  # fmt: skip
"""The types that msgspec checks and that a journal has."""


class ValueType:
    """The type of a value, as an annotation gives it. ``value_type`` makes it."""

    def __init__(self, annotation: Any, convert: Callable[[Any], Any]) -> None:
        self.annotation = annotation
        self.has_models = any(is_model_class(one) for one in _leaves(annotation))
        """Whether it names a model, so that a journaled value has to be rebuilt."""
        self._convert = convert
        self._is_open = any(_is_typed_dict(one) for one in _classes_in(annotation))

    @property
    def shown(self) -> str:
        """Return the annotation as text."""
        return _shown(self.annotation)

    def rebuilt(self, text: str, what: str, **facts: Any) -> Any:
        """Return the value of a recorded text. Raises ``RecordedValueInvalid``; ``what`` names the value in it."""
        try:
            return self._made(load(text))
        except _MisfitError as exc:
            raise RecordedValueInvalid(self._told(exc, what), **self._facts(exc), **facts) from exc.__cause__

    def checked(
        self, value: Any, limits: Limits, what: str, *, is_result: bool = False, **facts: Any
    ) -> tuple[str, Any]:
        """Return the text to journal of a new value, and what every reader rebuilds of it.

        Members of a pydantic model that were not set stay so in a result, if their defaults tell the same again.
        Inputs and arguments are compared by texts of all members. Raises ``InvalidValue`` if the value does not fit, or
        has a member that would be lost, and as ``dump`` does.
        """
        if is_result:
            with suppress(_MisfitError):
                return self._exact(value, dump(value, limits, "set"))
        try:
            return self._exact(value, dump(value, limits, True))
        except _MisfitError as exc:
            raise InvalidValue(self._told(exc, what), **self._facts(exc), **facts) from exc.__cause__

    def _exact(self, value: Any, text: str) -> tuple[str, Any]:
        made = self._made(load(text))
        _check_nothing_is_lost(value, made, "$")
        return text, made

    def normal(self, text: str) -> str:
        """Return the text that the value rebuilt of ``text`` has; ``text`` itself if it does not fit."""
        try:
            return dump(self._made(load(text)), DEFAULT_LIMITS, True)
        except Exception:  # it differs from each other text then
            return text

    def _made(self, value: Any) -> Any:
        made = self._convert(value)
        if self._is_open:
            _keep_members(value, made)
        return made

    def _told(self, error: _MisfitError, what: str) -> str:
        return f"{what} does not fit {self.shown}: {error.reason}"

    def _facts(self, error: _MisfitError) -> dict[str, Any]:
        return {"path": error.path, "expected": self.shown}


def value_type(annotation: Any) -> ValueType | None:
    """Return the type of an annotation; None if it says nothing, or if neither msgspec nor pydantic can check it."""
    try:
        return _known(annotation)
    except TypeError:
        return None


def asked_type(annotation: Any) -> ValueType | None:
    """Return the type that a call asks for; None for ``Any``. Raises ``InvalidOption`` if nobody can check it."""
    try:
        return _known(annotation)
    except TypeError as exc:
        raise InvalidOption(f"type= cannot be checked: {exc}", option="type") from exc


@lru_cache(maxsize=1024)
def _known(annotation: Any) -> ValueType | None:
    """Raise ``TypeError`` if the annotation cannot be checked."""
    if annotation in _SAYS_NOTHING or isinstance(annotation, TypeVar):
        return None
    leaves = [*_leaves(annotation)]
    for leaf in leaves:
        if not (leaf in _CHECKED or leaf in _SAYS_NOTHING or isinstance(leaf, TypeVar) or is_model_class(leaf)):
            raise TypeError(f"{_shown(leaf)} is neither a model nor a type that a journal has")
    has_structs = any(hasattr(leaf, "__struct_fields__") for leaf in leaves)
    is_for_pydantic = any(map(is_pydantic, leaves)) and not has_structs
    return ValueType(annotation, _by_pydantic(annotation) if is_for_pydantic else _by_msgspec(annotation))


class _MisfitError(Exception):
    """Why a value does not fit, and where."""

    def __init__(self, reason: str, path: str = "$") -> None:
        super().__init__(reason)
        self.reason = reason
        self.path = path


# --- conversion
def _by_msgspec(annotation: Any) -> Callable[[Any], Any]:
    def convert(value: Any) -> Any:
        try:
            return msgspec.convert(value, annotation, dec_hook=_pydantic_member)
        except msgspec.ValidationError as exc:
            raise _misfit(exc) from exc
        except Exception as exc:  # of the model's own code, as __post_init__
            raise _MisfitError(f"{type(exc).__name__}: {exc}") from exc

    def converted(value: Any) -> Any:
        try:
            return convert(value)
        except _MisfitError as exc:
            if _UNKNOWN_STEP in exc.path:
                exc.path = exact_path(value, exc.path, convert)
            raise

    try:
        with BUILDING:
            msgspec.convert(None, annotation, dec_hook=_pydantic_member)
    except msgspec.ValidationError:
        pass
    except Exception as exc:  # TypeError for a type that msgspec has not, NameError for a member's annotation
        raise TypeError(str(exc)) from exc
    return converted


def _pydantic_member(kind: type, value: Any) -> Any:
    """Return a pydantic model that is a member of another model."""
    if not is_pydantic(kind):
        raise TypeError(f"{_shown(kind)} is neither a model nor a type that a journal has")
    try:
        return kind.model_validate(value)  # type: ignore[attr-defined]  # a pydantic model, as just seen
    except ValueError as exc:
        misfit = _pydantic_misfit(exc)
        raise ValueError(misfit.reason if misfit.path == "$" else f"{misfit.reason} - at `{misfit.path}`") from exc


def _by_pydantic(annotation: Any) -> Callable[[Any], Any]:
    try:
        validate = sys.modules["pydantic"].TypeAdapter(annotation).validate_python
    except Exception as exc:
        raise TypeError(f"pydantic: {exc}") from exc

    def convert(value: Any) -> Any:
        try:
            return validate(value)
        except ValueError as exc:
            raise _pydantic_misfit(exc) from exc
        except Exception as exc:  # of a validator
            raise _MisfitError(f"{type(exc).__name__}: {exc}") from exc

    return convert


def _misfit(error: msgspec.ValidationError) -> _MisfitError:
    found = _AT.fullmatch(str(error))
    if found is None:
        return _MisfitError(str(error))
    reason, path = found.groups()
    inner = _AT.fullmatch(reason)  # of a pydantic model inside
    return _MisfitError(reason, path) if inner is None else _MisfitError(inner[1], path + inner[2][1:])


def _pydantic_misfit(error: ValueError) -> _MisfitError:
    errors = getattr(error, "errors", None)
    if not callable(errors):
        return _MisfitError(f"{type(error).__name__}: {error}")
    first = errors(include_url=False, include_context=False, include_input=False)[0]
    return _MisfitError(str(first["msg"]), "$" + "".join(map(_step, first["loc"])))


def _step(step: object) -> str:
    if isinstance(step, str):
        return f".{step}" if step.isidentifier() else f"[{step[:80]!r}]"
    return f"[{step}]"


# --- members that an annotation does not name
def _keep_members(value: Any, made: Any) -> None:
    """Put the members that a ``TypedDict`` does not name back into what was made of ``value``."""
    if type(value) is dict and type(made) is dict:
        if all(type(key) is str for key in made):  # else members of an enum are its keys
            made |= {key: item for key, item in value.items() if key not in made}
        pairs = [(item, made[key]) for key, item in value.items() if key in made]
    elif type(value) is dict:
        names = encoded_names(type(made)) or {}
        pairs = [(value[name], getattr(made, attribute)) for attribute, name in names.items() if name in value]
    elif isinstance(value, list | tuple) and isinstance(made, list | tuple):
        pairs = [*zip(value, made, strict=False)]
    else:
        return
    for one, other in pairs:
        _keep_members(one, other)


def _check_nothing_is_lost(value: Any, made: Any, path: str) -> None:
    """Raise ``_MisfitError`` for a member of ``value`` that is not in what was made of it."""
    if type(value) is dict and type(made) is dict:
        for key, item in value.items():
            if key in made:
                _check_nothing_is_lost(item, made[key], path + _step(key))
    elif type(value) is dict:
        _check_members(value, made, path)
    elif type(value) in (list, tuple) and isinstance(made, list | tuple):
        for at, (one, other) in enumerate(zip(value, made, strict=False)):
            _check_nothing_is_lost(one, other, f"{path}[{at}]")
    elif type(value) in (set, frozenset) and any(parts_of(one) is not NO_MODEL for one in value):
        if value != made or {type(one) for one in value} != {type(one) for one in made}:
            raise _MisfitError(f"the members would come back as others: {made!r:.200}", path)
    elif parts_of(value) is not NO_MODEL:
        _check_model(value, made, path)


def _check_members(value: dict[str, Any], made: Any, path: str) -> None:
    names = encoded_names(type(made))
    if names is None:  # pydantic: the model says itself which members it ignores
        fields = getattr(type(made), "model_fields", {})
        names = {name: name if name in value else str(one.alias) for name, one in fields.items()}
    else:
        _check_known(value, type(made), names, path)
    for attribute, name in names.items():
        if name in value:
            _check_nothing_is_lost(value[name], getattr(made, attribute), path + _step(name))


def _check_known(value: dict[str, Any], kind: Any, names: dict[str, str], path: str) -> None:
    config = getattr(kind, "__struct_config__", None)
    known = {*names.values(), None if config is None else config.tag_field}
    for key in value:
        if key not in known:
            from seekpoint.schemas.values.near_names import nearest

            near = nearest(key, names.values())
            raise _MisfitError(
                f"{_shown(kind)} has no member {key[:80]!r}" + (f"; did you mean {near!r}?" if near else ""),
                path + _step(key),
            )


def _check_model(value: Any, made: Any, path: str) -> None:
    kind = type(value)
    if _class_of(made) is not _class_of(value):
        raise _MisfitError(f"a {_shown(kind)} would come back as a {_shown(type(made))}", path)
    if is_pydantic(kind) and hasattr(kind, "model_fields"):
        _check_pydantic(value, made, path)
        return
    names: tuple[str, ...] = getattr(kind, "__struct_fields__", ()) or tuple(getattr(kind, "__dataclass_fields__", ()))
    for name in (*names, *getattr(kind, "_fields", ())):
        one, other = getattr(value, name, None), getattr(made, name, None)
        _check_nothing_is_lost(one, other, path + _step(name))
    has_equality = getattr(kind, "__eq__", None) is not getattr(object, "__eq__", None)
    if has_equality and made != value:
        raise _MisfitError(f"the {_shown(kind)} would come back as another one: {made!r:.200}", path)


def _class_of(value: Any) -> Any:
    """Return the class of a value; of a generic model of pydantic, the one without its parameters."""
    kind = type(value)
    return getattr(kind, "__pydantic_generic_metadata__", {}).get("origin") or kind


def _check_pydantic(value: Any, made: Any, path: str) -> None:
    """Compare fields, further members and private ones."""
    names = {*type(value).model_fields}
    for inside in ("__dict__", "__pydantic_extra__", "__pydantic_private__"):
        members, others = (getattr(one, inside, None) or {} for one in (value, made))
        for name, member in members.items():
            if inside == "__dict__" and name not in names:  # cached properties, and what a library puts there
                continue
            at = path + _step(name)
            _check_nothing_is_lost(member, others.get(name), at)
            if not _is_same(member, others.get(name)):
                raise _MisfitError(f"{member!r:.100} would come back as {others.get(name)!r:.100}", at)


def _is_same(value: Any, made: Any) -> bool:
    """Whether members are equal, or are objects of one class that are only equal to themselves, as locks are."""
    if type(value) is type(made) and isinstance(value, dict):
        return value.keys() == made.keys() and all(_is_same(value[key], made[key]) for key in value)
    if type(value) is type(made) and isinstance(value, list | tuple):
        return len(value) == len(made) and all(map(_is_same, value, made))
    if _class_of(value) is _class_of(made) and parts_of(value) is not NO_MODEL:
        return True  # its members were compared
    is_identity = getattr(type(value), "__eq__", None) is getattr(object, "__eq__", None) and type(value) is type(made)
    return is_identity or bool(value == made)


# --- annotations
def _leaves(annotation: Any, inside: frozenset[int] = frozenset()) -> Iterator[Any]:
    """Yield the types that an annotation names, those of containers and unions included."""
    annotation = getattr(annotation, "__supertype__", annotation)  # of a NewType
    if annotation is None:
        annotation = type(None)
    origin = get_origin(annotation)
    alias = annotation if origin is None else origin
    if hasattr(alias, "__value__") and not isinstance(alias, type):  # type Alias = ...
        if id(alias) not in inside:
            yield from _leaves(alias.__value__, inside | {id(alias)})
        return
    if origin is None:
        yield annotation
    elif origin is Literal:
        yield from (type(one) for one in get_args(annotation))
    elif origin is Annotated:
        yield from _leaves(get_args(annotation)[0], inside)
    else:
        if origin is not Union and origin is not types.UnionType:
            yield origin
        for one in get_args(annotation):
            if one is not ...:
                yield from _leaves(one, inside)


def _classes_in(annotation: Any, seen: set[Any] | None = None) -> set[Any]:
    """Return the classes that an annotation names, and those that the members of its models name."""
    seen = set() if seen is None else seen
    for leaf in _leaves(annotation):
        if is_model_class(leaf) and leaf not in seen:
            seen.add(leaf)
            try:
                hints = {} if is_pydantic(leaf) else get_type_hints(leaf, include_extras=True)
            except Exception:  # msgspec has said what is wrong with the model
                hints = {}
            for one in hints.values():
                _classes_in(one, seen)
    return seen


def _is_typed_dict(kind: Any) -> bool:
    return issubclass(kind, dict)  # of the classes that are models


def _shown(annotation: Any) -> str:
    if isinstance(annotation, type) and get_origin(annotation) is None:
        return annotation.__name__
    return re.sub(r"\b(?:[a-z_][\w<>]*\.)+(?=[A-Za-z])", "", str(annotation))
