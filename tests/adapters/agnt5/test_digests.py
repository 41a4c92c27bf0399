"""The digests are the SDK's, bit for bit: by golden values, and compared with the SDK for values of every kind."""

from __future__ import annotations

import base64
import math
import struct
from hashlib import sha256
from typing import Any, cast

import pytest
from agnt5 import Context
from agnt5.activation import (
    ActivationDefinition,
    ActivationKind,
    UInt64,
    activation_definition_digest,
    canonical_activation_value,
    stable_step_key,
)
from agnt5.activation import activation_id as sdk_activation_id
from agnt5.exceptions import ActivationError
from agnt5.lm import Message
from agnt5.memoization import MemoizationManager
from hypothesis import given, settings
from hypothesis import strategies as st

from seekpoint.adapters.agnt5 import (
    activation_id,
    canonical_value,
    content_hash,
    definition_digest,
    input_digest,
    step_key,
)
from seekpoint.errors import UnserializableValue

ARTIFACT = base64.b64decode("0lJSBAIElTtKmSY0S/XeONW7020B5x6yW0xopTX5kkg=")
CONFIG = b'["object",[]]'

names = st.text(max_size=12)
leaves = (
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])) | st.binary(max_size=20)
    | st.integers(0, 2**64 - 1).map(UInt64)
)  # fmt: skip
keys = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
values = st.recursive(leaves, lambda inner: st.lists(inner) | st.dictionaries(keys, inner), max_leaves=20)


@settings(max_examples=60, deadline=None)
@given(values)
def test_a_canonical_value_is_the_one_of_the_sdk(value: Any) -> None:
    """Unsigned integers are those of the SDK's type."""
    expected = canonical_activation_value(value)
    assert canonical_value(value, unsigned=UInt64) == expected
    assert input_digest(value, unsigned=UInt64) == sha256(expected).digest()


def test_canonical_values_have_golden_forms() -> None:
    """The frozen vectors of the protocol; minus zero is zero, and keys are sorted."""
    golden = [
        (None, b'["null"]'),
        (True, b'["bool",true]'),
        (-42, b'["i64","-42"]'),
        (UInt64(2**64 - 1), b'["u64","18446744073709551615"]'),
        (1.0, b'["f64","3ff0000000000000"]'),
        (-0.0, b'["f64","0000000000000000"]'),
        ("café/", '["string","café/"]'.encode()),
        (b"\x00\xff", b'["bytes","AP8"]'),
        (bytearray(b"\x00"), b'["bytes","AA"]'),
        ((None, False), b'["array",[["null"],["bool",false]]]'),
        ({"name": "a", "count": 2}, b'["object",[["count",["i64","2"]],["name",["string","a"]]]]'),
    ]
    for value, expected in golden:
        assert canonical_value(value, unsigned=UInt64) == expected == canonical_activation_value(value)


@pytest.mark.parametrize(
    ("value", "path"),
    [
        (math.nan, "$"), ([math.inf], "$[0]"), ({"a": [0, -math.inf]}, "$.a[1]"), ({"n": 2**63}, "$.n"),
        ({1: "bad"}, "$"), ("\ud800", "$"), ({"\ud800": 1}, "$"), ({"o": object()}, "$.o"), (-(2**63) - 1, "$"),
    ],
)  # fmt: skip
def test_what_the_sdk_refuses_is_refused_with_the_path(value: Any, path: str) -> None:
    """It names where in the value."""
    with pytest.raises(ActivationError):
        canonical_activation_value(value)
    with pytest.raises(UnserializableValue) as refused:
        canonical_value(value)
    assert refused.value.path == path


@settings(max_examples=60, deadline=None)
@given(names, names, names, st.sampled_from(list(ActivationKind)), names)
def test_an_activation_id_is_the_one_of_the_sdk(project: str, run: str, parent: str, kind: Any, key: str) -> None:
    """Of any text, and of each kind."""
    expected = sdk_activation_id(project, run, parent, kind, key)
    assert activation_id(project, run, parent, int(kind), key) == expected
    assert expected.startswith("actv1_")


def test_identities_and_definitions_have_golden_values() -> None:
    """The frozen vectors of the protocol."""
    digest = definition_digest(ARTIFACT, "workflow", "v1", CONFIG)
    assert base64.b64encode(digest) == b"iTziD0lZ9kXRtq7RUj58/nzuTDQQtdgYp+MDNrAGVmw="
    assert digest == ActivationDefinition(ARTIFACT, "workflow", "v1", CONFIG).digest
    found = activation_id("project-1", "run-1", "parent-1", 1, "step/load")
    assert found == "actv1_9LU0V32sQX2U3CaQSCW37t-WWSvBAe04qTWqTD6mN-w"


@settings(max_examples=60, deadline=None)
@given(st.binary(min_size=32, max_size=32), names, names, values.map(canonical_activation_value))
def test_a_definition_digest_is_the_one_of_the_sdk(artifact: bytes, name: str, version: str, config: bytes) -> None:
    """With every canonical configuration."""
    expected = activation_definition_digest(artifact, name, version, config)
    assert definition_digest(artifact, name, version, config) == expected


@pytest.mark.parametrize(
    ("artifact", "config"),
    [(b"short", CONFIG), (ARTIFACT, b"{"), (ARTIFACT, b'["object", []]'), (ARTIFACT, b"\xff")],
)
def test_a_definition_that_the_sdk_refuses_is_refused(artifact: bytes, config: bytes) -> None:
    """An artifact digest of another length, no JSON, JSON with spaces, no UTF-8."""
    with pytest.raises(ActivationError):
        activation_definition_digest(artifact, "workflow", "v1", config)
    with pytest.raises(UnserializableValue):
        definition_digest(artifact, "workflow", "v1", config)


@settings(max_examples=60, deadline=None)
@given(st.text(min_size=1), st.integers(0, 1_000), st.none() | st.text(min_size=1))
def test_a_step_key_is_the_one_of_the_sdk(name: str, ordinal: int, key: str | None) -> None:
    """By the number of the step, or by its own key."""
    assert step_key(name, ordinal, key) == stable_step_key(name, ordinal, key)


@pytest.mark.parametrize(("name", "ordinal", "key"), [("", 0, None), ("load", -1, None), ("load", 0, "")])
def test_a_step_key_that_the_sdk_refuses_is_refused(name: str, ordinal: int, key: str | None) -> None:
    """No name, a negative number, an empty key."""
    with pytest.raises(ActivationError):
        stable_step_key(name, ordinal, key)
    with pytest.raises(UnserializableValue):
        step_key(name, ordinal, key)


@settings(max_examples=60, deadline=None)
@given(names, st.lists(names, max_size=3), st.none() | st.floats(0, 2), st.none() | st.integers(1, 9_999))
def test_the_hash_of_a_model_call_is_the_one_of_the_sdk(
    model: str, said: list[str], temperature: float | None, most: int | None
) -> None:
    """It covers the model, roles and contents, the temperature and the most tokens."""
    messages = [Message.user(text) for text in said]
    memo = MemoizationManager(cast(Any, None))
    config = {"temperature": temperature, "max_tokens": most, "top_p": 0.5}
    key, expected = memo.lm_call_key(model, messages, config)
    asked = [{"role": "user", "content": text} for text in said]
    found = content_hash({"model": model, "messages": asked, "temperature": temperature, "max_tokens": most})
    assert (found, key) == (expected, "lm.0")


def test_the_hash_of_a_tool_call_is_the_one_of_the_sdk() -> None:
    """Values that JSON does not have count by their text."""
    memo = MemoizationManager(Context("run", "c", "p"))
    arguments = {"at": struct, "q": "shoes"}
    key, expected = memo.tool_call_key("search", arguments)
    assert (content_hash({"tool": "search", "args": arguments}), key) == (expected, "tool.search.0")
