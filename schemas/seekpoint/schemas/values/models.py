"""Take models apart: dataclasses, msgspec structs, pydantic models, named tuples and members of enums.

A model in the journal is the JSON object of its members. The object does not name the class, so an annotation has to
tell which class to rebuild (``value_types``). No library of models is imported here.
"""

from __future__ import annotations

import dataclasses
from enum import Enum
from typing import Any, Final

import msgspec

NO_MODEL: Final = object()
"""What ``parts_of`` returns for a value that is no model."""


def parts_of(value: Any, only_set: bool = False) -> Any:
    """Return the members of a model as a dict (of a named tuple: a tuple; of an enum: its value); else ``NO_MODEL``.

    ``only_set`` leaves out the members of pydantic models that were not set.

    >>> from fractions import Fraction
    >>> Member = Enum("Member", {"FIRST": "f"})
    >>> parts_of(Member.FIRST), parts_of(Fraction(1, 2)) is NO_MODEL
    ('f', True)
    """
    kind = type(value)
    if isinstance(value, Enum):
        return value.value
    if is_pydantic(kind) and hasattr(kind, "model_dump"):
        return value.model_dump(mode="python", by_alias=True, round_trip=True, warnings=False, exclude_unset=only_set)
    if hasattr(kind, "__struct_fields__"):
        return _struct_parts(value)
    if hasattr(kind, "__dataclass_fields__"):
        return {one.name: getattr(value, one.name) for one in dataclasses.fields(value) if hasattr(value, one.name)}
    if isinstance(value, tuple) and hasattr(kind, "_fields"):
        return tuple(value)
    if hasattr(kind, "unicode_string"):  # a URL of pydantic's
        return str(value)
    return NO_MODEL


def members_of(value: Any) -> Any:
    """Return the members of a model as a dict; any other value as it is."""
    parts = NO_MODEL if type(value) is dict or type(value) is str else parts_of(value)
    return parts if type(parts) is dict else value


def with_member(value: Any, name: str, member: Any) -> Any:
    """Return a copy of a model with another value of one member; a value that is no model as it is."""
    kind = type(value)
    if hasattr(kind, "model_copy"):
        return value.model_copy(update={name: member})
    if hasattr(kind, "__struct_fields__"):
        return msgspec.structs.replace(value, **{name: member})
    return dataclasses.replace(value, **{name: member}) if hasattr(kind, "__dataclass_fields__") else value


def is_pydantic(kind: Any) -> bool:
    """Whether values of the class are validated by pydantic: its models and its dataclasses."""
    return isinstance(kind, type) and hasattr(kind, "__pydantic_validator__")


def is_model_class(kind: Any) -> bool:
    """Whether values of the class are rebuilt by its annotation: a model, a ``TypedDict``, a named tuple or an enum."""
    if not isinstance(kind, type):
        return False
    if is_pydantic(kind) or hasattr(kind, "__struct_fields__") or hasattr(kind, "__dataclass_fields__"):
        return True
    is_typed_dict = issubclass(kind, dict) and hasattr(kind, "__total__")
    return is_typed_dict or issubclass(kind, Enum) or (issubclass(kind, tuple) and hasattr(kind, "_fields"))


def encoded_names(kind: Any) -> dict[str, str] | None:
    """Return the member of the JSON object for each attribute; None if the value is no object of just these."""
    if is_pydantic(kind):
        return None
    if hasattr(kind, "__struct_fields__"):
        names = None if kind.__struct_config__.array_like else zip(
            kind.__struct_fields__, kind.__struct_encode_fields__, strict=True
        )  # fmt: skip
        return None if names is None else dict(names)
    return {one.name: one.name for one in dataclasses.fields(kind)} if hasattr(kind, "__dataclass_fields__") else None


def _struct_parts(value: Any) -> Any:
    """Return what msgspec writes of a struct, with defaults: its tag, and its members by their encoded names."""
    kind = type(value)
    config = kind.__struct_config__
    members = [getattr(value, name) for name in kind.__struct_fields__]
    if config.array_like:
        return members if config.tag is None else [config.tag, *members]
    parts = {} if config.tag is None else {config.tag_field: config.tag}
    named = zip(kind.__struct_encode_fields__, members, strict=True)
    return {**parts, **{name: member for name, member in named if member is not msgspec.UNSET}}
