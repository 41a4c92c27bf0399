"""Masking of attachments: their bytes become zeros, and their digests pseudonyms, wherever one stands.

A digest tells whoever guesses the bytes that the guess is right, so it never passes beside masked bytes. Sizes stay, so
the copy folds as the source does. What is masked cannot be read: its digest is that of no bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from seekpoint.consumers.staging.masks.mask_values import Mask
from seekpoint.schemas import bodies as b
from seekpoint.schemas.errors import ReplayRefused

_DIGEST_PARTS = 4


class AttachmentMasks:
    """Masks attachments by the rules for their parts: as a whole if any rule reaches their bytes or their digest."""

    def __init__(self, mask: Mask, process_id: Callable[[str], str]) -> None:
        self._mask = mask
        self._process_id = process_id
        self._is_masked = mask.reaches(("data",)) or mask.reaches(("digest",))

    def part(self, body: b.PartAttached) -> b.PartAttached:
        """Mask a part: its bytes and its digest."""
        digest = self.digest(body.digest)
        return body if digest == body.digest else replace(body, digest=digest, data=bytes(len(body.data)))

    def digest(self, digest: str) -> str:
        """Mask the digest of an attachment. Raises ``ReplayRefused`` if it needs a key."""
        if not self._is_masked:
            return digest
        if not self._mask.has_key:
            raise ReplayRefused(
                "a mask rule reaches attachments, whose digests need pseudonyms: two must not become one",
                hint="give the rules a key_file, or name the kinds of the rule that reaches part_attached",
            )
        return "".join(self._mask.pseudonym(f"{number} {digest}") for number in range(_DIGEST_PARTS))

    def ref_items(self, items: list[Any]) -> list[Any]:
        """Mask what a reference in a value says."""
        digest, size, process_id, *rest = items
        return [self.digest(digest), size, self._process_id(process_id), *rest]
