"""Shapes of JSON values: where a value may hold a user's data, and under which names mask rules find it.

Each field of a state, and of a value in it, declares its shape beside its type. One walker masks them all.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple


class Shape(NamedTuple):
    """The effect of a mask on a JSON value. ``names`` is the path of the value; "*" in it is the key of its member.

    ``plain``: nothing to mask. ``text``: a text, except a word in ``words``. ``optional_text``: a text that becomes
    null where a mask drops it. ``json``, ``optional_json``: a dynamic value as JSON text. ``name``: a text in which
    masks replace only what a regex finds. ``process_id``: the id of a process.
    ``list``: items of the shape ``of[0]``. ``object``: members of the shape ``of[0]``, whose keys are texts.
    ``digests``: the same, and its keys are the digests of attachments.
    ``members``: the same with keys that are names; a member that a mask drops is left out. ``record``: an object with
    the ``parts``. ``row``: the ``parts`` as a list, in their order. ``facts``: an object of texts and numbers, each
    masked under its own key. ``embedded``: JSON text of an object of the shape ``of[0]``, or else of the shape
    ``of[1]``. ``case``: the value of the field ``names[0]`` beside it chooses one of ``parts``, or else ``of[0]``.
    """

    kind: str
    names: tuple[str, ...] = ()
    of: tuple[Shape, ...] = ()
    parts: Mapping[object, Shape] = MappingProxyType({})
    words: frozenset[str] = frozenset()


JSON_KINDS = frozenset({"json", "optional_json", "embedded"})
"""The kinds of shapes that dynamic values have."""
PLAIN, FACTS, PROCESS_ID = Shape("plain"), Shape("facts"), Shape("process_id")
NAME_OF_LIMIT = Shape("name", ("limits",))


def text(*names: str) -> Shape:
    """Return the shape of a text that a mask finds under ``names``."""
    return Shape("text", names)


def json(*names: str) -> Shape:
    """Return the shape of a dynamic value that a mask finds under ``names``."""
    return Shape("json", names)


def embedded(*of: Shape) -> Shape:
    """Return the shape of JSON text: an object of the first shape, or else a value of the second."""
    return Shape("embedded", of=of)


def case(field: str, shapes: Mapping[object, Shape], otherwise: Shape) -> Shape:
    """Return a shape that depends on the value of ``field``."""
    return Shape("case", (field,), (otherwise,), shapes)


def optional_text(*names: str) -> Shape:
    """Return the shape of a text that becomes null where a mask drops it."""
    return Shape("optional_text", names)


def optional_json(*names: str) -> Shape:
    """Return the shape of a dynamic value that becomes null where a mask drops it."""
    return Shape("optional_json", names)


def members(*names: str) -> Shape:
    """Return the shape of an object of dynamic values, each under ``names`` and its own key."""
    return Shape("members", names, (optional_json(*names, "*"),))


CONTEXT = members("context")
