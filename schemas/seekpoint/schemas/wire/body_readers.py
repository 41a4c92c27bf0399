"""Readers of bodies: for each a function that reads its fields one after the other, made of the class.

A loop over the fields takes half as long again, and a body is what decoding spends its time on. As ``dataclasses`` does
it: a text of Python for each field, compiled once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, TypeAlias

from seekpoint.schemas.bodies import Body
from seekpoint.schemas.config.limits import Limits
from seekpoint.schemas.wire.avro_primitives import Get, get_long, get_stamp

__all__ = ["ReadBody", "body_reader"]

ReadBody: TypeAlias = Callable[[bytes, int, Limits], Any]
"""(record, where the body begins, limits) -> the body, which ends the record. Raises as readers of ``avro`` do."""

CheckJson: TypeAlias = Callable[[Any, Limits], None]

_TEXT = """
size = data[at]
if size & 0x81:
    size, at = get_long(data, at)
    end = at + size
else:
    at += 1
    end = at + (size >> 1)
if not at <= end <= len(data):
    raise ValueError("a text is longer than its record")
its_{name} = data[at:end].decode()
at = end
"""
"""0x81: a length of which one of these bits is set is negative, or longer than one byte."""

_NUMBER = """
its_{name} = data[at]
if its_{name} & 0x81:
    its_{name}, at = get_{name}(data, at)
else:
    its_{name} >>= 1
    at += 1
"""
"""As above."""

_OPTIONAL = """
flag = data[at]
at += 1
if flag == 0:
    its_{name} = None
elif flag != 2:
    raise ValueError("a union has no such branch")
else:
"""

_OTHER = """
its_{name}, at = get_{name}(data, at)
"""


def body_reader(body: type[Body], getters: Mapping[str, Get], check_json: CheckJson) -> ReadBody:
    """The reader of ``body``: ``getters`` by the annotation of a field; texts that are JSON go to ``check_json``."""
    names: dict[str, Any] = {"body_type": body, "get_long": get_long, "check_json": check_json}
    lines, checks = [], []
    for field in fields(body):
        kind = str(field.type)
        names[f"get_{field.name}"] = _getter(kind, field.name, getters)
        lines += _lines(kind).format(name=field.name).splitlines()
        if "Json" in kind:
            checks += [f"if its_{field.name} is not None: check_json(its_{field.name}, limits)"]
    made = f"return body_type({', '.join(f'its_{field.name}' for field in fields(body))})"
    end = ["if at != len(data): raise ValueError('bytes are left over')"]
    text = "\n    ".join(["def read(data, at, limits):", *lines, *end, *checks, made])
    exec(text, names)
    found: ReadBody = names["read"]
    return found


def _getter(kind: str, name: str, getters: Mapping[str, Get]) -> Get:
    """What reads a field where its lines do not: of a number, one of several bytes."""
    if kind.partition(" | ")[0] != "int":
        return getters[kind]
    return get_stamp if name.endswith("_at_us") else get_long


def _lines(kind: str) -> str:
    one, _, no = kind.partition(" | ")
    lines = _TEXT if one in ("str", "Json") else _NUMBER if one == "int" else None
    if lines is None:
        return _OTHER
    return _OPTIONAL + lines.replace("\n", "\n    ").rstrip(" ") if no else lines
