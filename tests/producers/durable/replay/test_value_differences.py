"""The first difference of two values, in words."""

from __future__ import annotations

from seekpoint.producers.durable.replay.value_differences import first_difference


def test_the_first_difference_is_named() -> None:
    """Nothing where they are equal; a type counts."""
    assert first_difference({"a": [1, {"b": 2}]}, {"a": [1, {"b": 2}]}) is None
    assert first_difference([1, 2], [1]) == "$[1]: 2 is gone"
    assert first_difference({"a": 1}, {}) == "$.a: 1 is gone"
    assert first_difference(True, 1) == "$: true is now 1"
