"""Notice a consumer group that nobody reads for: this member has no partition, nobody else has one, and Kafka answers.

The client is to join again by itself after an outage. Where it does not, its program lives and does nothing, for ever.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from seekpoint.consumers.kafka.kafka_members import group_members
from seekpoint.consumers.kafka.kafka_pool import KafkaPool
from seekpoint.consumers.log_reading.group_members import GroupMember
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.errors import GroupLost, SeekpointError

_logger = logging.getLogger("seekpoint.consumers.kafka.kafka_reader")

_LOOK_S = 60.0
"""How long a member without partitions waits for each look. An assignment after an outage takes ten seconds or so."""
_REJOINS_MAX = 2
_ANSWER_S = 3.0


class GroupWatch:
    """The watch of one member over its group."""

    def __init__(
        self, group: str, members: Callable[[], Sequence[GroupMember]], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._group = group
        self._members = members
        self._clock = clock
        self._looked_at_s = clock()
        self._lost = 0

    @classmethod
    def of(cls, settings: Settings, group: str) -> GroupWatch:
        """Return a watch that asks Kafka, with a client of its own once it has to."""
        brief = replace(settings, start_timeout_s=_ANSWER_S)
        return cls(group, partial(group_members, brief, KafkaPool(brief)))

    @property
    def is_lost(self) -> bool:
        """Whether the last look found that nobody reads for the group."""
        return self._lost > 0

    def look(self, has_partitions: bool) -> bool:
        """Return whether to join the group again. Raise ``GroupLost`` where that did not help. Call it often."""
        now_s = self._clock()
        if has_partitions:
            self._looked_at_s, self._lost = now_s, 0
            return False
        if now_s - self._looked_at_s < _LOOK_S:
            return False
        self._looked_at_s = now_s
        try:
            is_read = any(one.partitions for one in self._members() if one.group == self._group)
        except (SeekpointError, TimeoutError) as exc:  # without Kafka there is no group to join
            _logger.debug("the members of %s are not known: %s", self._group, exc)
            return False
        self._lost = 0 if is_read else self._lost + 1
        if self._lost > _REJOINS_MAX:
            raise GroupLost("Kafka answers, and the group does not take this member again", group=self._group)
        if self.is_lost:
            _logger.warning("nobody reads for the group %s although Kafka answers: joining it again", self._group)
        return self.is_lost
