"""The table of a state's fields: one line a field, and everything else follows from it."""

from __future__ import annotations

import importlib.util
import inspect
import json
import re
import sys
import types
from collections.abc import Callable
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any

import msgspec
import pytest

from masking_examples import mask
from seekpoint.consumers.staging.masks import mask_states
from seekpoint.schemas.state import calls, conversation, state_parts
from seekpoint.schemas.state import process_state as shipped
from seekpoint.schemas.state.conversation import Conversation
from seekpoint.schemas.state.mask_shapes import Shape
from seekpoint.schemas.state.state_parts import Degraded, Failure, InvocationState, Lineage
from seekpoint.schemas.state.state_table import Section, StateTable
from seekpoint.schemas.state.state_values import StateValue, encoded, shape_of, size_of, texts_in

DECLARED_BEFORE = "    # --- folds of users' own\n"
ADDED = '    labels: dict[str, str] = field(dict, _OWNERSHIP, form.VALUES, copied="copy")\n'
"""The one line of CONTRIBUTING.md."""


@pytest.fixture(scope="module")
def wider() -> ModuleType:
    """The module of the state with one line more."""
    source = Path(shipped.__file__).read_text()
    assert source.count(DECLARED_BEFORE) == 1
    spec = importlib.util.spec_from_loader("wider_state", loader=None)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["wider_state"] = module
    exec(compile(source.replace(DECLARED_BEFORE, ADDED + DECLARED_BEFORE), "wider_state.py", "exec"), vars(module))
    return module


def test_a_field_is_one_line(wider: ModuleType) -> None:
    """A new line gives a slot with a default, copies, JSON, a hash, a size, dynamic values, a gravestone and a head."""
    draft = wider.Draft()
    assert draft.labels == {}
    bare = draft.snapshot()
    draft.labels["tone"] = '"calm"'
    state = draft.snapshot()
    draft.labels.clear()
    assert state.labels == {"tone": '"calm"'}
    assert wider.State.from_bytes(state.to_bytes()) == state
    assert b'"labels":{"tone":' in state.to_bytes()
    assert b"labels" not in bare.to_bytes()
    assert state.hash != bare.hash
    assert wider.content_width(state) > wider.content_width(bare) == 0
    assert wider.FIELDS.texts_of(state) == ['"calm"']
    head = wider.FIELDS.head_of(state)
    assert head["labels"] == {"tone": '"calm"'}
    assert wider.State.from_json(wider.FIELDS.from_head(head, {})).labels == state.labels


def test_a_field_of_one_line_is_masked(wider: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """The masks of a replay take the shape of each field from the table: here each value by its name in the context."""
    monkeypatch.setattr(mask_states, "_OWNERSHIP", wider.FIELDS.shapes(Section.OWNERSHIP))
    draft = wider.Draft()
    draft.labels = {"tone": '"calm"', "card": '"4711"'}
    found = mask({"path": "context.card", "do": "redact"})
    masked = json.loads(mask_states.StateMasks(found, str).state(draft.freeze().to_bytes().decode()))
    assert masked["ownership"]["labels"]["tone"] == '"calm"'
    assert "4711" not in masked["ownership"]["labels"]["card"]


@pytest.mark.parametrize(
    ("module", "name", "made"),
    [
        (state_parts, "Failure", lambda cls, **more: cls(3, "ValueError", "no", **more)),
        (state_parts, "MailItem", lambda cls, **more: cls(bytes(16), "signal", "go", "1", **more)),
        (calls, "Call", lambda cls, **more: cls("step", 1, "d", "succeeded", 1, 3, "1", **more)),
        (calls, "Obligation", lambda cls, **more: cls("pay:1", "refund", "{}", "open", **more)),
        (conversation, "Message", lambda cls, **more: cls("user", "hello", **more)),
    ],
)
def test_a_field_of_a_value_is_one_line(module: ModuleType, name: str, made: Callable[..., Any]) -> None:
    """A new line gives a value of a state a part in JSON, a size, dynamic values, and a mask; absent is as before."""
    cls = widened(module, name)
    bare, value = made(cls), made(cls, note_json='"4711"')
    assert encoded(bare) == encoded(made(getattr(module, name))).replace(b"null]", b"null,null]")
    assert msgspec.convert(json.loads(encoded(value)), cls) == value != bare
    assert size_of(value) > size_of(bare) or cls.__struct_config__.array_like
    assert '"4711"' in texts_in(value)
    masked = mask_states.StateMasks(mask({"path": "output", "do": "redact"}), str)
    assert "4711" not in str(masked.value(shape_of(cls), json.loads(encoded(value))))


ADDED_TO_VALUE = '    note_json: Annotated[Json | None, Shape("json", ("output",))] = None\n'


def widened(module: ModuleType, name: str) -> Any:
    """Return the class ``name`` of a copy of ``module`` in which it has one line more."""
    source = inspect.getsource(getattr(module, name))
    *_, last = re.finditer(r"    \w+: .*\n", source.partition("    @property")[0])
    wider = (
        source[: last.end()]
        + '    note_json: Annotated[Json | None, Shape("json", ("output",))] = None\n'
        + source[last.end() :]
    )
    made = types.ModuleType(f"wider_{name.lower()}")
    sys.modules[made.__name__] = made
    vars(made)["Shape"] = Shape
    exec(compile(Path(module.__file__ or "").read_text().replace(source, wider), made.__name__, "exec"), vars(made))
    return getattr(made, name)


def test_every_default_of_a_value_is_left_out_of_its_json() -> None:
    """Two equal values have equal bytes: msgspec leaves out only a default that is the same object."""
    for cls in StateValue.__subclasses__():
        assert all(default in (None, False, 0, "") for default in cls.__struct_defaults__)


def test_a_text_without_a_shape_is_refused() -> None:
    """No text of a user passes a replay because a declaration forgot it."""

    class Careless(StateValue, frozen=True):
        text: str

    with pytest.raises(TypeError, match=r"Careless\.text needs a Shape"):
        dict(shape_of(Careless).parts)


@pytest.mark.parametrize("cls", [one for one in StateValue.__subclasses__() if one.__module__.startswith("seekpoint.")])
def test_every_text_in_a_state_has_a_shape(cls: type[StateValue]) -> None:
    """The shapes are read when a mask first looks at them: a text without one has to be noticed before."""
    assert dict(shape_of(cls).parts).keys() == set(cls.__struct_encode_fields__)


def test_a_new_state_has_every_default() -> None:
    """Constructor and table agree; mutable defaults are not shared."""
    one, other = shipped.Draft(), shipped.Draft()
    for each in shipped.FIELDS.fields:
        assert getattr(one, each.name) == each.new()
        assert (getattr(one, each.name) is getattr(other, each.name)) is not callable(each.default)


def test_a_value_that_is_not_copied_cannot_be_written_on() -> None:
    """A state and the draft it was made of share such a value."""
    frozen = (int, str, tuple, bytes, type(None), MappingProxyType, Lineage, Degraded, Failure, InvocationState)
    for each in shipped.FIELDS.fields:
        if each.copied is None:
            assert isinstance(each.new(), (*frozen, Conversation)), each.name


def test_keys_and_names_are_unique() -> None:
    """The head of a view's row has the keys of all sections beside each other."""
    keys = [key for section in Section for key in shipped.FIELDS.shapes(section)]
    assert len(keys) == len(set(keys))
    assert len(set(shipped.FIELDS.names)) == len(shipped.FIELDS.names)


def test_a_table_makes_a_class() -> None:
    """Another table gives another class with the same machinery."""
    table = StateTable([one for one in shipped.FIELDS.fields if one.section is Section.COUNTERS])
    made = table.make_class("Counters")()
    made.lost_claims = 2
    assert table.counters_of(table.copy(made))["lost_claims"] == 2
