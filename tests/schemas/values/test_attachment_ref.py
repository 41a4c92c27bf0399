"""References to attachments, as values."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from pydantic import BaseModel

from seekpoint.schemas.errors import UndecodableRecord, UnserializableValue
from seekpoint.schemas.values.attachment_ref import Ref
from seekpoint.schemas.values.json_values import check, dump, load
from seekpoint.schemas.values.value_types import value_type

DIGEST = "0f" * 32
REF = Ref(DIGEST, 5, "case-17", "image/png")


@dataclass
class Report:
    """A model with a reference in it."""

    scan: Ref


class Answer(BaseModel):
    """A pydantic model with a reference in it."""

    scan: Ref


def test_a_reference_may_stand_in_any_value() -> None:
    """Its JSON text says digest, size, process and media type, and whoever loads it gets a reference."""
    value = {"scans": [REF, (REF,)], "ref": {REF}}
    text = dump(value)
    check(text)
    assert load(text) == value


def test_the_text_of_a_reference_is_plain() -> None:
    """Any reader of the topic can find the attachment."""
    assert dump(REF) == f'{{"$attachment":["{DIGEST}",5,"case-17","image/png"]}}'


@pytest.mark.parametrize("kind", [Report, Answer])
def test_a_model_may_have_references(kind: type[Report | Answer]) -> None:
    """It is rebuilt with them."""
    model = kind(scan=REF)
    of = value_type(kind)
    assert of is not None
    assert of.rebuilt(dump(model, with_models=True), "the result") == model


def test_an_annotation_may_be_a_reference() -> None:
    """A step that returns one says so."""
    of = value_type(list[Ref])
    assert of is not None
    assert of.rebuilt(dump([REF]), "the result") == [REF]


@pytest.mark.parametrize(
    "items",
    [
        f'["{DIGEST}",5,"case-17"]',
        f'["{DIGEST}",true,"case-17","image/png"]',
        f'["{DIGEST}",-1,"case-17","image/png"]',
        f'["{DIGEST}",5,"case-17","image/png",""]',
        f'["{DIGEST[1:]}",5,"case-17","image/png"]',
        f'["{DIGEST.upper()}",5,"case-17","image/png"]',
        f'{{"digest":"{DIGEST}"}}',
    ],
)
def test_a_malformed_reference_is_undecodable(items: str) -> None:
    """Nothing is guessed."""
    with pytest.raises(UndecodableRecord):
        load(f'{{"$attachment":{items}}}')


@pytest.mark.parametrize(
    "ref",
    [
        Ref(DIGEST[1:], 5, "case-17"),
        Ref(DIGEST.upper(), 5, "case-17"),
        Ref(DIGEST, -1, "case-17"),
        Ref(DIGEST, True, "case-17"),
        Ref(DIGEST, 5, None),  # type: ignore[arg-type]
    ],
)
def test_a_malformed_reference_is_refused_before_it_is_written(ref: Ref) -> None:
    """Readers would take the entry for poison, and the process for one with a gap."""
    with pytest.raises(UnserializableValue, match="reference") as refused:
        dump({"scan": [ref]})
    assert refused.value.path == "$.scan[0]"
