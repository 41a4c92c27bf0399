"""LangGraph on a journal: the checkpointer ``SeekpointSaver``, the store ``SeekpointStore``. Extra: ``langgraph``.

    a thread of LangGraph        a process of the journal, which any node may write to
    put, put_writes              one entry; calls that wait for each other share one
    the newest checkpoint        the process's context: reading it reads no history
    older checkpoints, forks     the process's history
    a namespace of a store       a process, whose context has the items

>>> import asyncio
>>> from seekpoint import Node
>>> from seekpoint.adapters.langgraph import SeekpointSaver
>>> from langgraph.checkpoint.base import empty_checkpoint
>>> async def program():
...     async with Node.in_memory() as node:
...         saver = SeekpointSaver(node)
...         thread = {"configurable": {"thread_id": "thread-7", "checkpoint_ns": ""}}
...         await saver.aput(thread, empty_checkpoint(), {"source": "input", "step": -1}, {})
...         return await saver.aget_tuple(thread)
>>> asyncio.run(program()).metadata
{'source': 'input', 'step': -1}
"""

from seekpoint.adapters.langgraph.saver import SeekpointSaver
from seekpoint.adapters.langgraph.store import SeekpointStore

__all__ = ["SeekpointSaver", "SeekpointStore"]
