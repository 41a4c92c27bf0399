"""The projector's cache of the states that it folded last. All are proven, and the view has the same states."""

from __future__ import annotations

from collections import OrderedDict

from seekpoint.schemas.state.process_state import State

_STATE_BYTES = 2_000
"""An estimate of what a state takes besides its texts."""


class StateCache:
    """The states of one partition as of ``position`` of the view ``token``. Evicts the least recently used state."""

    def __init__(self, states_max: int = 20_000, bytes_max: int = 128 * 1024 * 1024) -> None:
        self.token = ""
        self.position = -1
        self._states_max = states_max
        self._bytes_max = bytes_max
        self._states: OrderedDict[bytes, tuple[State, int]] = OrderedDict()
        self._bytes = 0
        self.digests: dict[bytes, str] = {}
        """Digests of evicted states that are in no checkpoint. The states in the view must have them."""

    def begin(self, token: str, position: int) -> None:
        """Start with the view at ``position``. Drop the cached states if they are of another token or position.

        Finished states with content are always dropped: another projector may have dropped their content meanwhile.
        """
        if (token, position) != (self.token, self.position):
            self._states.clear()
            self._bytes = 0
            self.digests.clear()
        for key in [key for key, (state, _) in self._states.items() if state.finished and not state.content_dropped]:
            self._bytes -= self._states.pop(key)[1]
        self.token, self.position = token, position

    def get(self, key: bytes) -> State | None:
        """Return the state of ``key``; None if it is not cached."""
        found = self._states.get(key)
        if found is None:
            return None
        self._states.move_to_end(key)
        return found[0]

    def put(self, key: bytes, state: State) -> list[tuple[bytes, State]]:
        """Cache ``state``; return the evicted states."""
        self.digests.pop(key, None)
        width = _STATE_BYTES + state.content_bytes + state.mailbox_bytes
        old = self._states.pop(key, None)
        self._bytes += width - (0 if old is None else old[1])
        self._states[key] = state, width
        evicted = []
        while len(self._states) > self._states_max or (self._bytes > self._bytes_max and len(self._states) > 1):
            other, (its_state, its_width) = self._states.popitem(last=False)
            self._bytes -= its_width
            evicted.append((other, its_state))
        return evicted

    def __contains__(self, key: object) -> bool:
        return key in self._states

    def __len__(self) -> int:
        return len(self._states)
