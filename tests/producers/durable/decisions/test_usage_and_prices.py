"""Usage as the common model APIs tell it, and what it costs by the user's own table."""

from __future__ import annotations

import subprocess
import sys
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pytest

import seekpoint.producers as door
from seekpoint.producers.durable.decisions.prices import Price, Prices
from seekpoint.producers.durable.decisions.usage import Usage, model_in, usage_in
from seekpoint.schemas.errors import InvalidSetting

CHAT = {
    "model": "gpt-x-2026",
    "usage": {
        "prompt_tokens": 100,
        "completion_tokens": 20,
        "prompt_tokens_details": {"cached_tokens": 60},
        "completion_tokens_details": {"reasoning_tokens": 5},
    },
}
TOKENS = {"input_tokens": 40, "output_tokens": 20, "cache_read_input_tokens": 60, "cache_creation_input_tokens": 7}
ANTHROPIC = {"model": "claude-x", "usage": TOKENS}


def test_cached_tokens_of_a_chat_completion_are_part_of_the_prompt() -> None:
    """OpenAI counts them inside prompt_tokens; here they are told apart, so that each has its own price."""
    assert usage_in(CHAT) == Usage(40, 20, 60, None, 5)


def test_the_responses_api_is_read_as_well() -> None:
    """Its names are Anthropic's, its meaning is OpenAI's: the details tell which."""
    answer = {"usage": {"input_tokens": 10, "output_tokens": 2, "input_tokens_details": {"cached_tokens": 4}}}
    assert usage_in(answer) == Usage(6, 2, 4)


def test_an_anthropic_message_tells_caches_beside_the_input() -> None:
    """Nothing is subtracted."""
    assert usage_in(ANTHROPIC) == Usage(40, 20, 60, 7)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (
            {"usage": {**TOKENS, "cache_creation": {
                "ephemeral_5m_input_tokens": 3, "ephemeral_1h_input_tokens": 4}}},
            Usage(40, 20, 60, 7, None, 4),
        ),
        (
            {"usage": {"prompt_tokens": 107, "completion_tokens": 20, "prompt_tokens_details": {
                "cached_tokens": 60, "cache_creation_tokens": 7, "cache_creation_token_details": {
                    "ephemeral_5m_input_tokens": 3, "ephemeral_1h_input_tokens": 4}}}},
            Usage(40, 20, 60, 7, None, 4),
        ),
        (
            {"usage": {"input_tokens": 107, "output_tokens": 20, "input_tokens_details": {
                "cached_tokens": 60, "cache_write_tokens": 7}}},
            Usage(40, 20, 60, 7),
        ),
    ],
    ids=["anthropic", "litellm", "openai"],
)  # fmt: skip
def test_tokens_that_are_written_to_a_cache_are_told_apart(answer: Any, expected: Usage) -> None:
    """By how long they are kept, where the API tells it; OpenAI and LiteLLM count them inside the input."""
    assert usage_in(answer) == expected


def test_an_error_in_a_stream_leaves_its_usage_unknown() -> None:
    """The counts before it are not those of the whole."""
    start = {"type": "message_start", "message": {"usage": {"input_tokens": 9, "output_tokens": 1}}}
    assert usage_in([start, {"type": "error", "error": {"type": "overloaded_error"}}]) is None


def test_the_objects_of_the_clients_are_read_like_dicts() -> None:
    """Attributes count as fields."""
    answer = SimpleNamespace(model="m", usage=SimpleNamespace(prompt_tokens=3, completion_tokens=4))
    assert usage_in(answer) == Usage(3, 4)
    assert model_in(answer) == "m"


@pytest.mark.parametrize("answer", [None, "text", {}, {"usage": None}, {"usage": {}}, [], [{"delta": "a"}]])
def test_what_is_not_told_is_not_zero(answer: object) -> None:
    """Unknown is None."""
    usage = usage_in(answer)
    assert usage is None or usage == Usage()
    assert usage is None or usage.total_tokens is None


def test_a_stream_tells_running_totals() -> None:
    """The newest count of each kind wins."""
    events = [
        {"type": "message_start", "message": {"model": "claude-x", "usage": {"input_tokens": 9, "output_tokens": 1}}},
        {"type": "content_block_delta"},
        {"type": "message_delta", "usage": {"output_tokens": 15}},
    ]
    assert usage_in(events) == Usage(9, 15)
    assert model_in(events) == "claude-x"


def test_the_summary_of_a_stream_tells_all_that_is_known_of_it() -> None:
    """The counts of its events are not those of the whole if it broke off."""
    event = {"model": "a", "usage": {"input_tokens": 9, "output_tokens": 1}}
    whole = {"summary": {"model": "b", "usage": {"input_tokens": 9, "output_tokens": 15}}}
    assert (usage_in([event, whole]), model_in([event, whole])) == (Usage(9, 15), "b")
    assert (usage_in([event, {"summary": {}}]), model_in([event, {"summary": {}}])) == (None, None)


def test_google_counts_thoughts_beside_the_output_and_leaves_out_counts_of_zero() -> None:
    """Its JSON, and what its Python client makes of it; of a stream, the newest totals."""
    counts = {
        "promptTokenCount": 100,
        "cachedContentTokenCount": 60,
        "candidatesTokenCount": 20,
        "totalTokenCount": 125,
    }
    answer = {"modelVersion": "gemini-x", "usageMetadata": {**counts, "thoughtsTokenCount": 5}}
    assert (usage_in(answer), model_in(answer)) == (Usage(40, 25, 60, None, 5), "gemini-x")
    assert usage_in([{"usageMetadata": {"promptTokenCount": 100, "totalTokenCount": 100}}, answer]) == usage_in(answer)
    assert usage_in({"usageMetadata": {"promptTokenCount": 7, "totalTokenCount": 7}}) == Usage(7, 0)
    client = SimpleNamespace(
        model_version="gemini-x",
        usage_metadata=SimpleNamespace(prompt_token_count=3, candidates_token_count=4, tool_use_prompt_token_count=2),
    )
    assert (usage_in(client), model_in(client)) == (Usage(5, 4), "gemini-x")


def test_a_usage_comes_back_from_the_journal() -> None:
    """What was known is known, what was not is not."""
    assert Usage.from_dict(Usage(1, None, 0).to_dict()) == Usage(1, None, 0)
    with pytest.raises(ValueError, match="count of tokens"):
        Usage.from_dict({"input_tokens": -1})


def test_every_kind_of_token_has_its_price() -> None:
    """Exact decimals, a million tokens each."""
    prices = Prices({"claude-x": {"input": "3", "output": "15", "cached": "0.3", "cache_write": "3.75"}})
    million = 1_000_000
    assert prices.cost("claude-x", Usage(million, million, million, million)) == Decimal("22.05")
    assert prices.cost("claude-x", Usage(1, 0)) == Decimal("0.000003")


def test_a_token_that_is_kept_for_an_hour_has_a_price_of_its_own() -> None:
    """Twice that of input if the table has none, as Anthropic has it; the others are kept for five minutes."""
    usage = Usage(0, 0, None, 3_000_000, None, 1_000_000)
    price = {"input": "3", "output": "15", "cache_write": "3.75"}
    assert Prices({"c": {**price, "cache_write_1h": "6.5"}}).cost("c", usage) == Decimal("14")
    assert Prices({"c": price}).cost("c", usage) == Decimal("13.5")


def test_a_cached_token_without_a_price_costs_what_input_costs() -> None:
    """Rather too much than too little."""
    assert Price(Decimal(2), Decimal(4)).cost(Usage(0, 0, 500_000, 500_000)) == Decimal(2)


def test_the_longest_pattern_prices_a_model() -> None:
    """An exact name first."""
    table = {"a*": {"input": 1, "output": 0}, "a-b*": {"input": 2, "output": 0}, "a-b-c": {"input": 3, "output": 0}}
    costs = [Prices(table).cost(name, Usage(1_000_000, 0)) for name in ("a-x", "a-b-x", "a-b-c", "b", None)]
    assert costs == [1, 2, 3, None, None]


def test_what_prices_are_made_of_is_at_the_door_and_loads_nothing_else() -> None:
    """``node.prices`` is public, so its types are; what a node of a fleet never needs stays unloaded."""
    assert {"Price", "Prices", "Usage"} <= set(door.__all__)
    assert (door.Price, door.Prices, door.Usage) == (Price, Prices, Usage)
    later = {"seekpoint.producers.sync", "seekpoint.producers.testing", "seekpoint.schemas.log.memory_log", "faust"}
    script = f"import sys; from seekpoint.producers import Prices, Usage; print(sorted({later} & sys.modules.keys()))"
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


def test_an_unknown_usage_has_no_cost() -> None:
    """None, never 0."""
    prices = Prices({"*": {"input": 1, "output": 1}})
    assert prices.cost("m", None) is None
    assert prices.cost("m", Usage(1)) is None


@pytest.mark.parametrize(
    "price",
    [
        {"input": 0.15, "output": "1"},
        {"input": "-1", "output": "1"},
        {"input": "much", "output": "1"},
        {"input": "NaN", "output": "1"},
        {"input": True, "output": "1"},
        {"input": "1"},
        {"input": "1", "output": "1", "ouput": "2"},
    ],
)
def test_what_is_no_price_is_refused(price: dict[str, object]) -> None:
    """A float is not exact; a misspelt part would cost nothing."""
    with pytest.raises(InvalidSetting):
        Prices({"m": price})


def test_a_count_that_a_gateway_writes_as_a_float_is_a_number_of_tokens() -> None:
    """Lua and JavaScript have one type of numbers. Half a token, a negative one and an infinite one are unknown."""
    answer = {"usage": {"prompt_tokens": 10.0, "completion_tokens": 2.5}}
    assert usage_in(answer) == Usage(input_tokens=10)
    assert usage_in({"usage": {"input_tokens": -1.0, "output_tokens": float("inf")}}) == Usage()
    assert usage_in({"usageMetadata": {"promptTokenCount": 7.0, "totalTokenCount": 7.0}}) == Usage(7, 0)
