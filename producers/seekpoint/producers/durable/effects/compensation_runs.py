"""Compensate effects: a process that is cancelled or fails has an obligation for each effect with a compensation.

A compensation is an effect of its own, ``undo/KEY``, with a key of its own and a bounded number of attempts. One that
cannot be made is stuck: it stays in the state for a person to see, and the others are made all the same.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from seekpoint.producers.durable.call_spans import spanned
from seekpoint.producers.durable.effects.compensation_names import CONNECTOR, UNDO, compensation_named
from seekpoint.producers.durable.effects.effect_facts import EffectRequest
from seekpoint.producers.durable.effects.effect_runs import EffectRun
from seekpoint.producers.durable.replay.call_digest import text_digest
from seekpoint.producers.durable.replay.history_matcher import CallPlace
from seekpoint.producers.durable.steps.annotations import rebuilt_arguments
from seekpoint.producers.durable.steps.retries import Retry
from seekpoint.schemas import bodies as b
from seekpoint.schemas.config.error_texts import error_line
from seekpoint.schemas.errors import (
    EffectFailed,
    EffectUnknown,
    LimitExceeded,
    ObligationStuck,
    RecordedValueInvalid,
    UnknownConnector,
)
from seekpoint.schemas.state.calls import Obligation
from seekpoint.schemas.values.json_values import load

if TYPE_CHECKING:
    from seekpoint.producers.durable.durable_process import DurableProcess

logger = logging.getLogger("seekpoint.producers")

COMPENSATION_RETRY = Retry(attempts=5, backoff_s=0.5, backoff_max_s=30.0)


async def compensate(process: DurableProcess) -> None:
    """Make all compensations that are due, the newest effect's first. Raises ``ObligationStuck`` if any is left.

    It reads the log first: somebody may have revoked an effect. What is revoked meanwhile counts if it is not begun.
    """
    left: list[str] = []
    cause: Exception | None = None
    keys = [one.key for one in reversed(process.written.obligations)]
    if keys:
        await process.effects.read_log()
    for key in keys:
        obligation = next((one for one in process.written.obligations if one.key == key), None)
        if obligation is None:
            continue
        try:
            await settle_obligation(process, obligation)
        except (EffectUnknown, EffectFailed, UnknownConnector, RecordedValueInvalid) as exc:
            logger.warning(
                "%s: the compensation of %s is still due: %s",
                process.process_id,
                obligation.key,
                error_line(exc, process.settings),
            )
            left.append(obligation.key)
            cause = cause or exc
    if left:
        raise ObligationStuck(
            "compensations are still owed", process_id=process.process_id, keys=left
        ) from cause  # fmt: skip


def mark_compensated_by_code(process: DurableProcess) -> None:
    """Record that the agent's own code compensates its effects, so that it goes on past them when it runs again."""
    _mark(process, [f"{UNDO}{obligation.key}" for obligation in process.written.owed])


def mark_code_failed(process: DurableProcess) -> None:
    """Record that the code failed after it compensated effects: their calls raise that when it runs again."""
    marks = [mark for mark in process.written.patches if mark.startswith(UNDO) and not mark.endswith("/")]
    _mark(process, [f"{mark}/" for mark in marks])


def _mark(process: DurableProcess, marks: list[str]) -> None:
    """Write the marks as patch markers, which also decide how code runs again; names of patches have no slash."""
    for mark in marks:
        if mark not in process.written.patches:
            with suppress(LimitExceeded):  # the compensations are made without the mark, too
                process.send(b.PatchMarked(mark))


async def settle_obligation(process: DurableProcess, obligation: Obligation) -> None:
    effect = process.written.calls.get(obligation.key)
    if obligation.status == "revoked" or (effect is not None and effect.status == "failed"):
        await process.append(b.ObligationSettled(key=obligation.key, outcome="dropped"))
        return
    try:
        if effect is not None and effect.status != "succeeded":
            raise EffectUnknown(
                "nobody can tell whether there is anything to compensate",
                process_id=process.process_id, key=obligation.key, status=effect.status,
            )  # fmt: skip
        await _run(process, obligation)
    except (EffectUnknown, EffectFailed):
        if obligation.status != "stuck":
            await process.append(b.ObligationSettled(key=obligation.key, outcome="stuck"))
        raise
    await process.append(b.ObligationSettled(key=obligation.key, outcome="done"))


async def _run(process: DurableProcess, obligation: Obligation) -> None:
    row = load(obligation.arguments_json)
    given, output = load(row["asked"]), load(row["output"])
    arguments, options = (given["arguments"], given["options"]) if isinstance(given, dict) else (given, {})
    connector = obligation.name.removeprefix(CONNECTOR) if obligation.name.startswith(CONNECTOR) else None
    key = f"{UNDO}{obligation.key}"
    call = None if connector else _callable(process, obligation)
    function = call or _dispatch(process, connector)
    given, taken = (tuple(arguments), options) if function is None else rebuilt_arguments(
        function, arguments, options, key
    )  # fmt: skip
    extra = {"output": output} if function is None else rebuilt_arguments(function, (), {"output": output}, key)[1]
    request = EffectRequest(
        name=obligation.name,
        call=call,
        arguments=given,
        options=taken,
        arguments_json=row["asked"],
        digest=text_digest(key, row["asked"]),
        connector=connector,
        compensates=obligation.key,
        retry=COMPENSATION_RETRY,
        extra=extra,
    )
    place = CallPlace(key, 0, process.written.calls.get(key), process.matcher.main)  # position 0: in no order
    with process.cancellation.compensating():
        await spanned(process, "effect", request.name, place, row["asked"], EffectRun(process, place, request).run)()


def _dispatch(process: DurableProcess, connector: str | None) -> Callable[..., Any] | None:
    known = process.effects.connectors
    return known[connector].dispatch if connector is not None and connector in known else None


def _callable(process: DurableProcess, obligation: Obligation) -> Callable[..., Any]:
    """Return the function that this run's code named, else a registered one of that name."""
    found = process.effects.compensations.get(obligation.key) or compensation_named(obligation.name)
    if callable(found):
        return found
    raise UnknownConnector(
        "the compensation of an effect is not known here", process_id=process.process_id, key=obligation.key,
        compensation=obligation.name,
        hint="import the module that declares it (@effect(compensate=FUNCTION)), or name a connector",
    )  # fmt: skip
