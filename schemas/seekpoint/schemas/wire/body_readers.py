"""Readers of bodies: generated functions that read the fields of a body class in order.

Most of the time of decoding is spent on bodies, and a loop over the fields would take 1.5 times as long. As in
``dataclasses``, the reader is generated as Python source and compiled once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from seekpoint.schemas.bodies import Body
from seekpoint.schemas.config.limits import Limits
from seekpoint.schemas.frozen_struct import field_types
from seekpoint.schemas.wire.avro_primitives import Get, get_long, get_timestamp

__all__ = ["ReadBody", "body_reader"]

ReadBody: TypeAlias = Callable[[bytes, int, Limits], Any]
"""(record, position of the body, limits) -> the body, the last item of a record. Raises as ``avro_primitives`` does."""

CheckJson: TypeAlias = Callable[[Any, Limits], None]

_TEXT = """
size = data[at]
if not size & 0x81:
    at += 1
    end = at + (size >> 1)
elif not size & 1 and data[at + 1] < 0x80:
    size = (size & 0x7F) >> 1 | data[at + 1] << 6
    at += 2
    end = at + size
else:
    size, at = get_long(data, at)
    end = at + size
if not at <= end <= len(data):
    raise ValueError("a text is longer than its record")
its_{name} = data[at:end].decode()
at = end
"""
"""0x81: one of these bits is set in the first byte of a number that is negative or longer than one byte. Lengths of one
and of two bytes, which nearly all texts have, are read inline."""

_NUMBER = """
its_{name} = data[at]
if its_{name} & 0x81:
    its_{name}, at = get_{name}(data, at)
else:
    its_{name} >>= 1
    at += 1
"""

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
    """Return the reader of ``body``. ``getters`` are by field annotation; ``check_json`` checks texts that are JSON."""
    names: dict[str, Any] = {"body_type": body, "get_long": get_long, "check_json": check_json}
    lines, checks = [], []
    for name, kind in field_types(body).items():
        names[f"get_{name}"] = _getter(kind, name, getters)
        lines += _lines(kind).format(name=name).splitlines()
        if "Json" in kind:
            checks += [f"if its_{name} is not None: check_json(its_{name}, limits)"]
    result = f"return body_type({', '.join(f'its_{name}' for name in field_types(body))})"
    end = ["if at != len(data): raise ValueError('bytes are left over')"]
    text = "\n    ".join(["def read(data, at, limits):", *lines, *end, *checks, result])
    exec(text, names)
    found: ReadBody = names["read"]
    return found


def _getter(kind: str, name: str, getters: Mapping[str, Get]) -> Get:
    """Return the reader of a field that is not read inline; of a number, that for several bytes."""
    if kind.partition(" | ")[0] != "int":
        return getters[kind]
    return get_timestamp if name.endswith("_at_us") else get_long


def _lines(kind: str) -> str:
    type_name, _, optional = kind.partition(" | ")
    lines = _TEXT if type_name in ("str", "Json") else _NUMBER if type_name == "int" else None
    if lines is None:
        return _OTHER
    return _OPTIONAL + lines.replace("\n", "\n    ").rstrip(" ") if optional else lines
