"""What a call was asked, when it is tried again, and how a failure is remembered. Plain data."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seekpoint.producers import register_failure
from seekpoint.producers.durable.failures.recorded_failures import (
    failure_text,
    failure_to_raise,
    is_failure,
    recorded_failure,
)
from seekpoint.producers.durable.replay.call_digest import arguments_text, text_digest
from seekpoint.producers.durable.steps.agent import Agent, agent
from seekpoint.producers.durable.steps.retries import ONCE, Retry
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.errors import (
    Fenced,
    InvalidName,
    InvalidSetting,
    LimitExceeded,
    Refused,
    ReplayDivergence,
    StepFailed,
    UnserializableValue,
)
from seekpoint.schemas.values.json_values import load


def digest(*arguments: Any, **options: Any) -> str:
    return text_digest("look", arguments_text(arguments, options))


# --- digests
@pytest.mark.parametrize(
    "values",
    [
        (1, 1.0, True, "1", Decimal(1), b"1", (1,), [1], {"1": 1}, None, 0, False, "", 0.0, -0.0),
    ],
)
def test_every_type_and_value_has_a_digest_of_its_own(values: tuple[Any, ...]) -> None:
    """1, 1.0, True and "1" differ, as do an empty text and None."""
    assert len({digest(value) for value in values}) == len(values)


def test_arguments_and_options_are_not_mistaken_for_each_other() -> None:
    """Nor for a dict that looks like both."""
    asked = [digest("a", limit=3), digest("a", {"limit": 3}), digest({"arguments": ["a"], "options": {"limit": 3}})]
    assert len({*asked, digest("a"), digest("a", limit=4)}) == 5
    assert digest() != digest(None)


def test_the_name_belongs_to_the_digest() -> None:
    """And cannot run into the arguments."""
    assert text_digest("a", "b") != text_digest("b", "b")
    assert text_digest("a", '["b"]') != text_digest('a["b"]', "")


def test_the_order_of_options_does_not_matter() -> None:
    """It does not to Python either."""
    assert digest(a=1, b=2) == digest(b=2, a=1)


def test_an_argument_that_cannot_be_journaled_is_named() -> None:
    """With the path to it."""
    with pytest.raises(UnserializableValue) as caught:
        arguments_text(("fine", object()), {})
    assert caught.value.path == "$[1]"


@given(st.lists(st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text()), max_size=3))
def test_equal_arguments_have_equal_digests(arguments: list[Any]) -> None:
    """Whatever they are."""
    try:
        first = digest(*arguments)
    except (UnserializableValue, LimitExceeded):  # infinities, lone surrogates, integers of 4,097 digits
        return
    assert digest(*list(arguments)) == first


# --- retries
def test_waits_grow_to_their_cap() -> None:
    """Seconds, without chance."""
    assert Retry(attempts=6, backoff_s=1, factor=3, backoff_max_s=10).waits_s() == [1, 3, 9, 10, 10]
    assert Retry(attempts=2, factor=10.0).wait_s(10_000) == 60.0


def test_chance_moves_a_wait_by_its_share() -> None:
    """A tenth of it, up or down, unless asked otherwise."""
    retry = Retry(backoff_s=10, jitter=0.2)
    assert retry.wait_s(1, 0.0) == 8
    assert retry.wait_s(1, 0.5) == 10
    assert retry.wait_s(1, 0.999) == pytest.approx(12, abs=0.01)


def test_attempts_end() -> None:
    """Three are three; by default there is one."""
    assert [Retry(attempts=3).allows(attempt, ValueError()) for attempt in (1, 2, 3)] == [True, True, False]
    assert not ONCE.allows(1, ValueError())


def test_some_errors_are_final() -> None:
    """Those the user names, those that say so, and results that cannot be journaled: the work was done."""

    class Rejected(Exception):
        retryable = False

    retry = Retry(non_retryable=(KeyError,))
    assert [retry.is_retryable(error) for error in (ValueError(), KeyError(), Rejected(), LimitExceeded("x"))] == [
        True, False, False, False,
    ]  # fmt: skip


@pytest.mark.parametrize(
    "wrong", [{"attempts": 0}, {"backoff_s": -1}, {"factor": 0.5}, {"jitter": 2}, {"backoff_max_s": -1}]
)
def test_a_retry_that_makes_no_sense_is_refused(wrong: dict[str, Any]) -> None:
    """When it is made, not when it is needed."""
    with pytest.raises(InvalidSetting):
        Retry(**wrong)


# --- failures
PLAIN = Settings()


@register_failure
class Declined(Exception):
    """A user's own, with an initial argument that its args do not tell."""

    def __init__(self, *, code: int, when: datetime) -> None:
        super().__init__(f"declined with {code}")
        self.code = code
        self.when = when
        self.response = object()


class Strange(Exception):
    """One whose class cannot be made again."""

    def __new__(cls, *args: object) -> Strange:
        if args != ("one", "two"):
            raise TypeError("no")
        return super().__new__(cls, *args)

    def __init__(self, *args: object) -> None:
        super().__init__("three")


def again(error: Exception) -> Exception:
    return recorded_failure(failure_text(error, PLAIN), key="a:1")


@pytest.mark.parametrize(
    "error", [ValueError("no"), KeyError("k", 7), TimeoutError("late"), OSError(2, "gone"), Exception()]
)
def test_a_failure_comes_back_as_it_was(error: Exception) -> None:
    """Class, arguments and message."""
    made = again(error)
    assert (type(made), made.args, str(made)) == (type(error), error.args, str(error))


def test_a_class_with_an_initial_argument_comes_back_too() -> None:
    """With every attribute that JSON carries exactly; others are left out."""
    when = datetime(2026, 1, 2, tzinfo=UTC)
    made = again(Declined(code=51, when=when))
    assert isinstance(made, Declined)
    assert (made.code, made.when, str(made), hasattr(made, "response")) == (51, when, "declined with 51", False)


def test_an_error_of_ours_keeps_its_facts() -> None:
    """And its hint."""
    made = again(Refused("no", hint="ask later", process_id="p", seq=3))
    assert isinstance(made, Refused)
    assert (made.process_id, made.seq, made.hint, made.message) == ("p", 3, "ask later", "no")


def test_a_class_that_cannot_be_had_is_a_step_that_failed() -> None:
    """With its type and its message."""

    class Local(Exception):
        pass

    for error in (Local("why"), Strange("one", "two")):
        made = again(error)
        assert isinstance(made, StepFailed)
        assert made.type == f"{__name__}:{type(error).__qualname__}"
        assert made.message == str(error)
        assert made.key == "a:1"


@pytest.mark.parametrize("name", ["no.such.module:Error", "os:path", "builtins:KeyboardInterrupt", "", "nonsense"])
def test_only_exceptions_are_made_of_a_text(name: str) -> None:
    """Whatever a journal says."""
    made = recorded_failure(f'{{"type":"{name}","message":"m"}}')
    assert type(made) is StepFailed


def test_the_first_run_sees_what_a_replay_will_see() -> None:
    """Else code that catches a class would go two ways."""

    class Local(Exception):
        pass

    plain, local = ValueError("no"), Local("why")
    assert failure_to_raise(plain, failure_text(plain, PLAIN)) is plain
    told = failure_to_raise(local, failure_text(local, PLAIN))
    assert isinstance(told, StepFailed)
    assert told.__cause__ is None


def test_a_failure_fits_an_entry_whatever_it_holds() -> None:
    """A message of megabytes is cut, a lone surrogate replaced, a __str__ that raises left out."""

    class Broken(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    text = failure_text(ValueError("x" * 5_000_000, "\ud800"), PLAIN)
    assert len(text) < 50_000
    assert len(load(text)["message"]) <= 4_000
    assert load(failure_text(Broken(), PLAIN))["message"] == ""


def test_the_end_of_the_process_is_no_failure_of_the_call() -> None:
    """It stays in doubt."""
    assert is_failure(ValueError())
    assert not is_failure(Fenced("gone"))
    assert not is_failure(ReplayDivergence("other", kind="input", key="a:1"))


# --- agents
@agent("refund", version=3)
async def refund(process: Any, input: Any) -> Any:
    """A docstring."""
    return input


def test_an_agent_has_a_name_a_version_and_a_definition() -> None:
    """The version is text; the definition is the digest of the code."""
    assert (refund.name, refund.version, refund.pinned) == ("refund", "3", False)
    assert len(refund.definition) == 32


def test_a_comment_does_not_change_the_definition() -> None:
    """Only code does."""

    def made(variant: int) -> Agent:
        if variant == 0:

            async def run(process: Any, input: Any) -> Any:
                return input + 1
        elif variant == 1:
            # The same again, with a comment and another layout.
            async def run(process: Any, input: Any) -> Any:
                # Adds one.
                return   input  +  1  # fmt: skip
        else:

            async def run(process: Any, input: Any) -> Any:
                return input + 2

        return agent("a")(run)

    assert made(0).definition != made(2).definition
    assert made(0).definition == made(1).definition


async def test_an_agent_can_be_called_as_the_function_it_is() -> None:
    """For tests, and agents that use another one's code."""
    assert await refund(None, 7) == 7


@pytest.mark.parametrize("name", ["", "a\nb", "x" * 201, None])
def test_a_name_that_is_none_makes_no_agent(name: Any) -> None:
    """It is written into claims and shown in tables."""
    with pytest.raises(InvalidName):
        agent(name)
