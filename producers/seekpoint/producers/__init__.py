"""Writing a journal: nodes, the processes they own, and the one way an entry gets into the log.

>>> import asyncio
>>> from seekpoint import Node
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

from typing import TYPE_CHECKING

from seekpoint.producers.durable.call_results import GateAnswer, ReceivedSignal, Turn, Versioned
from seekpoint.producers.durable.effects.effect_functions import EffectStep, effect
from seekpoint.producers.durable.replay.conduct import Detail, ReplayMode
from seekpoint.producers.durable.session import Acknowledged
from seekpoint.producers.durable.steps.agent import Agent, agent
from seekpoint.producers.durable.steps.retries import Retry
from seekpoint.producers.durable.steps.step_functions import Step, step
from seekpoint.producers.durable.waits.shared_values import ProcessShared
from seekpoint.producers.node import Node
from seekpoint.producers.process import Process
from seekpoint.producers.writer.clocks import Clock, SystemClock, VirtualClock
from seekpoint.schemas.late_names import late_names

if TYPE_CHECKING:
    from seekpoint.producers import testing
    from seekpoint.producers.client import Client, RunStatus, SubmittedRun
    from seekpoint.producers.dispatch.dispatcher import Dispatcher
    from seekpoint.producers.durable.content.invocation import Invocation
    from seekpoint.producers.durable.decisions.prices import Price, Prices
    from seekpoint.producers.durable.decisions.usage import Usage
    from seekpoint.producers.durable.effects.connectors import Connector, Connectors, NotDone, Reconciled, connectors
    from seekpoint.producers.durable.effects.effect_resolution import Answer, Effect
    from seekpoint.producers.durable.failures.failure_classes import register_failure
    from seekpoint.producers.durable.steps.rates import Rate
    from seekpoint.producers.durable.waits.child_runs import Child
    from seekpoint.producers.health.serve_health import HealthServer, serve_health
    from seekpoint.producers.history.comparing import ComparedCall, ProcessDiff
    from seekpoint.producers.history.history_points import HistoryPoint
    from seekpoint.producers.history.lineages import ProcessLineage
    from seekpoint.producers.history.many_reruns import ScoredRerun
    from seekpoint.producers.history.process_records import ProcessRecord
    from seekpoint.producers.history.promoting import PromotePlan
    from seekpoint.producers.history.rerunning import Rerun
    from seekpoint.producers.history.rewinding import RewindPlan
    from seekpoint.producers.process_pool import ProcessPool
    from seekpoint.producers.replay_checking import Divergence, ReplayCheck, check_replay
    from seekpoint.producers.runs.failed_runs import FailedRun
    from seekpoint.producers.runs.schedule_table import ScheduleStatus
    from seekpoint.producers.shared_client import Shared
    from seekpoint.producers.shared_writing.append_request import Appended
    from seekpoint.producers.shared_writing.shared_process import SharedProcess
    from seekpoint.producers.sync import SyncClient, SyncNode, SyncProcess
    from seekpoint.producers.worker.agent_worker import Worker
else:  # loaded at first use
    __getattr__, __dir__ = late_names(
        __name__,
        {
            "Answer": "seekpoint.producers.durable.effects.effect_resolution",
            "Appended": "seekpoint.producers.shared_writing.append_request",
            "Child": "seekpoint.producers.durable.waits.child_runs",
            "Client": "seekpoint.producers.client",
            "ComparedCall": "seekpoint.producers.history.comparing",
            "Connector": "seekpoint.producers.durable.effects.connectors",
            "Connectors": "seekpoint.producers.durable.effects.connectors",
            "Dispatcher": "seekpoint.producers.dispatch.dispatcher",
            "Divergence": "seekpoint.producers.replay_checking",
            "Effect": "seekpoint.producers.durable.effects.effect_resolution",
            "FailedRun": "seekpoint.producers.runs.failed_runs",
            "HealthServer": "seekpoint.producers.health.serve_health",
            "HistoryPoint": "seekpoint.producers.history.history_points",
            "Invocation": "seekpoint.producers.durable.content.invocation",
            "NotDone": "seekpoint.producers.durable.effects.connectors",
            "Price": "seekpoint.producers.durable.decisions.prices",
            "Prices": "seekpoint.producers.durable.decisions.prices",
            "ProcessDiff": "seekpoint.producers.history.comparing",
            "ProcessLineage": "seekpoint.producers.history.lineages",
            "ProcessPool": "seekpoint.producers.process_pool",
            "ProcessRecord": "seekpoint.producers.history.process_records",
            "PromotePlan": "seekpoint.producers.history.promoting",
            "Rate": "seekpoint.producers.durable.steps.rates",
            "Reconciled": "seekpoint.producers.durable.effects.connectors",
            "ReplayCheck": "seekpoint.producers.replay_checking",
            "Rerun": "seekpoint.producers.history.rerunning",
            "RewindPlan": "seekpoint.producers.history.rewinding",
            "RunStatus": "seekpoint.producers.client",
            "ScheduleStatus": "seekpoint.producers.runs.schedule_table",
            "ScoredRerun": "seekpoint.producers.history.many_reruns",
            "Shared": "seekpoint.producers.shared_client",
            "SharedProcess": "seekpoint.producers.shared_writing.shared_process",
            "SubmittedRun": "seekpoint.producers.client",
            "SyncClient": "seekpoint.producers.sync",
            "SyncNode": "seekpoint.producers.sync",
            "SyncProcess": "seekpoint.producers.sync",
            "Usage": "seekpoint.producers.durable.decisions.usage",
            "Worker": "seekpoint.producers.worker.agent_worker",
            "check_replay": "seekpoint.producers.replay_checking",
            "connectors": "seekpoint.producers.durable.effects.connectors",
            "register_failure": "seekpoint.producers.durable.failures.failure_classes",
            "serve_health": "seekpoint.producers.health.serve_health",
            "testing": "seekpoint.producers.testing",
        },
    )

__all__ = [
    "Acknowledged",
    "Agent",
    "Answer",
    "Appended",
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
    "ProcessLineage",
    "ProcessPool",
    "ProcessRecord",
    "ProcessShared",
    "PromotePlan",
    "Rate",
    "ReceivedSignal",
    "Reconciled",
    "ReplayCheck",
    "ReplayMode",
    "Rerun",
    "Retry",
    "RewindPlan",
    "RunStatus",
    "ScheduleStatus",
    "ScoredRerun",
    "Shared",
    "SharedProcess",
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
