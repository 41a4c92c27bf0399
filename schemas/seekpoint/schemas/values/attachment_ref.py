"""References to attachments: what stands in a value for bytes that are too large for it.

In JSON text a reference is ``{"$attachment": [digest, size, process id, media type]}``. Where the bytes are, in entries
or in a blob store, is in the state of the process: the same bytes have the same reference.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from seekpoint.schemas.frozen_struct import FrozenStruct, built

DEFAULT_MEDIA_TYPE = "application/octet-stream"
_DIGEST = re.compile(r"[0-9a-f]{64}").fullmatch


class Ref(FrozenStruct, frozen=True):
    """A reference to an attachment. It may stand in any value: context, messages, records, arguments and results.

    ``process.attach`` makes it, ``read_attachment`` of a process or of a node gives the bytes.
    """

    digest: str
    """The SHA-256 of the bytes, in hex."""
    size: int
    """How many bytes they are."""
    process_id: str
    """The process that the attachment belongs to."""
    media_type: str = DEFAULT_MEDIA_TYPE

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        """Let a reference be a member of a pydantic model, which writes it as an object of its members."""
        from pydantic_core import core_schema

        return core_schema.no_info_plain_validator_function(_validated)


def _validated(value: Any) -> Ref:
    if isinstance(value, Ref):
        return value
    try:
        return msgspec.convert(value, built(Ref), strict=True)
    except msgspec.ValidationError as exc:
        raise ValueError(str(exc)) from exc


def ref_items(ref: Ref) -> list[Any]:
    """Return the items that JSON has of a reference."""
    return [ref.digest, ref.size, ref.process_id, ref.media_type]


def read_ref(items: list[Any]) -> Ref:
    """Return the reference of ``ref_items``. Raises ``ValueError`` for other items."""
    match items:
        case [str(digest), int(size), str(process_id), str(media_type)] if _DIGEST(digest):
            if type(size) is int and size >= 0:
                return Ref(digest, size, process_id, media_type)
    raise ValueError("no digest, size, process id and media type")
