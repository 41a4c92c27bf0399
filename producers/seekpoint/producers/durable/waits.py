"""Everything a process can wait for or read from outside, in one mixin."""

from __future__ import annotations

from seekpoint.producers.durable.children import ChildCalls
from seekpoint.producers.durable.gates import GateCalls
from seekpoint.producers.durable.receipts import ReceiveCalls
from seekpoint.producers.durable.samples import SampleCalls
from seekpoint.producers.durable.shared import SharedCalls
from seekpoint.producers.durable.timers import TimerCalls
from seekpoint.producers.durable.waiting import WaitSupport

__all__ = ["WaitCalls"]


class WaitCalls(SampleCalls, TimerCalls, GateCalls, ReceiveCalls, ChildCalls, SharedCalls, WaitSupport):
    """What a process offers: samples, timers, gates, mail, children, shared values; and how it is cancelled."""
