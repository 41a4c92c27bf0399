"""Record the runs of AI agents in your own Kafka, and continue them after a crash. Import everything from here.

>>> from seekpoint import Node, agent
>>> @agent("greetings")
... async def greetings(process, name):
...     return await process.step("hello", "hello {}".format, name)
>>> async def program():
...     async with Node.in_memory() as node:
...         return await node.run(greetings, "visit-1", "Ada")
>>> import asyncio
>>> asyncio.run(program())
'hello Ada'

A name is loaded when it is first used, so ``import seekpoint`` costs next to nothing. Four modules have more names:
``seekpoint.errors``, ``seekpoint.testing``, ``seekpoint.staging`` and ``seekpoint.folds``.
"""

from importlib import import_module
from pkgutil import extend_path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from seekpoint import errors, folds, staging, testing
    from seekpoint.compose import (
        LocalCluster,
        create_topics,
    )
    from seekpoint.consumers import (
        DeadLetter,
        DeadLetters,
        Logged,
        Projector,
        Reaction,
        Reactor,
        ReactorService,
        Recovered,
        Recoverer,
        Recovery,
        Replay,
        Report,
        Tier,
        Verification,
        View,
        reactor,
    )
    from seekpoint.producers import (
        Acknowledged,
        Agent,
        Answer,
        Appended,
        Child,
        Client,
        Clock,
        ComparedCall,
        Connector,
        Connectors,
        Detail,
        Dispatcher,
        Divergence,
        Effect,
        EffectStep,
        FailedRun,
        GateAnswer,
        HealthServer,
        HistoryPoint,
        Invocation,
        Node,
        NotDone,
        Price,
        Prices,
        Process,
        ProcessDiff,
        ProcessLineage,
        ProcessPool,
        ProcessRecord,
        ProcessShared,
        PromotePlan,
        Rate,
        ReceivedSignal,
        Reconciled,
        ReplayCheck,
        ReplayMode,
        Rerun,
        Retry,
        RewindPlan,
        RunStatus,
        ScheduleStatus,
        ScoredRerun,
        Shared,
        SharedProcess,
        Step,
        SubmittedRun,
        SyncClient,
        SyncNode,
        SyncProcess,
        SystemClock,
        Turn,
        Usage,
        Versioned,
        VirtualClock,
        Worker,
        agent,
        check_replay,
        connectors,
        effect,
        register_failure,
        serve_health,
        step,
    )
    from seekpoint.schemas import (
        Conversation,
        Entry,
        Lifecycle,
        Limits,
        MemoryLog,
        Message,
        Ref,
        SeekpointError,
        Settings,
        State,
    )

__version__ = "0.1.0"
# In a checkout, each root has one package of ``seekpoint``. In place: import-linter looks at the path of the spec.
__path__[:] = extend_path(__path__, __name__)

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
    "Conversation",
    "DeadLetter",
    "DeadLetters",
    "Detail",
    "Dispatcher",
    "Divergence",
    "Effect",
    "EffectStep",
    "Entry",
    "FailedRun",
    "GateAnswer",
    "HealthServer",
    "HistoryPoint",
    "Invocation",
    "Lifecycle",
    "Limits",
    "LocalCluster",
    "Logged",
    "MemoryLog",
    "Message",
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
    "Projector",
    "PromotePlan",
    "Rate",
    "Reaction",
    "Reactor",
    "ReactorService",
    "ReceivedSignal",
    "Reconciled",
    "Recovered",
    "Recoverer",
    "Recovery",
    "Ref",
    "Replay",
    "ReplayCheck",
    "ReplayMode",
    "Report",
    "Rerun",
    "Retry",
    "RewindPlan",
    "RunStatus",
    "ScheduleStatus",
    "ScoredRerun",
    "SeekpointError",
    "Settings",
    "Shared",
    "SharedProcess",
    "State",
    "Step",
    "SubmittedRun",
    "SyncClient",
    "SyncNode",
    "SyncProcess",
    "SystemClock",
    "Tier",
    "Turn",
    "Usage",
    "Verification",
    "Versioned",
    "View",
    "VirtualClock",
    "Worker",
    "__version__",
    "agent",
    "check_replay",
    "connectors",
    "create_topics",
    "effect",
    "errors",
    "folds",
    "reactor",
    "register_failure",
    "serve_health",
    "staging",
    "step",
    "testing",
]

_HOMES = {
    "errors": "seekpoint.errors",
    "folds": "seekpoint.folds",
    "staging": "seekpoint.staging",
    "testing": "seekpoint.testing",
    "Conversation": "seekpoint.schemas",
    "DeadLetter": "seekpoint.consumers",
    "DeadLetters": "seekpoint.consumers",
    "Entry": "seekpoint.schemas",
    "Lifecycle": "seekpoint.schemas",
    "Limits": "seekpoint.schemas",
    "LocalCluster": "seekpoint.compose",
    "Logged": "seekpoint.consumers",
    "MemoryLog": "seekpoint.schemas",
    "Message": "seekpoint.schemas",
    "Projector": "seekpoint.consumers",
    "Reaction": "seekpoint.consumers",
    "Reactor": "seekpoint.consumers",
    "ReactorService": "seekpoint.consumers",
    "Recovered": "seekpoint.consumers",
    "Recoverer": "seekpoint.consumers",
    "Recovery": "seekpoint.consumers",
    "Ref": "seekpoint.schemas",
    "Replay": "seekpoint.consumers",
    "Report": "seekpoint.consumers",
    "SeekpointError": "seekpoint.schemas",
    "Settings": "seekpoint.schemas",
    "State": "seekpoint.schemas",
    "Tier": "seekpoint.consumers",
    "Verification": "seekpoint.consumers",
    "View": "seekpoint.consumers",
    "create_topics": "seekpoint.compose",
    "reactor": "seekpoint.consumers",
}
"""The package of each name that ``seekpoint.producers`` does not have; a module is its own home."""


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = _HOMES.get(name, "seekpoint.producers")
    module = import_module(home)
    found = module if home == f"{__name__}.{name}" else getattr(module, name)
    globals()[name] = found  # the next use does not come here
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
