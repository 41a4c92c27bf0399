"""Everything a process can wait for or read from outside, in one mixin."""

from __future__ import annotations

from seekpoint.producers.durable.steps.sample_calls import SampleCalls
from seekpoint.producers.durable.waits.child_calls import ChildCalls
from seekpoint.producers.durable.waits.gate_calls import GateCalls
from seekpoint.producers.durable.waits.mail_calls import ReceiveCalls
from seekpoint.producers.durable.waits.shared_values import SharedCalls
from seekpoint.producers.durable.waits.timer_calls import TimerCalls
from seekpoint.producers.durable.waits.waiting import WaitSupport

__all__ = ["WaitCalls"]


class WaitCalls(SampleCalls, TimerCalls, GateCalls, ReceiveCalls, ChildCalls, SharedCalls, WaitSupport):
    """What a process offers: samples, timers, gates, mail, children, shared values; and how it is cancelled."""
