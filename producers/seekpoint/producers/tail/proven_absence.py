"""Which processes of a partition are proven not to exist, so that a new one is opened without a read.

The proof is the rule of "unknown process": no checkpoint of it in the partition of checkpoints, as of the floor or
later, and no record under its key from that floor on. Where there is no floor: none in the whole log from offset 0.
The lane that is followed goes on with the second half: each key that comes is noted. Whatever is not certain any more
(too many keys, another leader, checkpoints that were forgotten) ends the proof, and opens take the ordinary way.
"""

from __future__ import annotations

from collections.abc import Iterable

from seekpoint.consumers.recovery.absence_proof import AbsenceProof
from seekpoint.consumers.recovery.recovery_report import Report

__all__ = ["Absence"]

_ASK_INTERVAL_S = 10.0
KEYS_MAX = 200_000
"""So many keys a partition are noted: some 20 MB."""


class Absence:
    """What is known of one followed partition. ``note`` everything that comes, from the lane's beginning on."""

    def __init__(self, position: int) -> None:
        self._proof: AbsenceProof | None = None
        self._noted: set[bytes | None] = set()
        self.since = position
        """Every key from here on was noted."""
        self.asked_at = -_ASK_INTERVAL_S

    def note(self, keys: Iterable[bytes | None]) -> None:
        """Records under these keys came."""
        self._noted.update(keys)
        if len(self._noted) > KEYS_MAX:
            self.forget()

    def forget(self) -> None:
        """Nothing is proven any more."""
        self._proof, self._noted = None, set()
        self.since = -1

    def restart(self, position: int, now_s: float) -> bool:
        """Note keys from here on: the first half of a new proof. False: there is one, or it was asked for just now."""
        if self._proof is not None or now_s - self.asked_at < _ASK_INTERVAL_S:
            return False
        self.forget()
        self.since, self.asked_at = position, now_s
        return True

    def add(self, proof: AbsenceProof) -> None:
        """The second half: what there is below ``since``. One of another beginning is not looked at."""
        if proof.stop == self.since:
            self._proof = proof

    def report(self, key: bytes, position: int) -> Report | None:
        """That there is no process under ``key`` below ``position``: the report of its recovery. None: not known."""
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
