"""The fold's rules for attachments: a state has what each is and where its parts are, never its bytes.

The parts of an attachment count in the order of their bytes, whoever writes them. A part whose bytes are there already
changes nothing, so two nodes may write the same attachment at once. An attachment whose last part is missing cannot be
read; the next writer of the same bytes goes on where the parts end.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import orjson

from seekpoint.schemas import bodies as b
from seekpoint.schemas.config.limits import Limits
from seekpoint.schemas.folding.content_rules import Misfit, Rule, too_big
from seekpoint.schemas.state.process_state import Draft
from seekpoint.schemas.state.state_json import ATTACHMENT_PART_BYTES, attachment_width
from seekpoint.schemas.state.state_parts import Attachment

ATTACHMENTS_MAX = 1_024
"""How many attachments a process may have at once: every view of its state lists them."""
_DIGEST = re.compile(r"[0-9a-f]{64}").fullmatch
_TEXT_CHARS_MAX = 200
_NO_PART: Misfit = "illegal_attachment", "a part that does not follow the parts that are there"


def _attach(draft: Draft, body: b.PartAttached, limits: Limits) -> Misfit:
    known = draft.attachments.get(body.digest)
    end = body.size if body.store else body.start + len(body.data)
    if known is not None and end <= known.received:
        return None
    if not _follows(known, body, end):
        return _NO_PART
    misfit = None if known is not None else beyond_limits(draft, body.size, limits)
    if misfit is not None:
        return misfit
    if known is None:
        begun = Attachment(body.size, body.media_type[:_TEXT_CHARS_MAX], store=body.store[:_TEXT_CHARS_MAX])
        width = attachment_width(body.digest, begun)
    else:
        begun, width = known, 0
    grown = draft.content_bytes + width + (0 if body.store else ATTACHMENT_PART_BYTES)
    misfit = too_big(grown, limits)
    if misfit is None:
        _put(draft, body, begun, end)
        draft.content_bytes = grown
    return misfit


def _follows(known: Attachment | None, body: b.PartAttached, end: int) -> bool:
    """Return whether the part comes next, and is no part of something else."""
    if known is None:
        is_next = body.start == 0 and _DIGEST(body.digest) is not None and 0 <= body.size < 1 << 62
    else:
        is_next = body.start == known.received and body.size == known.size and not known.store and not body.store
    if body.store:
        return is_next and not body.data
    return is_next and end <= body.size and (len(body.data) > 0 or body.size == 0)


def beyond_limits(draft: Draft, size: int, limits: Limits) -> Misfit:
    """Return the misfit of one more attachment of ``size`` bytes; None if there is room for it."""
    total = draft.attached_bytes + size
    if total > limits.attached_bytes:
        detail = f"the process would have {total} bytes of attachments, {limits.attached_bytes} are allowed"
        return "attachment_limit", detail
    if len(draft.attachments) >= ATTACHMENTS_MAX:
        return "attachment_limit", f"the process has {ATTACHMENTS_MAX} attachments, no more are allowed"
    return None


def _put(draft: Draft, body: b.PartAttached, begun: Attachment, end: int) -> None:
    digest, is_in_log = body.digest, not body.store
    draft.attachments[digest] = Attachment(begun.size, begun.media_type, end, begun.parts + is_in_log, begun.store)
    if is_in_log:
        draft.attached_at[digest] = (*draft.attached_at.get(digest, ()), draft.offset)
    if begun.received == 0 and begun.parts == 0:
        draft.attached_bytes += begun.size


def _detach(draft: Draft, body: b.Detached, limits: Limits) -> Misfit:
    try:
        digests = orjson.loads(body.digests)
        if type(digests) is not list or any(type(digest) is not str for digest in digests):
            raise ValueError("the digests are not a list of texts")
    except ValueError:
        return "illegal_attachment", "no list of digests"
    for digest in digests:
        gone = draft.attachments.pop(digest, None)
        draft.attached_at.pop(digest, None)
        if gone is not None:
            draft.content_bytes -= attachment_width(digest, gone)
            draft.attached_bytes -= gone.size
    return None


ATTACHMENT_RULES: Mapping[type[b.Body], Rule] = {
    b.PartAttached: _attach,
    b.Detached: _detach,
}
