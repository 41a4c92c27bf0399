"""Untrusted JSON texts: malformed, deep or expensive ones give a value or one typed error."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from any_values import values
from seekpoint.schemas.config.limits import DEFAULT_LIMITS, Limits
from seekpoint.schemas.errors import LimitExceeded, SeekpointError, UndecodableRecord, UnserializableValue
from seekpoint.schemas.values.json_values import check, dump, load

HOSTILE = {
    "nothing": "",
    "not json": "{",
    "nan": "NaN",
    "infinity": "1e400",
    "a lone surrogate": '"\\ud800"',
    "a raw lone surrogate": '"\ud800"',
    "two values": "1 2",
    "unknown tag": '{"$new": 1}',
    "an empty tag": '{"$": 1}',
    "a tag spelt with an escape": '{"\\u0024int": "x"}',
    "no text in an int": '{"$int": 1}',
    "an int that is none": '{"$int": "1_0"}',
    "an int in other digits": '{"$int": "٣"}',
    "an endless int": '{"$int": "%s"}' % ("9" * 5000),
    "no decimal": '{"$decimal": "NaN"}',
    "a decimal beyond all exponents": '{"$decimal": "1E+9999999999999999999"}',
    "no base64": '{"$bytes": "A"}',
    "base64 with junk": '{"$bytes": "A A="}',
    "no moment": '{"$datetime": "2026-13-01"}',
    "a moment spelt otherwise": '{"$datetime": "20260101"}',
    "a fold twice": '{"$datetime": "2026-01-01T00:00:00[fold=1][fold=1]"}',
    "no date": '{"$date": "today"}',
    "a duration beyond all": '{"$timedelta": "99999999999999.000000"}',
    "no uuid": '{"$uuid": "{00000000-0000-0000-0000-000000000001}"}',
    "a tuple of no list": '{"$tuple": {}}',
    "a list in a set": '{"$set": [[1]]}',
    "a dict in a set": '{"$set": [{}]}',
    "a member twice": '{"$set": [1, 1]}',
    "equal members": '{"$set": [1, true]}',
    "an escape of nothing": '{"$object": {"a": 1}}',
    "an escape of a list": '{"$object": []}',
    "a tag with a newer one inside": '[{"$tuple": [{"$future": 1}]}]',
}


class TestUntrusted:
    @pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
    def test_malformed_text_raises_one_typed_error(self, text: str) -> None:
        """check and load raise the same type."""
        with pytest.raises(UndecodableRecord):
            check(text)
        with pytest.raises(UndecodableRecord):
            load(text)

    @pytest.mark.parametrize("depth", [65, 1_000, 1_030, 500_000])
    @pytest.mark.parametrize("closed", [True, False], ids=["closed", "open"])
    @pytest.mark.parametrize("leaf", ["", '"', '{"$int":"1"}'])
    def test_deep_text_never_overflows_the_stack(self, depth: int, closed: bool, leaf: str) -> None:
        """There is neither a RecursionError nor a crash, only typed errors."""
        text = "[" * depth + leaf + "]" * depth * closed
        with pytest.raises((LimitExceeded, UndecodableRecord)):
            check(text)
        with pytest.raises((LimitExceeded, UndecodableRecord)):
            check('{"a":' * depth + text, DEFAULT_LIMITS)

    @pytest.mark.parametrize("text", ["[" * 900 + '{"$int":"1"}' + "]" * 900, '{"a":' * 900 + '"$x"' + "}" * 900])
    def test_load_without_check_does_not_overflow_the_stack_either(self, text: str) -> None:
        """A caller that skips the check gets a typed error."""
        with pytest.raises(UndecodableRecord, match="nested"):
            load(text)

    def test_a_set_with_colliding_hashes_is_refused(self) -> None:
        """Multiples of 2**61 - 1 all hash to 0: a set of n of them would cost n squared."""
        members = ",".join(f'{{"$int":"{factor * (2**61 - 1)}"}}' for factor in range(2, 30_000))
        with pytest.raises(UndecodableRecord, match="collide"):
            check('{"$set":[' + members + "]}")

    @pytest.mark.parametrize("kind", ["$set", "$frozenset"])
    def test_a_set_of_which_a_part_collides_is_refused(self, kind: str) -> None:
        """Members with other hashes do not hide thousands with the same one."""
        odd = [f'{{"$int":"{factor * (2**61 - 1)}"}}' for factor in range(5_000, 25_000)]
        with pytest.raises(UndecodableRecord, match="collide"):
            check(f'{{"{kind}":[' + ",".join([*odd, *map(str, range(1, 30_000))]) + "]}")

    def test_a_set_that_no_reader_takes_is_not_written(self) -> None:
        """As many members as readers take round-trip; one more is refused where it is written."""
        members = {factor * (2**61 - 1) for factor in range(64)}
        assert load(dump(members)) == members
        with pytest.raises(UnserializableValue, match="of one hash"):
            dump(members | {64 * (2**61 - 1)} | set(range(1, 500)))

    def test_the_last_value_of_a_repeated_key_counts(self) -> None:
        """As in JavaScript and in most JSON readers; dump never repeats a key."""
        check('{"a":1,"a":2}')
        assert load('{"a":1,"a":2}') == {"a": 2}

    def test_whitespace_and_key_order_do_not_matter(self) -> None:
        """A reader accepts JSON that is not canonical."""
        text = ' { "b" : [ 1 , { "$tuple" : [ ] } ] , "a" : [ ] } '
        check(text, Limits(items=5, depth=4))
        assert load(text) == {"a": [], "b": [1, ()]}
        with pytest.raises(LimitExceeded):
            check(text, Limits(items=5, depth=3))

    @given(st.text())
    def test_random_text_raises_typed_errors_only(self, text: str) -> None:
        """Hypothesis generates arbitrary texts."""
        read(text)

    @given(st.lists(st.sampled_from([*'[]{},:"\\$ 1a', '"$', "$int", "$set", "$tuple", "null", "\\u0024"])))
    def test_random_json_tokens_raise_typed_errors_only(self, tokens: list[str]) -> None:
        """Sequences of tokens come nearer to JSON than random text."""
        read("".join(tokens))

    @given(values, st.randoms(use_true_random=False))
    def test_mutated_text_raises_typed_errors_only(self, value: Any, chance: random.Random) -> None:
        """Characters of a valid text are dropped, doubled or exchanged."""
        characters = list(dump(value))
        for _ in range(chance.randint(1, 4)):
            place = chance.randrange(len(characters))
            characters[place] = chance.choice(["", characters[place] * 2, chance.choice('[]{},:"\\$0-.eE+x')])
        read("".join(characters))


def read(text: str) -> None:
    """Check and load a text. A text that passes the check must load, and dump must accept its value."""
    try:
        check(text)
    except SeekpointError:
        return
    written = dump(load(text), Limits(depth=128, items=1_000_000))
    assert dump(load(written), Limits(depth=128, items=1_000_000)) == written
