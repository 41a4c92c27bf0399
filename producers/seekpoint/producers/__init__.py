"""Writing a journal: nodes, the processes they own, and the one way an entry gets into the log.

>>> import asyncio
>>> from seekpoint.producers import Node
>>> async def tutorial():
...     async with Node.in_memory() as node:
...         async with node.open("case-17") as process:
...             await process.update("status", "checking")
...             await process.say("user", "Where is my order?")
...         return await node.recover("case-17")
>>> recovered = asyncio.run(tutorial())
>>> recovered.state.context, recovered.state.conversation[0].content, recovered.report.entries_applied
({'status': 'checking'}, 'Where is my order?', 2)
"""

from seekpoint.producers.clocks import Clock, SystemClock, VirtualClock
from seekpoint.producers.durable.agents import Agent, agent
from seekpoint.producers.durable.checking import Divergence, ReplayCheck, check_replay
from seekpoint.producers.durable.children import Child
from seekpoint.producers.durable.conduct import Detail, Replay
from seekpoint.producers.durable.connectors import Connector, Connectors, NotDone, Reconciled, connectors
from seekpoint.producers.durable.dispatcher import Dispatcher
from seekpoint.producers.durable.effects import EffectStep, effect
from seekpoint.producers.durable.gates import GateAnswer
from seekpoint.producers.durable.resolution import Answer, Effect
from seekpoint.producers.durable.retries import Retry
from seekpoint.producers.durable.shared import ProcessShared, Shared, Versioned
from seekpoint.producers.durable.steps import Step, step
from seekpoint.producers.durable.turns import Turn
from seekpoint.producers.invocation import Invocation
from seekpoint.producers.node import Node
from seekpoint.producers.process import Acknowledged, Process

__all__ = [
    "Acknowledged",
    "Agent",
    "Answer",
    "Child",
    "Clock",
    "Connector",
    "Connectors",
    "Detail",
    "Dispatcher",
    "Divergence",
    "Effect",
    "EffectStep",
    "GateAnswer",
    "Invocation",
    "Node",
    "NotDone",
    "Process",
    "ProcessShared",
    "Reconciled",
    "Replay",
    "ReplayCheck",
    "Retry",
    "Shared",
    "Step",
    "SystemClock",
    "Turn",
    "Versioned",
    "VirtualClock",
    "agent",
    "check_replay",
    "connectors",
    "effect",
    "step",
]
