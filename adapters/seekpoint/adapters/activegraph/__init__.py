"""ActiveGraph on a journal: the event stores of its runs. Needs the extra ``activegraph``.

    a run of ActiveGraph           a process of the journal, PREFIX/runs/RUN_ID, which any node may write to
    an event                       an entry; with pipelined writes several share one
    Runtime.load, fork, promote    as on a SQLite file, with ``SeekpointRuns(node).path`` in the place of its path

>>> from activegraph import Graph, Runtime
>>> from seekpoint import SyncNode
>>> from seekpoint.adapters.activegraph import SeekpointRuns
>>> with SyncNode.in_memory() as node:
...     runs = SeekpointRuns(node)
...     runtime = Runtime(Graph(), persist_to=runs.path)
...     done = runtime.run_goal("Compare the offers")
...     loaded = Runtime.load(runs.path)
>>> loaded.run_id == runtime.run_id, len(loaded.graph.events) == len(runtime.graph.events)
(True, True)
"""

from seekpoint.adapters.activegraph.event_store import SeekpointEventStore
from seekpoint.adapters.activegraph.journal_runs import SeekpointRuns

__all__ = ["SeekpointEventStore", "SeekpointRuns"]
