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

from importlib import import_module
from typing import TYPE_CHECKING, Any

from seekpoint.producers.clocks import Clock, SystemClock, VirtualClock
from seekpoint.producers.durable.agents import Agent, agent
from seekpoint.producers.durable.children import Child
from seekpoint.producers.durable.conduct import Detail, Replay
from seekpoint.producers.durable.connectors import Connector, Connectors, NotDone, Reconciled, connectors
from seekpoint.producers.durable.effects import EffectStep, effect
from seekpoint.producers.durable.failure_classes import register_failure
from seekpoint.producers.durable.gates import GateAnswer
from seekpoint.producers.durable.prices import Price, Prices
from seekpoint.producers.durable.resolution import Answer, Effect
from seekpoint.producers.durable.retries import Retry
from seekpoint.producers.durable.shared import ProcessShared, Shared, Versioned
from seekpoint.producers.durable.steps import Step, step
from seekpoint.producers.durable.turns import Turn
from seekpoint.producers.durable.usage import Usage
from seekpoint.producers.invocation import Invocation
from seekpoint.producers.node import Node
from seekpoint.producers.process import Acknowledged, Process

if TYPE_CHECKING:
    from seekpoint.producers import testing
    from seekpoint.producers.durable.checking import Divergence, ReplayCheck, check_replay
    from seekpoint.producers.durable.dispatcher import Dispatcher
    from seekpoint.producers.sync import SyncNode, SyncProcess

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
    "Price",
    "Prices",
    "Process",
    "ProcessShared",
    "Reconciled",
    "Replay",
    "ReplayCheck",
    "Retry",
    "Shared",
    "Step",
    "SyncNode",
    "SyncProcess",
    "SystemClock",
    "Turn",
    "Usage",
    "Versioned",
    "VirtualClock",
    "agent",
    "check_replay",
    "connectors",
    "effect",
    "register_failure",
    "step",
    "testing",
]

_LATER = {
    "Dispatcher": "durable.dispatcher",
    "Divergence": "durable.checking",
    "ReplayCheck": "durable.checking",
    "SyncNode": "sync",
    "SyncProcess": "sync",
    "check_replay": "durable.checking",
    "testing": "testing",
}
"""What a node of a fleet never loads, and where it is: loaded when first asked for."""


def __getattr__(name: str) -> Any:
    """What is ``_LATER``."""
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = import_module(f"{__name__}.{_LATER[name]}")
    return module if name == _LATER[name] else getattr(module, name)


def __dir__() -> list[str]:
    """Also what is not loaded yet: completion and ``help`` show the whole door."""
    return sorted({*globals(), *__all__})
