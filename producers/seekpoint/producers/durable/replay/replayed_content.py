"""The content that an agent reads while its code is replayed: the content as of that point of the history.

It begins with the frame (the content when the agent, or its present turn, began) and applies the writes that the code
makes again. After the last recorded write it equals the live state and is dropped. Pure.
"""

from __future__ import annotations

from itertools import islice

from seekpoint.schemas import bodies as b
from seekpoint.schemas.config.limits import Limits
from seekpoint.schemas.folding.fold import try_apply
from seekpoint.schemas.state.calls import Frame
from seekpoint.schemas.state.conversation import Conversation
from seekpoint.schemas.state.lifecycle import Lifecycle
from seekpoint.schemas.state.process_state import Draft, State


class ReplayedContent:
    """The content of a frame and the writes since."""

    def __init__(self, live: State, frame: Frame | None, limits: Limits) -> None:
        self._draft = live.thaw()
        self._limits = limits
        self._live: State | None = None
        self._snapshot: State | None = None
        if frame is not None:
            _restore(self._draft, frame)
            self._draft.content_bytes = 0  # what was journaled did fit

    def state(self, live: State) -> State:
        """Return ``live`` with this content, frozen."""
        if self._snapshot is None or self._live is not live:
            draft = live.thaw()
            for name in _CONTENT:
                setattr(draft, name, getattr(self._draft, name))
            draft.values_json = self._draft.values_json.copy()
            self._live, self._snapshot = live, draft.freeze()
        return self._snapshot

    def text_of(self, key: str) -> b.Json | None:
        """Return the JSON text of a context value."""
        return self._draft.values_json.get(key)

    def write(self, body: b.Body) -> tuple[str, str] | None:
        """Apply a content body that the code wrote. Return why it does not fit, if it does not."""
        self._snapshot = None
        if isinstance(body, b.LifecycleChanged):  # between the writes of the code others may have moved it
            self._draft.lifecycle = Lifecycle(body.to)
            return None
        return try_apply(self._draft, self._draft.seq, body, self._limits)


_CONTENT = ("conversation", "lifecycle", "invocation", "invocations")


def _restore(draft: Draft, frame: Frame) -> None:
    draft.values_json = dict(frame.values_json)
    draft.conversation = Conversation(islice(draft.conversation.bodies(), frame.messages))
    draft.lifecycle = Lifecycle.RUNNING
    draft.invocations = frame.invocations
    draft.invocation = frame.invocation
