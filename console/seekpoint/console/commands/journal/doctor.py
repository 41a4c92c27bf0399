"""``seekpoint doctor``: examine a journal and everything it depends on, and advise what to do."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from seekpoint.console.render.output import counted, emit_json, say
from seekpoint.console.render.tables import Column, emit_table
from seekpoint.console.services.arguments.target import CommandTarget

if TYPE_CHECKING:
    from seekpoint.console.services.facts.checkup import Diagnosis

from seekpoint.console.services.arguments.options import AsJson, Wide
from seekpoint.console.services.histories.process_scan import scan_processes

__all__ = []

_WATCH_S = 2.0
_POLL_INTERVAL_S = 0.2
_OPEN_S = 1.0

_COLUMNS = (Column("subject"), Column("health"), Column("found", wraps=True), Column("what to do", wraps=True))


def doctor(
    target: CommandTarget,
    quick: Annotated[bool, typer.Option("--quick", help="Skip checks that read the whole journal.")] = False,
    wide: Wide = False,
    json: AsJson = False,
) -> int:
    """Examine Kafka, topics, Redis, nodes and processes. Exits with 1 if there is an error."""
    from seekpoint.console.services.facts.checkup import exit_code

    found = list(_examine(target, quick))
    code = exit_code(found)
    if json:
        plain = [{name: value for name, value in asdict(each).items() if name != "unreachable"} for each in found]
        emit_json({"journal": target.settings.journal, "ok": code == 0, "findings": plain})
    else:
        rows = [[each.subject, each.health, each.found, each.advice] for each in found]
        emit_table(_COLUMNS, rows, wide=wide)
    return code


def _examine(target: CommandTarget, quick: bool) -> Iterator[Diagnosis]:
    """Run the checks in order of dependency. Skip those that depend on something broken."""
    is_embedded = target.settings.sqlite_path is not None
    place = list(_guarded("file", lambda: _file(target)) if is_embedded else _kafka(target))
    yield from place
    if not is_embedded:
        yield _redis(target)
    if any(each.health == "error" for each in place):
        return
    journal = [] if is_embedded else list(_guarded("journal", lambda: _journal(target)))
    yield from journal
    if not any(each.health == "error" for each in journal):
        yield from _guarded("view", lambda: _view_and_floors(target))
    yield from _guarded("processes", lambda: _nodes_and_processes(target, quick))


def _guarded(subject: str, check: Callable[[], Iterator[Diagnosis]]) -> Iterator[Diagnosis]:
    from seekpoint.console.services.facts.checkup import failure
    from seekpoint.schemas.errors import InvalidSetting, SeekpointError

    try:
        yield from check()
    except InvalidSetting:
        raise
    except SeekpointError as error:
        yield failure(subject, error)


def _file(target: CommandTarget) -> Iterator[Diagnosis]:
    from seekpoint.console.services.facts.checkup import Diagnosis, JournalHealth
    from seekpoint.consumers.sqlite.sqlite_log import SqliteLog
    from seekpoint.schemas.errors import JournalMismatch

    log = target.log
    assert isinstance(log, SqliteLog)
    manifest, file = log.connect(), log.file
    with file.reading() as connection:
        (found,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if found != "ok":
        raise JournalMismatch(
            f"the file is damaged: {found}", file=str(file.path), hint="keep a copy, then restore a backup"
        )
    size_mb = file.path.stat().st_size / 1e6
    text = f"{file.path}, {size_mb:,.1f} MB, journal {manifest.journal}, {counted(manifest.partitions, 'partition')}"
    yield Diagnosis(subject="file", health=JournalHealth.OK, found=text)


def _kafka(target: CommandTarget) -> Iterator[Diagnosis]:
    yield from _guarded("kafka", lambda: _brokers(target))


def _brokers(target: CommandTarget) -> Iterator[Diagnosis]:
    from seekpoint.compose.topic_admin import TopicAdmin
    from seekpoint.console.services.facts.checkup import Diagnosis, JournalHealth

    settings = target.require_kafka()
    count = TopicAdmin(settings).brokers()
    found = f"{counted(count, 'broker')} at {target.scrub(settings.bootstrap_servers)}"
    yield Diagnosis(subject="kafka", health=JournalHealth.OK, found=found)


def _journal(target: CommandTarget) -> Iterator[Diagnosis]:
    from seekpoint.compose import check_topics_sync
    from seekpoint.compose.topic_admin import TopicAdmin
    from seekpoint.console.render.topic_findings import grouped
    from seekpoint.console.services.facts.checkup import Diagnosis, JournalHealth, in_sync, permissions, topics
    from seekpoint.schemas.config.settings import TOPICS

    settings = target.settings
    findings = check_topics_sync(settings)
    yield from topics(findings, grouped(findings))
    facts = TopicAdmin(settings).topics(map(settings.topic_name, TOPICS))
    if facts:
        yield in_sync(facts)
        names = {settings.topic_name(topic): topic for topic in TOPICS}
        allowed = TopicAdmin(settings).allowed(names)
        yield permissions({names[name]: operations for name, operations in allowed.items()})
    if len(facts) == len(TOPICS):
        manifest = target.log.connect()
        found = f"journal {manifest.journal}, format {manifest.format}, {manifest.partitions} partitions"
        yield Diagnosis(subject="manifest", health=JournalHealth.OK, found=found)
        yield from _transactions(target)


def _transactions(target: CommandTarget) -> Iterator[Diagnosis]:
    """Look for transactions of other producers that hide entries or submissions, and have for a second."""
    from seekpoint.console.services.facts.checkup import transactions
    from seekpoint.consumers.kafka.kafka_reader import KafkaReader

    log = target.log
    assert isinstance(log, KafkaReader)

    def hidden() -> dict[tuple[str, int], int]:
        places = [(kind, partition) for kind in ("journal", "inbox") for partition in range(log.partitions)]
        extents = {place: log.extent_of(*place) for place in places}
        return {place: extent.high for place, extent in extents.items() if extent.hidden}

    found = hidden()
    if found:
        time.sleep(_OPEN_S)
        found = {place: high for place, high in hidden().items() if found.get(place) == high}
    yield from transactions(target.settings.journal, found)


def _view_and_floors(target: CommandTarget) -> Iterator[Diagnosis]:
    """Check the view and the floors. Watch for up to two seconds whether each view that is behind makes progress."""
    from seekpoint.console.services.facts.checkup import Diagnosis, JournalHealth, failure, floors, view
    from seekpoint.console.services.facts.partition_lag import lags
    from seekpoint.consumers.log_reading.lost_ends import accepted_losses
    from seekpoint.consumers.recovery.loss_acceptance import lost_partitions

    before = after = lags(target)
    deadline = time.monotonic() + _WATCH_S
    while time.monotonic() < deadline and any(
        now.behind and now.applied == was.applied for was, now in zip(before, after, strict=True)
    ):
        time.sleep(_POLL_INTERVAL_S)
        after = lags(target)
    for error in lost_partitions(target.recoverer):
        yield failure("lost end", error)
    for loss in accepted_losses(target.log):
        text = f"partition {loss.partition}: entries up to {loss.lost_to - 1} given up by {loss.actor}: {loss.reason}"
        yield Diagnosis(subject="lost end", health=JournalHealth.WARNING, found=text)
    yield view(before, after, target.view is not None)
    yield floors(after)


def _redis(target: CommandTarget) -> Diagnosis:
    from seekpoint.console.services.facts.checkup import redis
    from seekpoint.console.services.facts.redis_facts import look_at_redis

    settings = target.settings
    return redis(settings.redis_url, look_at_redis(settings) if settings.redis_url else None)


def _nodes_and_processes(target: CommandTarget, quick: bool) -> Iterator[Diagnosis]:
    from dataclasses import replace

    from seekpoint.console.services.facts.checkup import (
        Census,
        Diagnosis,
        JournalHealth,
        dead_letters,
        nodes,
        processes,
    )
    from seekpoint.consumers.heartbeats.liveness import Heartbeats, Liveness

    settings = target.settings
    # Read heartbeats from the topic only: Redis was checked already.
    store = Heartbeats(target.log, replace(settings, redis_url=None))
    liveness = Liveness(store, settings.owner_timeout_s, loop_timeout_s=settings.loop_timeout_s)
    began = time.monotonic()
    before = store.read()
    liveness.apply(before, began)
    census = None if quick else Census.of((process_id, state) for process_id, _, state in scan_processes(target))
    if before.heartbeats:
        _wait_for_heartbeats(began, settings.heartbeat_interval_s)
    after, now = store.read(), time.monotonic()
    liveness.apply(after, now)
    yield nodes(before, after, now - began, census)
    if census is None:
        yield Diagnosis(subject="processes", health=JournalHealth.SKIPPED, found="skipped: --quick")
    else:
        yield from processes(census, liveness)
    yield dead_letters(target.dead_letters.count())


def _wait_for_heartbeats(began: float, interval_s: float) -> None:
    """Wait until every live node has had time for a heartbeat."""
    left_s = began + 1.5 * interval_s - time.monotonic()
    if left_s > 0:
        say(f"watching heartbeats for {left_s:.0f} s")
        time.sleep(left_s)
