"""Any value that can be written, for hypothesis: every type, and dicts that look like its tags."""

from __future__ import annotations

from datetime import timedelta, timezone
from typing import Any

from hypothesis import strategies as st

__all__ = ["values"]

fixed_zones = st.none() | st.integers(-86_399, 86_399).map(lambda seconds: timezone(timedelta(seconds=seconds)))
scalars: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(2**53 - 2, 2**53 + 2),
    st.integers(-(10**200), 10**200),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(),
    st.sampled_from(["$int", "$", "\\u0024", '"$', "\\", ""]),
    st.binary(),
    st.decimals(allow_nan=False, allow_infinity=False),
    st.datetimes(timezones=fixed_zones),
    st.times(timezones=fixed_zones),
    st.builds(lambda moment: moment.replace(fold=1), st.datetimes()),
    st.dates(),
    st.timedeltas(),
    st.uuids(),
)
hashable = st.recursive(
    scalars, lambda inner: st.frozensets(inner, max_size=4) | st.lists(inner, max_size=4).map(tuple), max_leaves=8
)
keys = st.text() | st.sampled_from(["$int", "$tuple", "$object", "$new", "$", "$decimal"])
values: st.SearchStrategy[Any] = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=5),
        st.lists(inner, max_size=5).map(tuple),
        st.dictionaries(keys, inner, max_size=5),
        st.sets(hashable, max_size=5),
        st.frozensets(hashable, max_size=5),
    ),
    max_leaves=25,
)
