"""The copy loop: what is read is treated, waits until it is due, is sent, and is counted once it is acknowledged."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from zlib import crc32

from seekpoint.consumers.staging.control import Control
from seekpoint.consumers.staging.copy.copy_stats import CopyStats, Settled
from seekpoint.consumers.staging.copy.generations import Generations
from seekpoint.consumers.staging.copy.headers import OFFSET, TIMESTAMP, HeaderRules, Provenance
from seekpoint.consumers.staging.copy.merge import Feed
from seekpoint.consumers.staging.copy.pace import Pace, Schedule
from seekpoint.consumers.staging.copy.partitioning import Partitioner
from seekpoint.consumers.staging.copy.tallies import MASK, NO_KEY, NO_VALUE, record_sum
from seekpoint.consumers.staging.copy.transform import Transform
from seekpoint.consumers.staging.replay_ports import OffsetRange, Reading, Sender
from seekpoint.consumers.staging.resume.resumption import Delivered
from seekpoint.schemas.errors import JournalUnavailable

__all__ = ["Copier"]

_BATCH_RECORDS = 1_000
_TAKE_S = 0.1
_SLICE_S = 0.05
_SHOW_S = 0.2
_LOOK_S = 0.02
"""How often a paced copy looks for what came in meanwhile."""
_WAIT_FULL_S = 0.01


class Copier:
    """Copies stretches. Blocks; one thread's. ``on_settled`` is told what to keep, ``on_progress`` each generation."""

    def __init__(
        self,
        stretches: Sequence[OffsetRange],
        reading: Reading,
        sender: Sender,
        partitioner: Partitioner,
        provenance: Provenance,
        *,
        headers: HeaderRules,
        treatment: Transform | None = None,
        pace: Pace | None = None,
        control: Control | None = None,
        delivered: Delivered | None = None,
        flow: CopyStats | None = None,
        tail: Callable[[], Mapping[int, int]] = dict,
        on_settled: Callable[[Settled], None] = lambda settled: None,
        on_progress: Callable[[CopyStats], None] = lambda flow: None,
        silence_max_s: float = 60.0,
    ) -> None:
        self._stops = {each.partition: each.stop for each in stretches}
        self._reading = reading
        self._sender = sender
        self._partitioner = partitioner
        self._provenance = provenance
        self._headers = headers
        self._treatment = treatment
        self._pace = pace or Pace()
        self._control = control or Control()
        self._delivered = delivered
        self.flow = flow or CopyStats()
        for each in stretches:
            self.flow.positions.setdefault(each.partition, each.start)
        self._generations = Generations(self.flow, tail, on_settled)
        self._on_progress = on_progress
        self._silence_max_s = silence_max_s
        self._schedule = Schedule(self._pace)
        self._shown_at = 0.0
        self._constants = {p: (provenance.job_header, provenance.source_header(p)) for p in self._stops}

    def run(self) -> bool:
        """Copy everything; whether it came to the end (False: it was stopped). Raises what ends it."""
        copied = self._merged() if self._pace.is_paced else self._straight()
        if copied:
            self._close_holes()
        self._drain()
        self._settle()
        return copied

    # --- two orders -----------------------------------------------------------------------------------------------
    def _straight(self) -> bool:
        """As it comes: in order within each partition."""
        heard = time.monotonic()
        while not self._control.is_stopped:
            if self._wait_if_paused():
                heard = time.monotonic()
            messages = self._take(_TAKE_S)
            self._send_all(messages)
            self._between_batches()
            if not self._reading.unfinished():
                return True
            heard = self._heard(messages, heard)
        return False

    def _merged(self) -> bool:
        """When each is due, by time over all partitions. What is not due yet is read beside the waiting.

        Silent is only a source that brings nothing while nothing is sent: one that is held has no need to.
        """
        feed = Feed(self._reading, self._stops)
        heard, next_look = time.monotonic(), 0.0
        while not self._control.is_stopped:
            message = feed.merge.next() if time.monotonic() < next_look else None
            if message is not None:
                self._send_paced(message)
                heard = time.monotonic()
                continue
            messages = self._take(0.0 if feed.merge.has_next() else _SLICE_S)
            feed.put(messages)
            heard = self._heard(messages, heard)
            next_look = time.monotonic() + _LOOK_S
            self._between_batches()
            if self._wait_if_paused():
                heard = time.monotonic()
            if feed.is_done():
                return True
        return False

    def _take(self, timeout_s: float) -> Sequence[Any]:
        messages = self._reading.take(_BATCH_RECORDS, timeout_s)
        self._note_times(messages)
        return messages

    def _heard(self, messages: Sequence[Any], heard: float) -> float:
        """When the source last brought something. Raises if that is too long ago."""
        now = time.monotonic()
        if messages or not self._reading.unfinished():
            return now
        if now - heard > self._silence_max_s:
            raise JournalUnavailable(
                f"the source brought nothing for {now - heard:.0f} s", hint="run the same command again: it goes on"
            )
        return heard

    def _note_times(self, messages: Sequence[Any]) -> None:
        """Roughly: of the ends of a batch."""
        flow = self.flow
        for message in (*messages[:1], *messages[-1:]):
            stamp = message.timestamp()[1]
            flow.first_ms = stamp if flow.first_ms is None else min(stamp, flow.first_ms)
            flow.last_ms = stamp if flow.last_ms is None else max(stamp, flow.last_ms)

    # --- sending --------------------------------------------------------------------------------------------------
    def _send_all(self, messages: Sequence[Any]) -> None:
        """The fast way: no value is decoded, no object made that the client does not need."""
        self.flow.read += len(messages)
        plain = self._treatment is None and self._partitioner.keeps and self._delivered is None
        send = self._send_plain if plain else self._send_one
        for message in messages:
            send(message)

    def _send_plain(self, message: Any) -> None:
        """A record as it is, into its own partition."""
        flow, partition, offset = self.flow, message.partition(), message.offset()
        if offset != flow.positions[partition]:
            flow.hole(partition, offset)
        flow.positions[partition] = offset + 1
        key, value, stamp, found = message.key(), message.value(), message.timestamp()[1], message.headers()
        origin = (
            *self._constants[partition],
            (OFFSET, b"%d" % offset),
            (TIMESTAMP, b"%d" % stamp),
        )
        tally = flow.tallies.of(partition)
        tally[0] += 1
        if found is None:
            start = (offset * 0x9E3779B1 ^ stamp) & MASK  # record_sum, written out: a call costs a tenth of all
            start = start ^ NO_KEY if key is None else crc32(key, start)
            tally[2] += start ^ NO_VALUE if value is None else crc32(value, start)
            headers: list[Any] = list(origin)
        else:
            kept = self._headers.kept(found)
            tally[2] += record_sum(offset, key, value, stamp, kept)
            headers = [*kept, *origin, *self._provenance.path_headers(found, partition, offset)]
        tally[1] += (0 if key is None else len(key)) + (0 if value is None else len(value))
        if stamp <= 0:
            flow.restamped += 1
        self._produce(value, key, partition, stamp, headers)

    def _send_one(self, message: Any) -> None:
        """A record that is selected, treated, laid elsewhere, or there already."""
        flow, partition, offset = self.flow, message.partition(), message.offset()
        if offset != flow.positions[partition]:
            flow.hole(partition, offset)
        flow.positions[partition] = offset + 1
        old_key, found = message.key(), message.headers() or ()
        if self._treatment is None:
            key, value, kept = old_key, message.value(), self._headers.kept(found)
        else:
            treated = self._treatment.of(message)
            if treated is None:
                return
            key, value, kept = treated
        to = self._partitioner.of(key, partition, old_key)
        stamp = message.timestamp()[1]
        tally = flow.tallies.of(to)
        tally[0] += 1
        tally[1] += (0 if key is None else len(key)) + (0 if value is None else len(value))
        tally[2] += record_sum(offset, key, value, stamp, kept)
        if stamp <= 0:
            flow.restamped += 1
        if self._delivered is not None and self._delivered.has(partition, to, offset):
            flow.already_there += 1
            return
        origin = (*self._constants[partition], (OFFSET, b"%d" % offset), (TIMESTAMP, b"%d" % stamp))
        more = self._provenance.path_headers(found, partition, offset) if found else ()
        self._produce(value, key, to, stamp, [*kept, *origin, *more])

    def _produce(self, value: Any, key: Any, partition: int, stamp: int, headers: list[Any]) -> None:
        generation = self._generations.current
        generation.left += 1
        self.flow.sent += 1
        while True:
            try:
                self._sender.produce(value, key, partition, generation.told, stamp, headers)
                return
            except BufferError:
                self._check()
                self._sender.poll(_WAIT_FULL_S)

    def _send_paced(self, message: Any) -> None:
        """When it is due."""
        flow = self.flow
        due = self._schedule.due(time.monotonic(), message.timestamp()[1])
        if not self._wait_until(due):
            return
        late = time.monotonic() - due
        before = flow.sent
        flow.read += 1
        self._send_one(message)
        if flow.sent > before:
            flow.lateness.add(late)
            flow.behind_s = max(0.0, late)
        self._between_batches()

    def _wait_until(self, due: float) -> bool:
        """Whether it is due now; False if the replay was stopped first."""
        while True:
            paused_s = self._wait_if_paused()
            due += paused_s
            if self._control.is_stopped:
                return False
            left_s = due - time.monotonic()
            if left_s <= 0:
                return True
            self._sender.poll(min(left_s, _SLICE_S))
            self._between_batches()

    def _wait_if_paused(self) -> float:
        """Wait for ``resume``; how long that took. What is due moves by it."""
        if not self._control.is_paused:
            return 0.0
        began = time.monotonic()
        while self._control.is_paused:
            self._sender.poll(_SLICE_S)
            self._check()
        paused_s = time.monotonic() - began
        self._schedule.shift(paused_s)
        return paused_s

    # --- acknowledgements -----------------------------------------------------------------------------------------
    def _between_batches(self) -> None:
        self._sender.poll(0)
        self._check()
        now = time.monotonic()
        if now - self._shown_at >= _SHOW_S:
            self._shown_at = now
            self._on_progress(self.flow)
        if self._generations.is_over():
            self._settle()

    def _settle(self) -> None:
        self._generations.settle()
        self._on_progress(self.flow)

    def _drain(self) -> None:
        """Wait until all is acknowledged: as long as Kafka needs, while it answers at all."""
        waited_from, before = time.monotonic(), -1
        while self._generations.left:
            self._sender.flush(_SLICE_S * 4)
            self._check()
            left = self._generations.left
            if left != before:
                waited_from, before = time.monotonic(), left
            elif time.monotonic() - waited_from > self._silence_max_s:
                raise JournalUnavailable(
                    "the target acknowledged nothing for a long time",
                    unacknowledged=left,
                    hint="run the same command again: it goes on",
                )

    def _check(self) -> None:
        """Raise if a record was refused: nothing after it counts as sent."""
        if self._generations.failure is not None:
            raise self._sender.refusal(self._generations.failure)

    def _close_holes(self) -> None:
        """Stretches whose last offsets have no record."""
        flow = self.flow
        for partition, stop in self._stops.items():
            if flow.positions[partition] < stop:
                flow.hole(partition, stop)
                flow.positions[partition] = stop
