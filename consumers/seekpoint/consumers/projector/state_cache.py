"""The projector's memory of states: those folded last, while the view has exactly what they say. All are proven."""

from __future__ import annotations

from collections import OrderedDict

from seekpoint.schemas.state.process_state import State

__all__ = ["StateCache"]

_STATE_BYTES = 2_000
"""About what a state takes besides its texts."""


class StateCache:
    """States of one partition as of ``position`` of the view ``token``; the ones used longest ago go first."""

    def __init__(self, states_max: int = 20_000, bytes_max: int = 128 * 1024 * 1024) -> None:
        self.token = ""
        self.position = -1
        self._states_max = states_max
        self._bytes_max = bytes_max
        self._states: OrderedDict[bytes, tuple[State, int]] = OrderedDict()
        self._bytes = 0
        self.digests: dict[bytes, str] = {}
        """Of states that are in no checkpoint and are not kept here any more: what the view has must be these."""

    def begin(self, token: str, position: int) -> None:
        """The view is at ``position``. What is kept stays only if it is of just that.

        Another projector may have dropped the content of finished processes meanwhile: that moves no position.
        """
        if (token, position) != (self.token, self.position):
            self._states.clear()
            self._bytes = 0
            self.digests.clear()
        for key in [key for key, (state, _) in self._states.items() if state.finished and not state.content_dropped]:
            self._bytes -= self._states.pop(key)[1]
        self.token, self.position = token, position

    def get(self, key: bytes) -> State | None:
        """The state of ``key``, if it is kept."""
        found = self._states.get(key)
        if found is None:
            return None
        self._states.move_to_end(key)
        return found[0]

    def put(self, key: bytes, state: State) -> list[tuple[bytes, State]]:
        """Keep ``state``; those that go for it."""
        self.digests.pop(key, None)
        width = _STATE_BYTES + state.content_bytes + state.mailbox_bytes
        old = self._states.pop(key, None)
        self._bytes += width - (0 if old is None else old[1])
        self._states[key] = state, width
        gone = []
        while len(self._states) > self._states_max or (self._bytes > self._bytes_max and len(self._states) > 1):
            other, (evicted, its_width) = self._states.popitem(last=False)
            self._bytes -= its_width
            gone.append((other, evicted))
        return gone

    def __contains__(self, key: object) -> bool:
        return key in self._states

    def __len__(self) -> int:
        return len(self._states)
