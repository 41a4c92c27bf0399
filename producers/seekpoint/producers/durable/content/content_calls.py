"""Write content into a process: context, conversation, lifecycle, custom entries.

A call takes its place when it is made. Awaited, it returns once Kafka has acknowledged its entry.
"""

from __future__ import annotations

from collections.abc import Collection, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict

from seekpoint.producers.durable.durable_process import DurableCalls, DurableProcess
from seekpoint.schemas import bodies as b
from seekpoint.schemas.config.error_texts import TEXT_CHARACTERS_MAX
from seekpoint.schemas.errors import LimitExceeded, Refused, UnserializableValue
from seekpoint.schemas.values.json_values import dump

if TYPE_CHECKING:
    from typing import Unpack

    from seekpoint.producers.durable.session import Acknowledged

__all__ = ["ContentCalls", "WriteOptions", "error_entry"]

_FAILED_MAX = 100
"""The most calls that an entry names as the origin of an exception."""

Written: TypeAlias = "Coroutine[Any, Any, Acknowledged]"


class WriteOptions(TypedDict, total=False):
    """The options of a write.

    ``entry_id``: 16 bytes of your choice. If the process has an entry with this id, nothing is written, and the call
    returns where that entry is, with ``is_repeated``: repeat a call whose outcome is open with the same id. The first
    such call reads the process's history once. An id is known while its entry is in the log and among the newest 16,384
    of the process. An agent's code needs no ids.

    ``wait=False``: return as soon as the entry is on its way. ``Process.flush`` waits for all of them and raises the
    first failure. Until then, a crash may lose the newest entries: 1,000 or 8 MiB at most, and none of them without all
    that come after it. More than that are not under way: the call waits.
    """

    entry_id: bytes | None
    wait: bool


class ContentCalls(DurableCalls):
    """The content calls of a process. ``WriteOptions`` has the options that each of them takes."""

    # --- context
    def update(self, key: str, value: Any, **how: Unpack[WriteOptions]) -> Written:
        """Set one context value."""
        return self._durable.write(b.ContextUpdated(_key(key), dump(value, self._durable.limits)), **how)

    def update_many(self, values: Mapping[str, Any], **how: Unpack[WriteOptions]) -> Written:
        """Set several context values in one entry, all or none. For the journal's limits they are one value."""
        return self._durable.write(b.ContextUpdatedMany(self._texts(values)), **how)

    def change(
        self, *, set: Mapping[str, Any] | None = None, delete: Collection[str] = (), **how: Unpack[WriteOptions]
    ) -> Written:
        """Set the context values ``set`` and remove the keys ``delete``, if they exist, in one entry: all or none.

        Nobody decodes or encodes the other values. Raises ``Refused`` for a key that is both set and deleted.
        """
        values = {} if set is None else self._texts(set)
        if isinstance(delete, str | bytes):
            raise Refused("the keys to delete are a list of texts", process_id=self._durable.process_id,
                          asked=repr(delete)[:60], hint="pass delete=[KEY]")  # fmt: skip
        deleted = sorted({_key(key) for key in delete})  # in no order of the caller's: a set has none
        both = next((key for key in deleted if key in values), None)
        if both is not None:
            raise Refused("a change sets and deletes the same context value", process_id=self._durable.process_id,
                          key=both[:100], hint="name the key in one of set= and delete=")  # fmt: skip
        return self._durable.write(b.ContentBatch(False, values, dump(deleted, self._durable.limits)), **how)

    def _texts(self, values: Mapping[str, Any]) -> dict[str, b.Json]:
        limits = self._durable.limits
        if len(values) > limits.items:
            raise LimitExceeded(
                "more context values in one entry than any reader takes",
                process_id=self._durable.process_id, items=len(values), limit=limits.items,
            )  # fmt: skip
        return {_key(key): dump(value, limits) for key, value in values.items()}

    def delete(self, key: str, **how: Unpack[WriteOptions]) -> Written:
        """Remove one context value, if it exists."""
        return self._durable.write(b.ContextDeleted(_key(key)), **how)

    def patch(self, patch: Mapping[str, Any], **how: Unpack[WriteOptions]) -> Written:
        """Change the context by an RFC 7386 merge patch: None removes, objects merge, everything else replaces."""
        return self._durable.write(b.ContextPatched(dump(dict(patch), self._durable.limits)), **how)

    def clear(self, **how: Unpack[WriteOptions]) -> Written:
        """Remove all context values."""
        return self._durable.write(b.ContextCleared(), **how)

    # --- conversation
    def say(
        self,
        role: str,
        content: str | Sequence[Any] | Mapping[str, Any] | None = None,
        *,
        tool_calls: Sequence[Mapping[str, Any]] | None = None,
        tool_call_id: str | None = None,
        name: str | None = None,
        **how: Unpack[WriteOptions],
    ) -> Written:
        """Add a message. ``content`` is text, structured parts, or None if the message only calls tools."""
        limits = self._durable.limits
        text = content if isinstance(content, str) or content is None else None
        parts = None if isinstance(content, str) or content is None else dump(content, limits)
        calls = None if tool_calls is None else dump(list(tool_calls), limits)
        return self._durable.write(b.MessageSaid(role, text, parts, calls, tool_call_id, name), **how)

    # --- lifecycle
    def transition(self, to: str, reason: str | None = None) -> Written:
        """Move to another lifecycle state. Raises ``IllegalTransition`` for a transition that does not exist."""
        text = None if reason is None else self._durable.settings.scrub(reason)
        return self._durable.write(b.LifecycleChanged(str(to), text))

    def suspend(self, reason: str | None = None) -> Written:
        """Move to ``suspended``, until a transition back to ``running``."""
        return self.transition("suspended", reason)

    def record(self, kind: str, payload: Any = None, **how: Unpack[WriteOptions]) -> Written:
        """Write a custom entry of a ``kind`` of your own; the fold only keeps its kind."""
        return self._durable.write(b.Custom(_key(kind), dump(payload, self._durable.limits)), **how)

    def record_error(self, error: BaseException, trace: str | None = None, where: str | None = None) -> Written:
        """Record an exception; ``where`` names the line of your code it came from. The state keeps the newest one.

        Secrets of the settings are masked.
        """
        return self._durable.write(error_entry(self._durable, error, trace, where))


def error_entry(process: DurableProcess, error: BaseException, trace: str | None, where: str | None) -> b.ErrorRecorded:
    """Return the entry that records an exception."""
    from seekpoint.producers.durable.failures.failed_calls import unfollowed_calls
    from seekpoint.producers.durable.failures.recorded_failures import error_name

    settings = process.settings
    trace_text, place = (
        None if text is None else settings.excerpt(text, TEXT_CHARACTERS_MAX) for text in (trace, where)
    )
    name, message = error_name(error, settings), settings.excerpt(str(error), TEXT_CHARACTERS_MAX)
    failed = unfollowed_calls(error, process.written.calls)[:_FAILED_MAX]
    return b.ErrorRecorded(name, message, trace_text, place, failed=dump(failed) if failed else None)


def _key(key: str) -> str:
    if type(key) is not str:
        raise UnserializableValue("a key is text", path="$", found=type(key).__name__)
    return key
