"""Replace the large texts of a request by references to attachments, so that it fits into an entry: images, scans.

The digest of a decision is that of the whole request. So the references, which name the process, change no identity.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Any

import msgspec

from seekpoint.schemas.config.limits import Limits
from seekpoint.schemas.values.attachment_ref import DEFAULT_MEDIA_TYPE, Ref

_SHARE = 16
"""An entry keeps this part of its bytes free for all that is beside the request; a text of this size is large."""


def is_too_large(text: str, limits: Limits) -> bool:
    """Whether the JSON text of a request does not fit into an entry."""
    room = limits.record_bytes - limits.record_bytes // _SHARE
    return len(text) * 4 > room and len(text.encode()) > room


def with_references(value: Any, process_id: str, limits: Limits, attached: dict[Ref, bytes]) -> Any:
    """Return a value of JSON with references in place of its large texts and bytes, which go into ``attached``."""
    if isinstance(value, Mapping):
        return {name: with_references(member, process_id, limits, attached) for name, member in value.items()}
    if isinstance(value, list):
        return [with_references(member, process_id, limits, attached) for member in value]
    if isinstance(value, Ref):  # in the record of a fork it names the process that the call was made in
        return msgspec.structs.replace(value, process_id=process_id)
    if not isinstance(value, str | bytes):
        return value
    data = value.encode() if isinstance(value, str) else value
    if len(data) < limits.record_bytes // _SHARE:
        return value
    media_type = DEFAULT_MEDIA_TYPE if data is value else "text/plain; charset=utf-8"
    ref = Ref(sha256(data).hexdigest(), len(data), process_id, media_type)
    attached[ref] = data
    return ref
