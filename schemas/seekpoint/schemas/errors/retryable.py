"""Errors after which the same call may work later."""

from __future__ import annotations

from collections.abc import Sequence

from seekpoint.schemas.errors.error_base import SeekpointError


class Retryable(SeekpointError):
    """Something outside is in the way: the same call may work later."""

    hint = "try again"


class JournalUnavailable(Retryable):
    """Kafka does not answer, or answers that it cannot serve now; the file of an embedded log cannot be used now."""

    hint = (
        "check that Kafka runs and that bootstrap_servers is right (SEEKPOINT_BOOTSTRAP_SERVERS, seekpoint.toml);"
        ' for a local cluster eval "$(seekpoint up)" does both'
    )
    bootstrap_servers: str | None = None
    clock: str | None = None
    file: str | None = None
    node: str | None = None
    partitions: object = None
    reason: str | None = None
    timeout_s: float | None = None
    topics: Sequence[str] | None = None
    tried: str | None = None
    unacknowledged: int | None = None
    url: str | None = None
    waited_s: float | None = None


class JournalFull(JournalUnavailable):
    """The log has no room now: a disk is full. The entry is not refused for its content: Seekpoint waits for room."""

    hint = "the disk is full: make room, and the programs go on"


class ViewUnavailable(Retryable):
    """Redis does not answer, or answers that it cannot serve now. The journal is safe; recovery works without it."""

    hint = "check that Redis runs and redis_url is right: seekpoint doctor"


class BlobStoreUnavailable(Retryable):
    """The blob ``store`` does not answer, or cannot serve now. A reference to bytes that did not get there was never
    written."""

    hint = "check that the store can be reached, then make the same call again"
    store: str | None = None


class AppendTimeout(Retryable):
    """Kafka did not acknowledge an append within ``append_timeout_s``. The entry may be in the log or not. The handle
    is closed."""

    hint = "open the process again: the claim finds out what landed"
    append_timeout_s: float | None = None
    last_seq: int | None = None
    reason: str | None = None
    unacknowledged: int | None = None


class EffectHeld(Retryable):
    """An effect was not begun: for some seconds, tasks of ``asyncio`` have not made the call ``missing`` again, which
    the history has. Either they are late, or the code has changed. Nothing was called."""

    hint = (
        "run the process again (seekpoint redrive); if the code has changed, run the code that made the history; use"
        " process.gather instead of tasks where one task waits long for anything but a call"
    )
    key: str
    missing: str


class ConfirmTimeout(Retryable):
    """An entry was acknowledged, but its partition could not be read in time to see that the entry is applied."""

    hint = "the entry is safe in the log; read the process again once Kafka answers"
    hidden_from: int | None = None
    end: int | None = None


class TransactionOpen(Retryable):
    """A transaction of another producer is open in the partition. What lies behind ``offset`` is in the log, and cannot
    be read before the transaction ends. ``end`` is the end of the partition."""

    hint = (
        "Seekpoint writes no transactions there: find whose it is (kafka-transactions.sh find-hanging, list), end or"
        " abort it (kafka-transactions.sh abort), or wait for its transaction.timeout.ms"
    )
    end: int | None = None


class CheckpointTimeout(Retryable):
    """The request for a checkpoint is in the log, but no projector saved one in time."""

    hint = "check that a projector runs: seekpoint lag"
    timeout_s: float | None = None


class ClaimLost(Retryable):
    """Another node's claim came first in the log."""

    hint = "the other node owns the process now: wait for it (wait_s=), or fence it (take_over=True)"
    node: str | None = None


class RequestTimeout(Retryable):
    """No node answered a request for a recovery in time. The request changed nothing."""

    hint = "start a consumer that answers: seekpoint serve recovery; or give it more time"
    request_id: str | None = None


class ResultTimeout(Retryable):
    """The run did not end in time. It goes on: ask again, or look what it waits for."""

    hint = "ask again with the same id; seekpoint state PROCESS_ID shows what it waits for"
    timeout_s: float | None = None
    lifecycle: str | None = None


class ClusterFailed(Retryable):
    """A part of the local cluster did not start, or died. The message contains the end of its log."""

    hint = "read the log's tail above; seekpoint down, then seekpoint up"
    directory: str | None = None
    file: str | None = None
    jar: str | None = None
    log: str | None = None
    part: str | None = None
    path: str | None = None
