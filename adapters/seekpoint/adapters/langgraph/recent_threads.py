"""The threads that a saver has used lately."""

from __future__ import annotations

from collections import OrderedDict

import orjson

from seekpoint import Node
from seekpoint.adapters.langgraph.stored_parts import Op
from seekpoint.adapters.langgraph.thread_log import ThreadLog
from seekpoint.adapters.langgraph.thread_names import THREAD_KEY, checkpoint_key, joined, process_id_of
from seekpoint.adapters.process_lists import states_of

_KEPT_MAX, _HISTORY_BYTES_MAX = 1_000, 67_108_864
"""How many threads are kept, and how many bytes their histories may have together."""


class RecentThreads:
    """The threads of one node, for its event loop."""

    def __init__(self, node: Node, prefix: str) -> None:
        self._node = node
        self._prefix = prefix
        self._kept: OrderedDict[str, ThreadLog] = OrderedDict()

    def of(self, thread_id: object) -> ThreadLog:
        """Return the log of a thread."""
        name = str(thread_id)
        log = self._kept.get(name)
        if log is None:
            self._make_room()
            log = self._kept[name] = ThreadLog(self._node, process_id_of(joined([name]), self._prefix), name)
        self._kept.move_to_end(name)
        return log

    async def write(self, thread_id: object, op: Op) -> None:
        """Have ``op`` written to a thread."""
        await self.of(thread_id).write(op)

    async def newest_ids(self) -> list[tuple[str, str]]:
        """Return the id of the newest checkpoint of each thread in the journal, or "", and the thread's id."""
        found = []
        for state in await states_of(self._node, f"{self._prefix}/"):
            values = state.values_json
            if THREAD_KEY in values:
                ids = [orjson.loads(values[key])[0] for key in values if key.startswith(checkpoint_key(""))]
                found.append((max(ids, default=""), orjson.loads(values[THREAD_KEY])))
        return found

    def _make_room(self) -> None:
        width = sum(log.history_width for log in self._kept.values())
        for name, log in list(self._kept.items()):
            if len(self._kept) < _KEPT_MAX and width <= _HISTORY_BYTES_MAX:
                return
            if not log.is_idle:
                continue
            width -= log.history_width
            if len(self._kept) >= _KEPT_MAX:
                del self._kept[name]
            else:
                log.drop_history()
