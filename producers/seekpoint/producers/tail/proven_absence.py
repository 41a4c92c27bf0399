"""The processes of a partition that are proven not to exist, so that a new one is opened without a read.

The proof is the rule of an unknown process: it has no checkpoint as of the floor or later, and no record under its key
from that floor on. Without a floor it must have no record in the whole log from offset 0. The proof stays
valid because the tail notes each key that arrives. Too many keys, another leader or forgotten checkpoints end it; then
an open recovers the process first.
"""

from __future__ import annotations

from collections.abc import Iterable

from seekpoint.consumers.recovery.absence_proof import AbsenceProof
from seekpoint.consumers.recovery.recovery_report import Report

_ASK_INTERVAL_S = 10.0
KEYS_MAX = 200_000
"""The most keys that are noted for a partition, about 20 MB."""


class Absence:
    """The proof of one followed partition. ``note`` must get every key that arrives from ``since`` on."""

    def __init__(self, position: int) -> None:
        self._proof: AbsenceProof | None = None
        self._noted: set[bytes | None] = set()
        self.since = position
        """The offset from which on every key was noted."""
        self.asked_at = -_ASK_INTERVAL_S

    def note(self, keys: Iterable[bytes | None]) -> None:
        """Take note of the keys of records that arrived."""
        self._noted.update(keys)
        if len(self._noted) > KEYS_MAX:
            self.forget()

    def forget(self) -> None:
        """End the proof."""
        self._proof, self._noted = None, set()
        self.since = -1

    def restart(self, position: int, now_s: float) -> bool:
        """Begin a new proof: note keys from ``position`` on. False: there is a proof, or one was just asked for."""
        if self._proof is not None or now_s - self.asked_at < _ASK_INTERVAL_S:
            return False
        self.forget()
        self.since, self.asked_at = position, now_s
        return True

    def add(self, proof: AbsenceProof) -> None:
        """Complete the proof by the keys below ``since``. Ignore a proof that stops at another offset."""
        if proof.stop == self.since:
            self._proof = proof

    def report(self, key: bytes, position: int) -> Report | None:
        """Return the report of a recovery that finds no process under ``key`` below ``position``. None: not known."""
        proof = self._proof
        if proof is None or key in self._noted or key in proof.keys or proof.may_have_checkpoint(key):
            return None
        return Report(
            tier=proof.tier,
            seek_point=proof.start,
            log_start=proof.log_start,
            log_end=position,
            entries_scanned=0,
            entries_applied=0,
            bytes=0,
            duration_s=0.0,
            last_kind=None,
        )
