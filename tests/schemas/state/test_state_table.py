"""The table of a state's fields: one line a field, and everything else follows from it."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import MappingProxyType, ModuleType

import pytest

from masking_examples import mask
from seekpoint.consumers.staging.masks import mask_states
from seekpoint.schemas.state import process_state as shipped
from seekpoint.schemas.state.conversation import Conversation
from seekpoint.schemas.state.state_parts import Degraded, Failure, InvocationState, Lineage
from seekpoint.schemas.state.state_table import Section, StateTable

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


def test_the_masks_know_every_shape() -> None:
    """A shape that no mask knows would stop a replay."""
    for section in (Section.CONTENT, Section.OWNERSHIP, Section.WHOLE):
        kinds = {shape.kind for shape in shipped.FIELDS.shapes(section).values()}
        assert kinds <= {*GENERIC, *OWN_FORMS}


GENERIC = ("plain", "text", "optional_text", "json", "list", "object", "row", "record")
OWN_FORMS = ("context", "message", "process_id", "call", "mail", "budget", "degraded", "folds")


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
