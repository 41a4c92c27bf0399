"""A member without partitions, while nobody else has any and Kafka answers: it joins again, then it ends."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from seekpoint.console.services.daemons.projector_health import ProjectorHealth
from seekpoint.consumers.kafka import group_watch, kafka_group, kafka_inbox
from seekpoint.consumers.kafka.group_watch import GroupWatch
from seekpoint.consumers.kafka.kafka_group import KafkaGroup
from seekpoint.consumers.kafka.kafka_inbox import KafkaInbox
from seekpoint.consumers.log_reading.group_members import GroupMember
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.errors import GroupLost, JournalUnavailable


def member(group: str, *partitions: int) -> GroupMember:
    return GroupMember(role="projector", group=group, member="m", host="h", partitions=partitions)


class Group:
    """A group as Kafka describes it, watched by a member; ``now_s`` is its clock."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.members: list[GroupMember] = []
        self.answers = True
        self.watch = GroupWatch("g", self.described, lambda: self.now_s)

    def described(self) -> list[GroupMember]:
        if not self.answers:
            raise JournalUnavailable("Kafka is away")
        return self.members

    def later(self, seconds: float = 61.0, *, has_partitions: bool = False) -> bool:
        self.now_s += seconds
        return self.watch.look(has_partitions)


def test_a_group_that_nobody_reads_for_is_joined_again_and_then_given_up() -> None:
    """Members without partitions, and members of other groups, read nothing."""
    group = Group()
    group.members = [member("g"), member("other", 0)]
    assert not group.later(59.0)
    assert [group.later(), group.later()] == [True, True]
    assert group.watch.is_lost
    with pytest.raises(GroupLost, match="does not take this member again"):
        group.later()


def test_who_waits_while_others_read_is_not_lost() -> None:
    group = Group()
    group.members = [member("g", 0, 1), member("g")]
    assert not any(group.later() for _ in range(10))
    assert not group.watch.is_lost


def test_an_outage_of_any_length_loses_nobody() -> None:
    """Without Kafka there is no group to join; what was found before it still counts."""
    group = Group()
    group.answers = False
    assert not any(group.later() for _ in range(20))
    group.answers = True
    assert group.later()


def test_an_assignment_ends_the_count() -> None:
    group = Group()
    assert [group.later(), group.later()] == [True, True]
    assert not group.later(1.0, has_partitions=True)
    assert not group.watch.is_lost
    assert [group.later(), group.later()] == [True, True]


class LostConsumer:
    """A consumer whose group never assigns anything to it."""

    def __init__(self, config: dict[str, Any]) -> None:
        self.subscribed = self.unsubscribed = 0

    def subscribe(self, topics: list[str], **callbacks: Any) -> None:
        self.subscribed += 1

    def unsubscribe(self) -> None:
        self.unsubscribed += 1

    def poll(self, timeout_s: float) -> None:
        return None

    def assignment(self) -> list[Any]:
        return []


def inbox() -> Any:
    return KafkaInbox(Settings(), "workers")


def projectors() -> Any:
    return KafkaGroup(Settings(), lambda partitions, membership: None, lambda is_lost: None)


@pytest.mark.parametrize("join", [inbox, projectors])
def test_every_member_on_kafka_is_watched(join: Callable[[], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers and projectors subscribe anew, and end with the error."""
    monkeypatch.setattr(kafka_inbox, "Consumer", LostConsumer)
    monkeypatch.setattr(kafka_group, "Consumer", LostConsumer)
    monkeypatch.setattr(group_watch, "group_members", lambda settings, pool: [])
    monkeypatch.setattr(group_watch, "_LOOK_S", 0.0)
    watched = join()
    arguments = (0.0,) if isinstance(watched, KafkaInbox) else (1, 0.0)
    for times in (1, 2):
        watched.poll(*arguments)
        assert (watched._consumer.unsubscribed, watched._consumer.subscribed) == (times, times + 1)
    with pytest.raises(GroupLost):
        watched.poll(*arguments)


def test_a_projector_that_its_group_has_lost_is_not_well() -> None:
    """Its loop turns, and that is no progress."""
    clock = SimpleNamespace(now_s=time.monotonic())
    health = ProjectorHealth(30.0, lambda: clock.now_s)
    for _ in range(40):
        clock.now_s += 1.0
        health.look({})
    assert health.is_well
    for _ in range(40):
        clock.now_s += 1.0
        health.look({}, is_lost=True)
    assert not health.is_well
    assert health.not_ready
