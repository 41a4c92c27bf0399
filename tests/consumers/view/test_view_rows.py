"""The heads and the sums of view rows."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from seekpoint.consumers.view.view_rows import field_sum, head_of, sum_text
from seekpoint.schemas.state.process_state import Draft
from seekpoint.schemas.state.state_parts import Attachment


def test_a_head_does_not_grow_with_attachments() -> None:
    """Each write of a process has its head, whatever the write changes."""
    draft = Draft()
    for number in range(1_024):
        draft.attachments[f"{number:064x}"] = Attachment(200_000, "image/png", 200_000, 1)
        draft.attached_at[f"{number:064x}"] = (number,)
    assert len(head_of(draft.freeze())) < 200


def test_two_fields_that_exchange_their_values_change_the_sum() -> None:
    """For these two values of one length the sums of seeded CRCs are equal."""
    right = field_sum([b"key-71107", b'"37953474"', b"key-294940", b'"70663294"'])
    exchanged = field_sum([b"key-71107", b'"70663294"', b"key-294940", b'"37953474"'])
    assert sum_text(right) != sum_text(exchanged)


@given(st.dictionaries(st.binary(max_size=9), st.binary(min_size=1, max_size=9), min_size=1, max_size=6), st.data())
def test_a_sum_follows_its_fields_in_any_order(fields: dict[bytes, bytes], data: st.DataObject) -> None:
    """The sum minus the former field plus the new field is the sum of the new row."""
    name = data.draw(st.sampled_from(sorted(fields)))
    value = data.draw(st.binary(min_size=1, max_size=9))
    after = fields | {name: value}
    changed = field_sum(_flat(fields)) - field_sum([name, fields[name]]) + field_sum([name, value])
    assert sum_text(changed) == sum_text(field_sum(_flat(dict(reversed(after.items())))))
    assert (sum_text(changed) == sum_text(field_sum(_flat(fields)))) is (value == fields[name])


def _flat(fields: dict[bytes, bytes]) -> list[str | bytes]:
    return [part for pair in fields.items() for part in pair]
