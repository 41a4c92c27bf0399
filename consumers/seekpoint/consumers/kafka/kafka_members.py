"""The members of a journal's consumer groups, as the brokers know them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from seekpoint.consumers.kafka.kafka_pool import KafkaPool
from seekpoint.consumers.log_reading.group_members import GroupMember, role_and_topic
from seekpoint.schemas.config.settings import Settings


def group_members(settings: Settings, pool: KafkaPool) -> list[GroupMember]:
    """Return the members of all groups of the journal that the credentials may describe: two requests.

    Raises ``JournalUnavailable``.
    """
    admin, timeout_s = pool.admin(), settings.start_timeout_s
    with pool.translating_errors():
        listed = admin.list_consumer_groups(request_timeout=timeout_s).result(timeout_s + 1)
        roles = {one.group_id: role_and_topic(settings.journal, one.group_id) for one in listed.valid}
        known = {group: found for group, found in roles.items() if found is not None}
        if not known:
            return []
        described = admin.describe_consumer_groups([*known], request_timeout=timeout_s)
        found = [
            member
            for group, future in described.items()
            for member in _members(settings, group, *known[group], future.result(timeout_s + 1))
        ]
    return sorted(found, key=lambda one: (one.role, one.group, one.partitions, one.member))


def _members(settings: Settings, group: str, role: str, topic: str, described: Any) -> Iterator[GroupMember]:
    """Yield the members of a group. Of a group that rebalances now, none has partitions."""
    name = settings.topic_name(topic)
    for one in described.members:
        assigned = () if one.assignment is None else one.assignment.topic_partitions
        partitions = sorted(place.partition for place in assigned if place.topic == name)
        yield GroupMember(
            role=role, group=group, member=one.member_id, host=one.host.lstrip("/"), partitions=tuple(partitions)
        )
