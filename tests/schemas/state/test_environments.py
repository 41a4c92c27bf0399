"""The fold is pure: one history has one hash, whatever the thread and the interpreter of its reader are set to."""

from __future__ import annotations

import ast
import decimal
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from decimal import Context, Decimal, localcontext
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import seekpoint.schemas.values.decimal_arithmetic as decimals
from entry_examples import claim, own
from folding import folded
from histories import Step, expected_states, steps, write_history
from seekpoint.schemas import bodies as b
from seekpoint.schemas.errors import UndecodableRecord
from seekpoint.schemas.folding.fold import fold
from seekpoint.schemas.folds import UserFold, only
from seekpoint.schemas.state.budget_sums import Budget, amounts_in
from seekpoint.schemas.state.process_state import State
from seekpoint.schemas.values.json_values import check, dump, load
from seekpoint.schemas.wire.codec import Codec, encode
from seekpoint.schemas.wire.golden import load_goldens

ALL_SIGNALS = tuple(Context().traps)
HOSTILE = {
    "two digits": Context(prec=2),
    "every trap": Context(prec=1, Emin=0, Emax=0, clamp=1, capitals=0, traps=list(ALL_SIGNALS)),
    "no trap": Context(prec=1, Emin=0, Emax=0, rounding=decimal.ROUND_UP, traps=[]),
}
CONTEXTS = st.builds(
    Context,
    prec=st.integers(1, 40),
    rounding=st.sampled_from([decimal.ROUND_UP, decimal.ROUND_DOWN, decimal.ROUND_05UP, decimal.ROUND_HALF_EVEN]),
    Emin=st.integers(-20, 0),
    Emax=st.integers(0, 20),
    capitals=st.integers(0, 1),
    clamp=st.integers(0, 1),
    traps=st.lists(st.sampled_from(ALL_SIGNALS), unique=True),
)
AMOUNTS = st.decimals(0, 10**15, places=12).map(str) | st.sampled_from(
    ["NaN", "sNaN", "-0", "0E+999999999999999999", "1E-13", "1E+16", "1e+3", "abc", "", "1E99999999999999999999", "٣"]
)


def spending(amounts: list[str], warn_at: str = "0.8") -> list[b.Body]:
    """A budget, and steps that use it: every text a body may have an amount in."""
    found: list[b.Body] = [b.BudgetSet('{"usd":"101"}', '{"usd":"1000"}', warn_at, "fail")]
    for number, amount in enumerate(amounts):
        key = f"a:{number}"
        estimate = dump({"usd": amount})
        found.append(b.StepStarted(key, number + 1, "a", "0" * 32, estimate=estimate, idempotency_key="k"))
        found.append(b.StepEnded(key, 1, "succeeded", cost_usd=amount, duration_us=1_234_567 + number))
    return found


def state_after(bodies: Sequence[b.Body]) -> State:
    """What an owner's ``bodies`` fold to, by way of their bytes, read back from a checkpoint's."""
    codec, state = Codec(), folded(claim(1))
    for body in bodies:
        entry = codec.decode(encode(own(state.seq + 1, body)))
        state = State.from_bytes(fold(state, state.offset + 1, entry).to_bytes())
    return state


@given(st.lists(AMOUNTS, max_size=6), AMOUNTS, CONTEXTS)
@settings(max_examples=60)
def test_amounts_are_the_same_in_every_decimal_context(amounts: list[str], warn_at: str, context: Context) -> None:
    """Precision, exponents, traps, letters: nothing of a thread's context is in a state, its misfits included."""
    expected = state_after(spending(amounts, warn_at)).to_bytes()
    with localcontext(context):
        assert state_after(spending(amounts, warn_at)).to_bytes() == expected


@given(steps(), CONTEXTS)
@settings(max_examples=40)
def test_a_history_folds_to_one_hash_in_every_decimal_context(history: list[Step], context: Context) -> None:
    """Any history, whatever happens in it."""
    offsets = iter(range(10_000))
    written = write_history(history, lambda partition, key, value: next(offsets), 1)
    expected = {process_id: state.to_bytes() for process_id, state in expected_states(written).items()}
    with localcontext(context):
        assert {process_id: state.to_bytes() for process_id, state in expected_states(written).items()} == expected


@pytest.mark.parametrize("context", HOSTILE.values(), ids=HOSTILE.keys())
def test_small_charges_add_up_in_every_context(context: Context) -> None:
    """With six digits, a hundred dollars and a hundredth of a cent were a hundred dollars for ever."""
    budget, cent = Budget(limits=amounts_in('{"usd":"101"}')), amounts_in('{"usd":"0.0001"}')
    with localcontext(context):
        budget = budget.charge("a:1", amounts_in('{"usd":"100"}'), 0)
        for number in range(100):
            budget = budget.charge(f"b:{number}", cent, 0)
        assert budget.to_json()["spent"] == {"usd": "100.0100"}


def test_a_sum_that_is_larger_than_any_amount_is_read_back() -> None:
    """Or a process that used that much could be recovered from no checkpoint."""
    budget = state_after(spending(["1E+15"] * 3)).budget
    assert budget is not None
    assert budget.spent["usd"] == 3 * 10**15


@pytest.mark.parametrize("context", HOSTILE.values(), ids=HOSTILE.keys())
@pytest.mark.parametrize(
    "value",
    [Decimal("1.10"), Decimal("1E+20"), 10**3000, -(2**64), {Decimal("1.5"), 2**60}, Decimal("-0E-400")],
    ids=lambda value: str(value)[:20],
)
def test_a_value_is_written_and_read_alike_in_every_context(value: object, context: Context) -> None:
    """The text is the same, what is read back is exact."""
    text = dump(value)
    with localcontext(context):
        assert dump(value) == text
        again = load(text)
    assert dump(again) == text


@pytest.mark.parametrize("text", ["1E99999999999999999999", "1E-99999999999999999999", "9" * 5000])
def test_a_number_that_is_none_is_refused_alike_in_every_context(text: str) -> None:
    """With the same words: an error's text may stand in a state."""
    told = set()
    for context in (Context(), *HOSTILE.values()):
        with localcontext(context), pytest.raises(UndecodableRecord) as caught:
            check(f'{{"$decimal":"{text}"}}')
        told.add(str(caught.value))
    assert len(told) == 1


def test_a_fold_of_a_users_own_has_the_usual_context() -> None:
    """Its arithmetic is part of what every reader has to agree on; the thread's context comes back afterwards."""
    third = UserFold("third", 1, "null", lambda value, kind, payload: Decimal(1) / 3)
    note = [b.Custom("note", "1")]
    with only(third):
        expected = state_after(note).folded("third")
        for context in HOSTILE.values():
            with localcontext(context) as mine:
                assert state_after(note).folded("third") == expected
                assert decimal.getcontext() is mine
    assert expected == Decimal("0.3333333333333333333333333333")


# --- environments of a whole interpreter ------------------------------------------------------------------------------
_SCRIPT = """
import locale, sys
from contextlib import suppress
with suppress(locale.Error):
    locale.setlocale(locale.LC_ALL, "")
from seekpoint.schemas.wire.codec import Codec
from seekpoint.schemas.folding.fold import fold
from seekpoint.schemas.state.process_state import State, new_state
codec = Codec()
codec.decode(bytes.fromhex(sys.argv[2]))
sys.setrecursionlimit(int(sys.argv[1]))
state = new_state()
for offset, line in enumerate(sys.stdin):
    state = State.from_bytes(fold(state, offset, codec.decode(bytes.fromhex(line))).to_bytes())
print(state.hash)
"""
DEEP = dump(eval("[" * 50 + "{'a': {1, 2, 3, (4, 'x')}}" + "]" * 50))
ENVIRONMENTS = [
    {"PYTHONHASHSEED": "0", "TZ": "Asia/Kolkata", "LC_ALL": "C"},
    {"PYTHONHASHSEED": "4242", "TZ": "America/St_Johns", "LC_ALL": "tr_TR.UTF-8", "PYTHONUTF8": "0"},
    {"PYTHONHASHSEED": "1", "TZ": "UTC+14", "LC_ALL": "de_DE.UTF-8", "PYTHONOPTIMIZE": "2"},
]


def one_of_everything() -> tuple[list[str], str]:
    """The records of a golden history, a budget and deep values; and the hash they fold to here."""
    bodies = [
        *spending(["0.5", "NaN"], "0.50"),
        b.ContextUpdated("deep", DEEP),
        b.ContextPatched(dump({"deep": None, "set": {"a", "b", "c"}, "at": {"$x": 1, "y": {"z"}}})),
        b.ContextUpdatedMany({letter: dump({letter}) for letter in "zyxabc"}),
        b.Rewound(1, '{"no":"content"}'),
    ]
    entries = [claim(1), *(own(seq, body) for seq, body in enumerate(bodies, 1))]
    return [encode(entry).hex() for entry in entries], folded(*entries).hash


@pytest.mark.parametrize("environment", ENVIRONMENTS, ids=lambda one: one["LC_ALL"])
def test_a_history_folds_to_one_hash_in_every_interpreter(environment: dict[str, str]) -> None:
    """Hash seed, time zone, locale, ``-OO`` and a third of the usual stack."""
    golden = load_goldens()[-1]
    records, expected = one_of_everything()
    for lines, wanted in ((records, expected), (golden.history, golden.hash)):
        run = subprocess.run(
            [sys.executable, "-c", _SCRIPT, "330", lines[0]],
            input="\n".join(lines), text=True, capture_output=True, timeout=60, check=False,
            env={**os.environ, **environment},
        )  # fmt: skip
        assert (run.stdout.strip(), run.stderr) == (wanted, "")


# --- the sources ------------------------------------------------------------------------------------------------------
_ROOTS = [Path(decimals.__file__).parents[4] / root for root in ("schemas", "consumers", "producers", "console")]
_EXACT_OPERATORS = (ast.FloorDiv, ast.BitAnd, ast.BitOr, ast.BitXor, ast.LShift, ast.RShift)
_NO_DECIMALS = {
    "found.keys() - set(DIMENSIONS)",
    "parts.keys() - {'input', 'output', 'cached', 'cache_write', 'cache_write_1h'}",
    "{'input', 'output'} <= parts.keys()",
    "int(match[2]) * 1000000 + int(match[3])",
    "int(match[2]) * 1000000",
    "before + 1",
    "found.customs + 1",
    "text + _FOLD",
    "last.ended_at_us - last.started_at_us",
    "datetime(1970, 1, 1, tzinfo=UTC) + timedelta(days=day)",
    "len(one.attempts) + 1",
    "self.bytes += _VALUE_FACTOR * size",
    "self.bytes += _CALL_BYTES",
    "self.bytes += sum((_VALUE_FACTOR * _size(call) for _, call, _ in touched))",
    "self._sizes.get(number, 0) + size",
    "_VALUE_FACTOR * size",
    "self.bytes += _VALUE_FACTOR * (_size(call) - counted)",
    "_VALUE_FACTOR * (_size(call) - counted)",
    "_VALUE_FACTOR * _size(call)",
    "_size(call) - counted",
}
_INTEGERS = {"sum", "max", "len", "int"}
_ONLY_CONVERTS = {"secrets"}
"""Makes a Decimal of an integer to get its text, which is exact."""


def _modules() -> Iterator[tuple[str, ast.Module]]:
    """Every module that works with decimals."""
    for root in _ROOTS:
        for path in sorted(root.rglob("*.py")):
            text = path.read_text()
            if path.stem in _ONLY_CONVERTS:
                continue
            if "decimal import" in text or "values.decimal_arithmetic import" in text or "import decimal" in text:
                yield path.stem, ast.parse(text)


def _ambient(tree: ast.Module) -> Iterator[str]:
    """What in ``tree`` takes something from the thread's decimal context, or might."""
    for node in ast.walk(tree):
        text = ast.unparse(node) if isinstance(node, ast.expr | ast.AugAssign) else ""
        if isinstance(node, ast.BinOp | ast.AugAssign):
            if not isinstance(node.op, _EXACT_OPERATORS) and text not in _NO_DECIMALS:
                yield text
        elif isinstance(node, ast.Call) and _is_ambient(node):
            yield text


def _is_ambient(call: ast.Call) -> bool:
    name = ast.unparse(call.func)
    return name in ("getcontext", "setcontext", "round") or (name == "Decimal" and not _is_whole(call))


def _is_whole(call: ast.Call) -> bool:
    """Whether it makes a Decimal of an integer, which is exact, or says in which context."""
    if len(call.args) == 2:
        return True
    (given,) = call.args
    if isinstance(given, ast.Call):
        return isinstance(given.func, ast.Name) and given.func.id in _INTEGERS
    return (isinstance(given, ast.Constant) and type(given.value) is int) or ast.unparse(given) == "count"


def test_no_module_calculates_with_decimals_in_the_threads_context() -> None:
    """``seekpoint.schemas.values.decimal_arithmetic`` does it; an operator on what is no Decimal is named above."""
    found = {name: ambient for name, tree in _modules() if (ambient := list(_ambient(tree)))}
    assert found == {}
    assert len(list(_modules())) >= 8
    assert list(_ambient(ast.parse("a + b\nDecimal(text)\nx -= y"))) == ["x -= y", "a + b", "Decimal(text)"]
