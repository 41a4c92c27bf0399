"""No secret of the settings gets into the journal, or into a log, by way of a failure's text. In memory."""

from __future__ import annotations

import asyncio
import logging
import traceback
from base64 import b64encode
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from seekpoint.producers import Answer, Effect, Node, NotDone, Process, Reconciled, agent, register_failure
from seekpoint.producers.durable.failures.recorded_failures import failure_text, recorded_failure
from seekpoint.producers.node import runtime_of
from seekpoint.producers.testing import history_of
from seekpoint.schemas import MemoryLog
from seekpoint.schemas import bodies as b
from seekpoint.schemas.config.error_texts import traceback_of
from seekpoint.schemas.config.secrets import MASK, scrub_value
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.errors import EffectFailed, SeekpointError, StepFailed

SECRET = "hu'sh+7/$(.*)"


@register_failure
class Leaky(Exception):
    """A client's error that tells how it was called."""

    def __init__(self, message: str, **more: Any) -> None:
        super().__init__(message, more)
        self.headers = more


class Unregistered(Exception):
    """As Leaky, but of a class that is not rebuilt."""


def leaky(secret: str, kind: type[Exception] = Leaky) -> Exception:
    """An exception that holds the secret in every place that an exception has, in several spellings."""
    basic = b64encode(f"ann:{secret}".encode()).decode()
    error = kind(f"no answer from https://ann:{quote(secret, '')}@bank, {secret!r}, Basic {basic}")
    error.args = (*error.args, secret, [secret.encode(), {secret: secret}])
    vars(error).update(url=f"https://{secret}@bank", raw=secret.encode())
    error.add_note(f"called with {secret}")
    error.__cause__ = ValueError(secret)
    return error


def known(secret: str) -> dict[str, Any]:
    return {"kafka": {"sasl.password": secret}, "redis": {"password": secret}}


@agent("child")
async def child(process: Process, _: Any) -> None:
    """Fails of its own."""
    raise leaky(CURRENT[0])


CURRENT = [SECRET]
"""What the settings of the node hold now: a child's input would be journaled."""


async def fail_everywhere(node: Node, secret: str) -> None:
    """All ways by which an exception's text is journaled."""

    def fail(kind: type[Exception] = Leaky) -> Callable[..., Any]:
        def body(*_: Any) -> Any:
            raise leaky(secret, kind)

        return body

    async with node.open("p") as process:
        calls: list[Callable[[], Any]] = [
            lambda: process.step("look", fail()),
            lambda: process.step("look", fail(Unregistered)),
            lambda: process.step("look", fail(OSError)),
            lambda: process.effect("pay", fail()),
            lambda: process.effect("pay", fail(NotDone)),
            lambda: process.effect("pay", fail(), semantics=Effect.AT_MOST_ONCE),
            lambda: process.effect("pay", fail(), reconcile=fail(), semantics=Effect.AT_MOST_ONCE),
            lambda: process.effect(
                "pay", fail(), reconcile=lambda: Reconciled(Answer.FAILED, reason=secret), semantics=Effect.AT_MOST_ONCE
            ),
            lambda: process.decide("ask", fail(), {"model": "m"}),
            lambda: process.spawn(child, "kid").result(),
        ]
        for call in calls:
            with pytest.raises((Leaky, StepFailed, OSError, NotDone, SeekpointError)):
                await call()
        await process.record_error(leaky(secret), f"trace with {secret}")
        await process.transition("starting")
        await process.transition("running")
        await process.suspend(f"because of {secret}")
        await process.transition("running")
        with pytest.raises(Leaky):
            async with process.invocation("message", {}):
                raise leaky(secret)
        await process.release(f"gave up: {secret}")
    with pytest.raises(Leaky):
        async with node.open("q"):
            raise leaky(secret)
    await node.verdict("p", "pay:3", "failed", reason=secret)
    await node.deny("p", "gate", reason=secret, in_advance=True)
    await node.cancel("p", reason=secret)


def journaled(log: MemoryLog) -> list[bytes]:
    return [
        record.value or b""
        for partition in range(log.partitions)
        for batch in log.read(partition, 0, log.watermarks(partition).high)
        for record in batch.records
    ]


SECRETS = st.text(st.characters(codec="utf-8", exclude_characters="*"), min_size=5, max_size=12).filter(
    # A word of the journal's own is no leak, and neither is a tag of its JSON, as $bytes.
    lambda secret: not secret.isascii() or not secret.removeprefix("$").isalpha()
)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(SECRETS)
@example(SECRET)
@example("s3cr3t")
@example('"\\\n%2B ')
def test_no_secret_is_in_any_journaled_byte(caplog: pytest.LogCaptureFixture, secret: str) -> None:
    """Nor in a log: messages, arguments, attributes, notes, causes, tracebacks, reasons, in every spelling."""
    log = MemoryLog()

    async def run() -> None:
        async with Node.in_memory(log, **known(secret)) as node:
            await fail_everywhere(node, secret)

    CURRENT[0] = secret
    caplog.clear()
    with caplog.at_level(logging.INFO):
        asyncio.run(run())
    told = [*journaled(log), *(logging.Formatter().format(one).encode() for one in caplog.records)]
    assert len(told) > 30
    for value in told:
        assert scrub_value(value, {secret}) == value
    assert sum(MASK.encode() in value for value in told) > 15


async def test_a_verdict_that_another_program_told_is_scrubbed_as_it_is_taken() -> None:
    """Its writer may not know the secret; the owner that settles by it does."""
    log = MemoryLog()
    async with Node.in_memory(log) as other, Node.in_memory(log, **known(SECRET)) as node:
        async with node.open("p") as process:
            for error in (None, failure_text(leaky(SECRET), other.settings)):
                key = f"pay-{error is None}"
                told = b.EffectVerdict(key=key, outcome="failed", output="null", error=error, reason=SECRET)
                await runtime_of(other).append_external("p", told)
                with pytest.raises((EffectFailed, Leaky)) as caught:
                    await process.effect(
                        "pay", failing_call, key=key, semantics=Effect.AT_MOST_ONCE, reconcile=failing_call
                    )
                assert SECRET not in str(caught.value)
        settled = [one.body for one in history_of(log, "p") if isinstance(one.body, b.EffectSettled)]
        assert len(settled) == 2
        assert all(MASK in str(one.error) and SECRET not in str(one.error) for one in settled)


def failing_call() -> None:
    """Leaves the effect in doubt."""
    raise TimeoutError


@pytest.mark.parametrize("kind", [Leaky, Unregistered])
async def test_code_sees_the_masked_text_in_the_first_run_too(kind: type[Exception]) -> None:
    """Else what it writes of it would differ from run to run, and hold the secret. Its cause does not bring it back."""
    log = MemoryLog()
    seen = []

    @agent("tells")
    async def tells(process: Process, _: Any) -> str:
        try:
            await process.step("look", fail, kind.__name__)
        except (Leaky, StepFailed) as exc:
            seen.append((type(exc), exc.args, "".join(traceback.format_exception(exc))))
            await process.update("said", repr(exc))
        return "told" if len(seen) > 1 else str(1 / 0)

    def fail(_: str) -> None:
        raise leaky(SECRET, kind)

    async with Node.in_memory(log, **known(SECRET)) as node:
        with pytest.raises(ZeroDivisionError):
            await node.run(tells, "p", None)
        assert await node.run(tells, "p", None) == "told"
    assert seen[0][:2] == seen[1][:2]
    assert seen[0][0] is (Leaky if kind is Leaky else StepFailed)
    assert not any("hu" in one[2].replace("hypothesis", "") and "sh+7" in one[2] for one in seen)


@pytest.mark.parametrize("answer", [7, object()])
async def test_an_error_without_a_secret_is_raised_as_it_is(answer: object) -> None:
    """Unless it has what JSON cannot carry, which no later run would have."""
    error = Leaky("no", answer=answer)
    async with Node.in_memory(**known(SECRET)) as node, node.open("p") as process:

        async def fail() -> None:
            raise error

        with pytest.raises(Leaky) as caught:
            await process.step("look", fail)
        assert (caught.value is error) is (answer == 7)


async def test_a_class_that_is_rebuilt_keeps_its_name() -> None:
    """Whatever the secret is: the name of known code is none. That of an unknown class may hold one."""
    text = failure_text(KeyError("Key"), Settings(kafka={"sasl.password": "Key"}))
    assert isinstance(recorded_failure(text), KeyError)
    made = type(SECRET, (Exception,), {})
    assert SECRET not in failure_text(made("x"), Settings(kafka={"sasl.password": SECRET}))


@pytest.mark.parametrize("length", range(40, 400, 17))
def test_a_traceback_that_is_cut_holds_no_secret(length: int) -> None:
    """Its end is kept; half a secret at its beginning would be found by nobody."""
    secret = "hush" * 12
    text = traceback_of(leaky(secret), Settings(kafka={"sasl.password": secret}), length)
    assert len(text) <= length
    assert "hush" not in text
