"""The records of a session in its process, and the toolkit's values for them. Pure.

The context of the process has ``session`` (whose it is, when it last changed, and the seq of the entry that changed it:
its revision), an ``event/SEQ`` for each event, a ``state/KEY`` for each value of the session's own state, and an
``outbox`` while changes to the state of the app or the user are on their way. An event, a value or an outbox of more
than 64 KiB is a reference to an attachment.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from heapq import nlargest
from typing import Any

from google.adk.events.event import Event
from google.adk.sessions import Session, State
from google.adk.sessions.base_session_service import GetSessionConfig
from pydantic_core import to_jsonable_python

from seekpoint import Ref
from seekpoint import State as ProcessState
from seekpoint.adapters.process_names import joined, process_id_of
from seekpoint.errors import UnserializableValue

SESSION, OUTBOX = "session", "outbox"
EVENT, STATE = "event/", "state/"


@dataclass(frozen=True, slots=True)
class StoredSession:
    """The value ``session`` of a session's process."""

    app: str
    user: str
    id: str
    updated: float
    """The time of the newest event; before the first one, when the session was created."""
    revision: int
    """The seq of the entry that created the session or appended its newest event."""
    event_id: str | None = None
    """The id of the newest event."""

    @classmethod
    def of(cls, state: ProcessState) -> StoredSession | None:
        """Return the session of a process's state; None if there is none."""
        return cls(**state.value(SESSION)) if SESSION in state.values_json else None

    def to_dict(self) -> dict[str, Any]:
        """Return the value for the context."""
        return asdict(self)

    @property
    def marker(self) -> str:
        """The marker of a ``Session``: it tells later which revision the session was read from."""
        return str(self.revision)

    def is_read_by(self, session: Session) -> bool:
        """Whether ``session`` was read from, or written as, this revision.

        One that was made by hand has no marker: it is compared by its time and by its newest event, as the session
        services of the toolkit do.
        """
        marker = session._storage_update_marker
        if marker is not None:
            return marker == self.marker
        newest = session.events[-1].id if session.events else None
        return self.updated <= session.last_update_time or self.event_id == newest

    def session(self, state: Mapping[str, Any], events: Iterable[Event] = ()) -> Session:
        """Return the toolkit's session."""
        made = Session(
            id=self.id, app_name=self.app, user_id=self.user, state=dict(state), events=list(events),
            last_update_time=self.updated,
        )  # fmt: skip
        made._storage_update_marker = self.marker
        return made


def session_id_of(prefix: str, app: str, user: str, session_id: str) -> str:
    """Return the id of a session's process."""
    return process_id_of(f"session/{joined([app, user, session_id])}", prefix)


def state_id_of(prefix: str, app: str, user: str | None = None) -> str:
    """Return the id of the process with the state of an app, or of a user of it."""
    names = joined([app]) if user is None else joined([app, user])
    return process_id_of(f"{'app' if user is None else 'user'}/{names}", prefix)


def event_key(seq: int) -> str:
    """Return the context key of the event that the entry ``seq`` appends."""
    return f"{EVENT}{seq:012}"


def event_json(event: Event) -> dict[str, Any]:
    """Return an event as JSON."""
    made: dict[str, Any] = event.model_dump(mode="json", exclude_none=True)
    return made


def event_from(data: Mapping[str, Any]) -> Event:
    """Return the event of ``event_json``."""
    return Event.model_validate(data)


def events_in(state: ProcessState, config: GetSessionConfig | None) -> list[Any]:
    """Return the events that are asked for, oldest first: each as its JSON, or as the reference to it."""
    keys: Iterable[str] = (key for key in state.values_json if key.startswith(EVENT))
    if config is not None and config.after_timestamp:
        keys = (key for key in keys if state.value(key)["at"] >= config.after_timestamp)
    recent = None if config is None else config.num_recent_events
    newest = sorted(keys) if recent is None else nlargest(recent, keys)[::-1]
    return [state.value(key)["event"] for key in newest]


def values_in(state: ProcessState) -> dict[str, Any]:
    """Return the values of a state of the toolkit: each as it is, or as the reference to it."""
    return {key[len(STATE) :]: state.value(key) for key in state.values_json if key.startswith(STATE)}


def scopes_of(delta: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Divide changes of a state by their scopes: ``app``, ``user`` and ``session``. Temporary ones are left out.

    A value that is not JSON becomes the text that it prints as, as in the session services of the toolkit.
    """
    found: dict[str, dict[str, Any]] = {"app": {}, "user": {}, "session": {}}
    for key, value in delta.items():
        if key.startswith(State.TEMP_PREFIX):
            continue
        scope = next((name for name in ("app", "user") if key.startswith(f"{name}:")), "session")
        found[scope][key if scope == "session" else key.partition(":")[2]] = plain(value)
    return found


def plain(value: Any) -> Any:
    """Return a value as JSON; bytes that are no text as base64, what else is no JSON as its text.

    Raises ``UnserializableValue`` for what holds itself.
    """
    if isinstance(value, Ref):
        return value
    try:
        return to_jsonable_python(value, fallback=str)
    except UnicodeDecodeError:
        return to_jsonable_python(value, fallback=str, bytes_mode="base64")
    except ValueError as exc:
        raise UnserializableValue(f"a value is not JSON: {exc}", path="$") from exc
