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

from seekpoint.producers.durable.call_results import GateAnswer, Turn, Versioned
from seekpoint.producers.durable.content.invocation import Invocation
from seekpoint.producers.durable.decisions.prices import Price, Prices
from seekpoint.producers.durable.decisions.usage import Usage
from seekpoint.producers.durable.effects.connectors import Connector, Connectors, NotDone, Reconciled, connectors
from seekpoint.producers.durable.effects.effect_calls import EffectStep, effect
from seekpoint.producers.durable.effects.effect_resolution import Answer, Effect
from seekpoint.producers.durable.failures.failure_classes import register_failure
from seekpoint.producers.durable.replay.conduct import Detail, ReplayMode
from seekpoint.producers.durable.session import Acknowledged
from seekpoint.producers.durable.steps.agent import Agent, agent
from seekpoint.producers.durable.steps.retries import Retry
from seekpoint.producers.durable.steps.step_calls import Step, step
from seekpoint.producers.durable.waits.child_calls import Child
from seekpoint.producers.durable.waits.shared_values import ProcessShared
from seekpoint.producers.node import Node
from seekpoint.producers.process import Process
from seekpoint.producers.shared_client import Shared
from seekpoint.producers.writer.clocks import Clock, SystemClock, VirtualClock

if TYPE_CHECKING:
    from seekpoint.producers import testing
    from seekpoint.producers.client import Client, RunStatus, SubmittedRun
    from seekpoint.producers.dispatch.dispatcher import Dispatcher
    from seekpoint.producers.durable.steps.rates import Rate
    from seekpoint.producers.failed_runs import FailedRun
    from seekpoint.producers.health.serve_health import HealthServer, serve_health
    from seekpoint.producers.history.comparing import ComparedCall, ProcessDiff
    from seekpoint.producers.history.history_points import HistoryPoint
    from seekpoint.producers.history.rewinding import RewindPlan
    from seekpoint.producers.replay_checking import Divergence, ReplayCheck, check_replay
    from seekpoint.producers.schedule_table import ScheduleStatus
    from seekpoint.producers.sync import SyncClient, SyncNode, SyncProcess
    from seekpoint.producers.worker.worker import Worker

__all__ = [
    "Acknowledged",
    "Agent",
    "Answer",
    "Child",
    "Client",
    "Clock",
    "ComparedCall",
    "Connector",
    "Connectors",
    "Detail",
    "Dispatcher",
    "Divergence",
    "Effect",
    "EffectStep",
    "FailedRun",
    "GateAnswer",
    "HealthServer",
    "HistoryPoint",
    "Invocation",
    "Node",
    "NotDone",
    "Price",
    "Prices",
    "Process",
    "ProcessDiff",
    "ProcessShared",
    "Rate",
    "Reconciled",
    "ReplayCheck",
    "ReplayMode",
    "Retry",
    "RewindPlan",
    "RunStatus",
    "ScheduleStatus",
    "Shared",
    "Step",
    "SubmittedRun",
    "SyncClient",
    "SyncNode",
    "SyncProcess",
    "SystemClock",
    "Turn",
    "Usage",
    "Versioned",
    "VirtualClock",
    "Worker",
    "agent",
    "check_replay",
    "connectors",
    "effect",
    "register_failure",
    "serve_health",
    "step",
    "testing",
]

_LATER = {
    "Client": "client",
    "ComparedCall": "history.comparing",
    "Dispatcher": "dispatch.dispatcher",
    "Divergence": "replay_checking",
    "FailedRun": "failed_runs",
    "HealthServer": "health.serve_health",
    "HistoryPoint": "history.history_points",
    "ProcessDiff": "history.comparing",
    "Rate": "durable.steps.rates",
    "ReplayCheck": "replay_checking",
    "RewindPlan": "history.rewinding",
    "RunStatus": "client",
    "ScheduleStatus": "schedule_table",
    "SubmittedRun": "client",
    "SyncClient": "sync",
    "SyncNode": "sync",
    "SyncProcess": "sync",
    "Worker": "worker.worker",
    "check_replay": "replay_checking",
    "serve_health": "health.serve_health",
    "testing": "testing",
}
"""Names that most programs do not use, with their modules, which are loaded on first use."""


def __getattr__(name: str) -> Any:
    """Load a name of ``_LATER`` on first use."""
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = import_module(f"{__name__}.{_LATER[name]}")
    return module if name == _LATER[name] else getattr(module, name)


def __dir__() -> list[str]:
    """Return all public names, also those that are not loaded yet."""
    return sorted({*globals(), *__all__})
