"""Make effects: calls that change an outside system, journaled before and after."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, cast

from seekpoint.producers.durable.durable_process import DurableCalls, DurableProcess
from seekpoint.producers.durable.replay.call_digest import arguments_text, text_digest
from seekpoint.producers.durable.steps.call_options import callable_of, check_options, retry_of, seconds
from seekpoint.producers.durable.steps.retries import Retry
from seekpoint.schemas import bodies as b
from seekpoint.schemas.errors import InvalidSetting, Refused, ReplayDivergence

if TYPE_CHECKING:
    from seekpoint.producers.durable.effects.effect_resolution import Effect
    from seekpoint.producers.durable.steps.call_signatures import EffectCall

_NOT_CONFUSED: Mapping[str, None] = {"semantics": None, "business_key": None}
"""The options that the function is handed too, if it accepts them, or that always have a value."""


def _as_effect_call(call: Callable[..., Any]) -> EffectCall:
    """Return ``call`` as it is: for type checkers it has the signature of an effect."""
    return cast("EffectCall", call)


class EffectCalls(DurableCalls):
    """The effect calls of a process."""

    @_as_effect_call
    def effect(
        self, name: str, call: Callable[..., Any] | None = None, /, *arguments: Any,
        semantics: Effect | str = "idempotent", key: str | None = None,
        reconcile: Callable[..., Any] | None = None, connector: str | None = None, business_key: str | None = None,
        compensate: Callable[..., Any] | str | None = None, retry: Retry | None = None,
        timeout: float | timedelta | None = None, estimate: Mapping[str, Any] | None = None,
        irreversible: bool | None = None, **options: Any,
    ) -> Coroutine[Any, Any, Any]:  # fmt: skip
        """Change an outside system: ``call(*arguments, **options)``, after this owner's intent is confirmed.

        The outcome is recorded, and rebuilt as the model that the annotation of ``call`` names. An effect is in doubt
        if the owner died in between, or the call raised or timed out. An ``IDEMPOTENT`` one is then called again with
        the same key; an ``AT_MOST_ONCE`` one is settled by a reconciler, a former owner or a person. ``call`` gets
        ``idempotency_key=`` and ``business_key=`` if it accepts them. It raises ``NotDone`` if nothing was done.

        ``reconcile`` gets the same arguments and returns an ``Answer`` or a ``Reconciled``. ``connector`` names a
        registered ``Connector``, whose ``dispatch`` is called unless ``call`` is given. ``business_key`` is unique per
        connector (without one: per ``name``) across the journal. ``compensate`` is a connector's name, or a function
        that gets the same arguments, and ``output=`` if it accepts it; it is an obligation once the effect has
        succeeded. The budget admits ``estimate`` before the call, and counts an ``irreversible`` effect: by default one
        that is at-most-once and has no compensation.

        The options above are never the function's: ``InvalidOption`` names an option that neither has, and one that
        both have (make the function an effect of its own: ``@effect``).

        Raises the exception of ``call``. Raises ``EffectUnknown`` while the outcome is in doubt: let it end the run,
        and run again once the effect is settled. Raises ``EffectDuplicate``, ``EffectFailed``, ``UnknownConnector``,
        ``BudgetExceeded``, ``ReplayDivergence``.
        """
        own: dict[str, Any] = {
            "semantics": semantics, "key": key, "reconcile": reconcile, "connector": connector,
            "business_key": business_key, "compensate": compensate, "retry": retry, "timeout": timeout,
            "estimate": estimate, "irreversible": irreversible,
        }  # fmt: skip
        if call is not None:
            check_options("effect", call, options, {**own, **_NOT_CONFUSED})
        return own_effect(self._durable, name, call, arguments, options, **own)

    async def compensate(self) -> None:
        """Compensate the effects of this process that have a ``compensate``, the newest first.

        Each compensation is an effect of its own with a few attempts; one that cannot be made is stuck. Raises
        ``ObligationStuck`` if any is. Safe to call again: no effect is compensated twice.
        """
        from seekpoint.producers.durable.effects.compensation_runs import compensate, mark_compensated_by_code

        process = self._durable
        if process.is_running_code:
            mark_compensated_by_code(process)
        if process.written.owed:
            await process.session.before_unrecorded("compensate", "effect")
        await compensate(process)


def own_effect(
    process: DurableProcess, name: str, call: Callable[..., Any] | None, arguments: tuple[Any, ...],
    options: Mapping[str, Any], *, semantics: Effect | str = "idempotent", key: str | None = None,
    reconcile: Callable[..., Any] | None = None, connector: str | None = None, business_key: str | None = None,
    compensate: Callable[..., Any] | str | None = None, retry: Retry | None = None,
    timeout: float | timedelta | None = None, estimate: Mapping[str, Any] | None = None,
    irreversible: bool | None = None,
) -> Coroutine[Any, Any, Any]:  # fmt: skip
    """Return the effect where ``options`` are known to be the function's."""
    from seekpoint.producers.durable.call_spans import spanned
    from seekpoint.producers.durable.effects.effect_facts import EffectRequest
    from seekpoint.producers.durable.effects.effect_resolution import Effect
    from seekpoint.producers.durable.effects.effect_runs import EffectRun

    if semantics not in [*map(str, Effect)]:  # an enum's own `in` takes no text before Python 3.12
        raise InvalidSetting("no such semantics", semantics=repr(semantics)[:80], known=[*map(str, Effect)])
    semantics = Effect(semantics)
    if call is None and connector is None:
        raise Refused("an effect needs something to call, or a connector", process_id=process.process_id, name=name)
    _check_callables(name, call, reconcile, compensate)
    text = arguments_text(arguments, options, process.limits)
    at_most_once = semantics is Effect.AT_MOST_ONCE
    request = EffectRequest(
        name=name, call=call, arguments=arguments, options=options, arguments_json=text,
        digest=text_digest(name, text), semantics=semantics, reconcile=reconcile, connector=connector,
        business_key=business_key, compensate=compensate, retry=retry_of(retry), timeout_s=seconds(timeout),
        estimate=estimate,
        irreversible=(at_most_once and compensate is None) if irreversible is None else irreversible,
    )  # fmt: skip
    try:
        place = process.matcher.place("effect", name, request.digest, key)
    except ReplayDivergence as exc:
        from seekpoint.producers.durable.replay.differences import changed

        return changed(process.session, exc, b.EffectIntended(name=name, arguments=text))
    return process.in_order(
        place, spanned(process, "effect", name, place, text, EffectRun(process, place, request).run)
    )


def _check_callables(
    name: str,
    call: Callable[..., Any] | None,
    reconcile: Callable[..., Any] | None,
    compensate: Callable[..., Any] | str | None,
) -> None:
    """Check before the intent that each is callable: else the effect would stay in doubt, or never be compensated."""
    for given in (call, reconcile, None if isinstance(compensate, str) else compensate):
        if given is not None:
            callable_of(given, name)
    if callable(compensate):
        register(compensate)


def register(compensate: Callable[..., Any]) -> None:
    """Let obligations that name this function call it."""
    from seekpoint.producers.durable.effects.compensation_names import register_compensation

    register_compensation(compensate)
