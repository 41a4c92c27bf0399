"""Effects: calls that change the world. Written down before and after; what is in doubt is treated as in doubt."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from datetime import timedelta
from typing import Any, Generic, ParamSpec, TypeVar

from seekpoint.producers.durable.durable_process import DurableCalls
from seekpoint.producers.durable.effects.compensations import know_compensation
from seekpoint.producers.durable.effects.effect_facts import EffectRequest
from seekpoint.producers.durable.effects.effect_resolution import Effect
from seekpoint.producers.durable.effects.effect_runs import EffectRun
from seekpoint.producers.durable.effects.obligations import compensate, note_asked
from seekpoint.producers.durable.replay.call_digest import arguments_text, text_digest
from seekpoint.producers.durable.replay.differences import changed
from seekpoint.producers.durable.steps.retries import Retry
from seekpoint.producers.durable.steps.terms import callable_of, name_of, retry_of, seconds
from seekpoint.schemas import bodies as b
from seekpoint.schemas.errors import InvalidSetting, Refused, ReplayDivergence

__all__ = ["EffectCalls", "EffectStep", "effect"]

P = ParamSpec("P")
T = TypeVar("T")


class EffectCalls(DurableCalls):
    """What a process offers: ``effect`` and ``compensate``."""

    def effect(
        self, name: str, call: Callable[..., Any] | None = None, *arguments: Any,
        semantics: Effect | str = Effect.IDEMPOTENT, key: str | None = None,
        reconcile: Callable[..., Any] | None = None, connector: str | None = None, business_key: str | None = None,
        compensate: Callable[..., Any] | str | None = None, retry: Retry | None = None,
        timeout: float | timedelta | None = None, estimate: Mapping[str, Any] | None = None,
        irreversible: bool | None = None, **options: Any,
    ) -> Coroutine[Any, Any, Any]:  # fmt: skip
        """Change the world outside: ``call(*arguments, **options)``, once an intent is confirmed, as this owner.

        Its outcome is remembered. In doubt (the owner died in between, the call raised or timed out) it is called
        again with the same key if it is ``IDEMPOTENT``; if it is ``AT_MOST_ONCE`` only a reconciler, a former owner's
        evidence or a person settles it. ``call`` is handed ``idempotency_key=`` and ``business_key=`` if it takes them;
        raising ``NotDone`` says that nothing was done.

        ``reconcile`` finds out: it gets the same arguments and gives an ``Answer`` or a ``Reconciled``. ``connector``
        names a registered ``Connector``, whose ``dispatch`` is called unless ``call`` is given. ``business_key`` is
        unique per connector (without one: per ``name``) across the journal. ``compensate`` (a function that gets the
        same arguments, and ``output=`` if it takes it, or a connector's name) is owed from the moment the effect
        succeeded. ``estimate`` is held against the budget before, as is ``irreversible``: by default what is at most
        once and has no compensation.

        Raises what ``call`` raised; ``EffectUnknown`` while nobody can tell: let it end the run, and run again once it
        is settled. ``EffectDuplicate``, ``EffectFailed``, ``UnknownConnector``, ``BudgetExceeded``,
        ``ReplayDivergence``.
        """
        process = self._durable
        if semantics not in [*map(str, Effect)]:  # an enum's own `in` takes no text before Python 3.12
            raise InvalidSetting("no such semantics", semantics=repr(semantics)[:80], known=[*map(str, Effect)])
        semantics = Effect(semantics)
        if call is None and connector is None:
            raise Refused(
                "an effect needs something to call, or a connector", process_id=process.process_id, effect=name
            )
        _check_callables(name, call, reconcile, compensate)
        text = arguments_text(arguments, options, process.limits)
        at_most_once = semantics is Effect.AT_MOST_ONCE
        wanted = EffectRequest(
            name=name, call=call, arguments=arguments, options=options, arguments_json=text,
            digest=text_digest(name, text), semantics=semantics, reconcile=reconcile, connector=connector,
            business_key=business_key, compensate=compensate, retry=retry_of(retry), timeout_s=seconds(timeout),
            estimate=estimate,
            irreversible=(at_most_once and compensate is None) if irreversible is None else irreversible,
        )  # fmt: skip
        try:
            place = process.matcher.place("effect", name, wanted.digest, key)
        except ReplayDivergence as exc:
            return changed(process.session, exc, b.EffectIntended(name=name, arguments=text))
        return process.in_order(place, EffectRun(process, place, wanted).through)

    async def compensate(self) -> None:
        """Take back what the effects of this process did, the newest first, as far as they have a ``compensate``.

        Each is an effect of its own with a few attempts; those that cannot be made are left, visibly. Raises
        ``ObligationStuck`` if any is. Safe to call again: what was taken back is not taken back twice.
        """
        process = self._durable
        if process.is_running_code:
            note_asked(process)
        if process.written.obligations:
            await process.session.before_unrecorded("compensate", "effect")
        await compensate(process)


def _check_callables(
    name: str,
    call: Callable[..., Any] | None,
    reconcile: Callable[..., Any] | None,
    compensate: Callable[..., Any] | str | None,
) -> None:
    """Before the intent: what cannot be called would leave an effect in doubt, or a debt that nobody can pay."""
    for given in (call, reconcile, None if isinstance(compensate, str) else compensate):
        if given is not None:
            callable_of(given, name)
    if callable(compensate):
        know_compensation(compensate)


class EffectStep(Generic[P, T]):
    """A function that is an effect wherever it is called: ``await refund(process, 5)``. Made by ``@effect``."""

    def __init__(self, call: Callable[P, Any], name: str, how: Mapping[str, Any]) -> None:
        self.call = call
        """The function itself, for tests."""
        self.name = name
        self._how = how
        self.__doc__ = call.__doc__

    def __call__(self, process: EffectCalls, *arguments: P.args, **options: P.kwargs) -> Coroutine[Any, Any, T]:
        """The effect of ``process``; ``key=`` and ``business_key=`` are the effect's."""
        return process.effect(self.name, self.call, *arguments, **{**self._how, **options})


def effect(name: str | None = None, **how: Any) -> Callable[[Callable[..., Any]], EffectStep[..., Any]]:
    """Make an effect of a function; its name is the function's unless given, ``how`` is as of ``process.effect``.

    ``@effect(semantics=Effect.AT_MOST_ONCE, reconcile=find_refund)`` over ``async def refund(amount, *,
    idempotency_key)``; then ``await refund(process, 5, business_key="order-4711")``.
    """

    if callable(how.get("compensate")):
        know_compensation(how["compensate"])

    def made(call: Callable[..., Any]) -> EffectStep[..., Any]:
        return EffectStep(call, name or name_of(call), how)

    return made
