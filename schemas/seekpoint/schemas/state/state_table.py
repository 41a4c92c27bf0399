"""The machinery behind the table of a state's fields: ``Draft`` declares each field in one line, this makes the code.

From the declarations a ``StateTable`` makes the constructor, the copy, the JSON of each section, the reader of that
JSON, the size of the content and the list of dynamic values. The constructor, the copy and the writers are compiled
from the declarations, because they run for every entry or every checkpoint; a loop would take several times as long.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from functools import cached_property
from typing import Any, TypeVar

from msgspec.structs import replace

from seekpoint.schemas.frozen_struct import FrozenStruct
from seekpoint.schemas.state.mask_shapes import PLAIN, Shape
from seekpoint.schemas.state.state_values import compiled

_C = TypeVar("_C")


class Section(Enum):
    """The part of a state's JSON in which a field stands."""

    CONTENT = "content"
    """Restored by a rewind and a fork; compared by ``content_hash`` and ``hash``."""
    OWNERSHIP = "ownership"
    """Compared by ``hash`` only."""
    COUNTERS = "counters"
    """Compared by neither hash."""
    WHOLE = "whole"
    """Beside the sections; compared by neither hash."""
    COMPUTED = "computed"
    """Not in the JSON: computed from the other fields."""


class Cleared(Enum):
    """When a field gets its default back."""

    NEVER = "never"
    AT_THE_END = "when the process finishes"
    WITH_CONTENT = "when the content of a finished process is dropped"


class FieldForm(FrozenStruct, frozen=True):
    """The ways in which the value of a field is written, read, masked and measured."""

    read: Callable[[Any], Any]
    """Raises ``ValueError``, ``LookupError`` or ``TypeError`` for JSON that this code did not write; gets no null."""
    write: Callable[[Any], Any] | None = None
    """None: the value is its own JSON."""
    shape: Shape = PLAIN
    width: Callable[[Any], int] | None = None
    """The bytes of a value that differs from None, as part of ``content_bytes``. None: the value is not counted."""
    texts: Callable[[Any], Iterable[str | None]] | None = None
    """The dynamic values in it, as JSON texts."""


class Image(FrozenStruct, frozen=True):
    """A second key under which part of a field is written."""

    section: Section
    key: str
    form: FieldForm
    """``read`` gives what ``merge`` takes."""
    merge: Callable[[Any, Any], None]


class StateField(FrozenStruct, frozen=True):
    """One row of the table."""

    name: str
    section: Section
    form: FieldForm
    default: Any
    key: str
    always: bool
    cleared: Cleared
    restored: bool
    copied: str | None
    apart: bool
    image: Image | None

    def new(self) -> Any:
        """Return the value in a new state."""
        return self.default() if callable(self.default) else self.default


def field(
    default: Any,
    section: Section,
    form: FieldForm,
    *,
    key: str = "",
    always: bool = False,
    cleared: Cleared = Cleared.NEVER,
    restored: bool | None = None,
    copied: str | None = None,
    apart: bool = False,
    image: Image | None = None,
) -> Any:
    """Declare a field of a state in the body of a class under ``state_class``.

    ``default``: the value in a new state, or what makes it. ``key``: the key in the JSON if it is not the field's name.
    ``always``: written even at its default. ``restored``: a rewind or fork replaces it (default: all content).
    ``copied``: the method that copies a mutable value; a state shows such a value read-only. ``apart``: a view keeps
    the value beside the head of its row because it can be large. ``image``: a second key with a part of the value.
    """
    is_restored = section is Section.CONTENT if restored is None else restored
    return StateField("", section, form, default, key, always, cleared, is_restored, copied, apart, image)


def state_class(cls: type[_C]) -> type[_C]:
    """Give ``cls`` slots for its fields, a constructor without parameters, and the ``TABLE`` of its fields."""
    declared = {name: one for name, one in vars(cls).items() if isinstance(one, StateField)}
    table = StateTable(replace(one, name=name, key=one.key or name) for name, one in declared.items())
    body = {name: one for name, one in vars(cls).items() if name not in {*declared, "__dict__", "__weakref__"}}
    made: type[_C] = table.make_class(cls.__name__, cls.__bases__, body)
    return made


class StateTable:
    """The fields of a state, and what follows from them."""

    def __init__(self, fields: Iterable[StateField]) -> None:
        self.fields = tuple(fields)
        self.names = tuple(one.name for one in self.fields)
        self._images = [(one, one.image) for one in self.fields if one.image is not None]
        self._made: type[Any] = object

    def make_class(self, name: str, bases: tuple[type[Any], ...] = (), body: Mapping[str, Any] | None = None) -> Any:
        """Make the class whose objects have these fields."""
        names = {"__slots__": self.names, "__init__": self._constructor(), "TABLE": self}
        self._made = type(name, bases, {**(body or {}), **names})
        return self._made

    def in_section(self, section: Section) -> tuple[StateField, ...]:
        """Return the fields of ``section``."""
        return tuple(one for one in self.fields if one.section is section)

    def images(self, section: Section) -> list[tuple[StateField, Image]]:
        """Return the fields that have a second key in ``section``, with that key."""
        return [(one, image) for one, image in self._images if image.section is section]

    # --- constructor and copy
    def _constructor(self) -> Callable[..., None]:
        names, lines = {}, []
        for one in self.fields:
            names[f"_{one.name}"] = one.default
            lines.append(f"self.{one.name} = _{one.name}{'()' if callable(one.default) else ''}")
        return compiled("__init__", "self", lines, names)

    @cached_property
    def copy(self) -> Callable[[Any], Any]:
        """Return a copy of a state or draft, to be written on; only what can be written on is copied deeper."""
        names: dict[str, Any] = {"_new": object.__new__, "_class": self._made}
        lines = ["copy = _new(_class)"]
        for one in self.fields:
            if one.copied is None:
                lines.append(f"copy.{one.name} = source.{one.name}")
            else:  # past the read-only property of a frozen state
                names[f"_{one.name}"] = getattr(self._made, one.name).__get__
                lines.append(f"copy.{one.name} = _{one.name}(source).{one.copied}()")
        return compiled("copy", "source", [*lines, "return copy"], names)

    # --- JSON
    @cached_property
    def content_of(self) -> Callable[[Any], dict[str, Any]]:
        """Return what a rewind or a fork restores, and ``content_hash`` compares, as JSON values."""
        return self._writer(Section.CONTENT)

    @cached_property
    def ownership_of(self) -> Callable[[Any], dict[str, Any]]:
        """Return the rest of what ``hash`` compares, as JSON values."""
        return self._writer(Section.OWNERSHIP)

    @cached_property
    def counters_of(self) -> Callable[[Any], dict[str, Any]]:
        """Return the counters."""
        return self._writer(Section.COUNTERS)

    @cached_property
    def whole_of(self) -> Callable[[Any], dict[str, Any]]:
        """Return what stands beside the sections, as JSON values."""
        return self._writer(Section.WHOLE)

    @cached_property
    def head_of(self) -> Callable[[Any], dict[str, Any]]:
        """Return every field that is not kept apart and differs from its default, as JSON values by key."""
        names: dict[str, Any] = {}
        lines = ["made = {}"]
        for one in self.fields:
            if one.section is not Section.COMPUTED and not one.apart:
                lines += _omitting(one, names)
        lines += [line for section in Section for line in self._image_lines(section, names)]
        return compiled("head_of", "state", [*lines, "return made"], names)

    def _writer(self, section: Section) -> Callable[..., dict[str, Any]]:
        names: dict[str, Any] = {}
        fields = self.in_section(section)
        always = ", ".join(f"{one.key!r}: {_written(one, names, f'state.{one.name}')}" for one in fields if one.always)
        lines = [f"made = {{{always}}}"]
        for one in fields:
            if not one.always:
                lines += _omitting(one, names)
        lines += self._image_lines(section, names)
        return compiled("write", "state", [*lines, "return made"], names)

    def _image_lines(self, section: Section, names: dict[str, Any]) -> list[str]:
        lines = []
        for one, image in self.images(section):
            names[f"_image_{one.name}"] = image.form.write
            lines += [f"value = _image_{one.name}(state.{one.name})", f"if value: made[{image.key!r}] = value"]
        return lines

    def restore(self, draft: Any, section: Section, found: Mapping[str, Any]) -> None:
        """Put the fields of ``section`` into ``draft``, a new one. A key that may be left out means the default.

        ``ValueError``, ``LookupError`` or ``TypeError`` if ``found`` was not written by this code.
        """
        self._readers[section](draft, found)

    @cached_property
    def _readers(self) -> dict[Section, Callable[[Any, Mapping[str, Any]], None]]:
        return {section: self._reader(section) for section in Section}

    def _reader(self, section: Section) -> Callable[..., None]:
        names: dict[str, Any] = {}
        lines = ["pass"]
        for one in self.in_section(section):
            names[f"_read_{one.name}"] = one.form.read
            if not one.always:
                lines.append(f"if {one.key!r} in found:")
            value, indent = f"found[{one.key!r}]", "" if one.always else "    "
            if one.default is None:
                lines.append(f"{indent}if {value} is not None: draft.{one.name} = _read_{one.name}({value})")
            else:
                lines.append(f"{indent}draft.{one.name} = _read_{one.name}({value})")
        for one, image in self.images(section):
            names |= {f"_merge_{one.name}": image.merge, f"_image_{one.name}": image.form.read}
            merged = f"_merge_{one.name}(draft.{one.name}, _image_{one.name}(found[{image.key!r}]))"
            lines.append(f"if {image.key!r} in found: {merged}")
        return compiled("restore", "draft, found", lines, names)

    def from_head(self, head: Mapping[str, Any], apart: Mapping[str, Any]) -> dict[str, Any]:
        """Return the JSON of a whole state from what ``head_of`` gave, and from the values kept apart, by key."""
        given = {**{key: head[key] for key in self._head_keys if key in head}, **apart}
        whole: dict[str, Any] = {}
        for section in (Section.CONTENT, Section.OWNERSHIP, Section.COUNTERS, Section.WHOLE):
            part = whole if section is Section.WHOLE else whole.setdefault(section.value, {})
            for one in self.in_section(section):
                if one.key in given:
                    part[one.key] = given[one.key]
                elif one.always:
                    part[one.key] = _as_json(one, one.new())
            part.update((image.key, given[image.key]) for _, image in self.images(section) if image.key in given)
        return whole

    @cached_property
    def _head_keys(self) -> tuple[str, ...]:
        kept = [one for one in self.fields if one.section is not Section.COMPUTED]
        images = [one.image.key for one in kept if one.image is not None]
        return (*(one.key for one in kept if not one.apart), *images)

    # --- sizes, texts, masks
    def content_width(self, draft: Any) -> int:
        """Return the bytes of all fields that count as content."""
        return sum(width(value) for name, width in self._widths if (value := getattr(draft, name)) is not None)

    @cached_property
    def _widths(self) -> list[tuple[str, Callable[[Any], int]]]:
        return [(one.name, one.form.width) for one in self.fields if one.form.width is not None]

    def texts_of(self, draft: Any) -> list[str]:
        """Return every dynamic value, as JSON text."""
        found: list[str] = []
        for name, texts in self._texts:
            value = getattr(draft, name)
            if value is not None:
                found += [text for text in texts(value) if text is not None]
        return found

    @cached_property
    def _texts(self) -> list[tuple[str, Callable[[Any], Iterable[str | None]]]]:
        return [(one.name, one.form.texts) for one in self.fields if one.form.texts is not None]

    def shapes(self, section: Section) -> dict[str, Shape]:
        """Return the shape of each key in ``section``."""
        shapes = {one.key: one.form.shape for one in self.in_section(section)}
        return shapes | {image.key: image.form.shape for _, image in self.images(section)}


def _as_json(one: StateField, value: Any) -> Any:
    return value if value is None or one.form.write is None else one.form.write(value)


def _written(one: StateField, names: dict[str, Any], value: str) -> str:
    """Return the expression that writes ``value``; put its writer into ``names``."""
    if one.form.write is None:
        return value
    names[f"_write_{one.name}"] = one.form.write
    written = f"_write_{one.name}({value})"
    return f"None if {value} is None else {written}" if one.default is None else written


def _omitting(one: StateField, names: dict[str, Any]) -> list[str]:
    """Return the lines that write a field if it differs from its default."""
    default = one.new()
    if default is None:
        test = "value is not None"
    elif not default:
        test = "value"
    else:
        names[f"_default_{one.name}"] = default
        test = f"value is not _default_{one.name} and value != _default_{one.name}"
    written = "value"
    if one.form.write is not None:
        names[f"_write_{one.name}"] = one.form.write
        written = f"_write_{one.name}(value)"
    return [f"value = state.{one.name}", f"if {test}: made[{one.key!r}] = {written}"]
