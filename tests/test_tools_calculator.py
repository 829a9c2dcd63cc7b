"""The calculator compared with Python's own evaluation, for every call that its grammar can generate."""

from __future__ import annotations

import random
import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guided.errors import ToolError
from guided.frontends.combinators import sequence
from guided.matching import GrammarCompiler, GrammarMatcher
from guided.tools import CALCULATOR
from guided.tools.calculator import calculate
from tests.tool_support import VOCABULARY
from tests.walks import RULES, Plan, Walker
from tests.work_support import lines_run

GRAMMAR = GrammarCompiler(VOCABULARY).compile(sequence(CALCULATOR.arguments))


def python_says(text: str) -> str | None:
    """Python's result for a text of the whitelist, written out; None if there is none."""
    if text[:1] not in ("'", '"'):
        text = text.replace(",", "")
        assert set(text) <= set("0123456789*+-/.() ")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)
        try:
            value = eval(text, {"__builtins__": {}}, {})
        except (SyntaxError, ArithmeticError, TypeError, ValueError, MemoryError, RecursionError):
            return None
    return str(value) if type(value) in (int, float) else None


def calculator_says(text: str) -> str | None:
    try:
        return str(calculate(text))
    except ToolError:
        return None


@given(st.text("00123+-*/.() ,", max_size=12))
def test_texts_of_the_whitelist(text):
    assert calculator_says(text) == (None if "**" in text.replace(",", "") else python_says(text))


OPERANDS = st.sampled_from(
    ["0", "1", "7", "-3", "2.5", ".5", "3.", "1,000", "00", "- 4", "--2", "12345678901234567890"]
)
SUMS = st.recursive(
    OPERANDS,
    lambda items: st.one_of(
        st.tuples(items, st.sampled_from(["+", " - ", "*", "/", "//", " // "]), items).map("".join),
        items.map(lambda item: f"({item})"),
        items.map(lambda item: f"-( {item} )"),
    ),
    max_leaves=12,
)


@given(SUMS)
def test_sums(text):
    assert calculator_says(text) == python_says(text)


@given(st.text("abcA 0'()._,", max_size=8), st.text("abcA 0'()._,", max_size=3))
def test_counting(text, part):
    call = f'"{text}".count("{part}")'
    assert calculator_says(call) == str(text.count(part)) == python_says(call)
    swapped = call.replace("'", "~").replace('"', "'").replace("~", '"')
    assert calculator_says(swapped) == python_says(swapped)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("1/0", "division by zero"),
        ("1//0.0", "division by zero"),
        ("2**3", "** is not allowed"),
        ("2*,*3", "** is not allowed"),
        ("9" * 400 + ".0", "overflow"),
        ("9" * 200 + ".0*" + "9" * 200, "overflow"),
        ("9" * 400 + "/3", "overflow"),
        ("1" * 4001, "overflow"),
        ("*".join(["9" * 100] * 41), "overflow"),
        ("(" * 51 + "1" + ")" * 51, "brackets nest deeper than 50"),
        ("", "a number is missing at the end"),
        ("()", "a number is missing before )"),
        ("(1", "a closing bracket is missing"),
        ("1 2", "an operator is missing before 2"),
        ("1(2)", "an operator is missing before ("),
        ("1.2.3", "an operator is missing before .3"),
        ("007", "a number must not begin with 0: 007"),
        ("...", "not understood: ..."),
        ("1 + .", "not understood: ."),
        ("__import__('os')", "only arithmetic with"),
        ('"a".upper()', "only arithmetic with"),
        ('"a"*9', "only arithmetic with"),
        ("2 + x", "only arithmetic with"),
        ("²", "only arithmetic with"),
        ("1\n+1", "only arithmetic with"),
        ('"a".count("a", 0)', "only arithmetic with"),
    ],
)
def test_refusals_have_reasons(text, reason):
    with pytest.raises(ToolError, match="^" + "".join("\\" + c if c in "().*+" else c for c in reason)):
        calculate(text)
    assert CALCULATOR.answer(text).startswith(f"error: {reason}")


def test_values():
    for text, value in {
        "2+2": "4", "7/2": "3.5", "7//2": "3", "-7//2": "-4", "3.14*10": "31.400000000000002", "1,234*2": "2468",
        "2 - -3": "5", "100/5": "20.0", "0.1+0.2": "0.30000000000000004", "(1+2)*(3+4)": "21", "-0.0": "-0.0",
        '"strawberry".count("r")': "3", "'a\"b'.count('\"')": "1", '"12,000".count(",")': "1",
        '"import".count("import")': "1", '"aaa".count("")': "4",
    }.items():  # fmt: skip
        assert CALCULATOR.answer(text) == value


def test_no_text_takes_long():
    worst = ["9" * 500, "9*" * 249 + "9", "(" * 250 + ")" * 250, "-" * 499 + "1", "1//" * 166, '"' * 500]
    worst += [
        f'"{"a" * 230}".count("{"a" * 230}")',
        "9" * 250 + "//" + "7" * 200,
        " " * 499 + "1",
        "'" + '".count(' * 60,
    ]
    for text in worst:
        assert isinstance(CALCULATOR.answer(text[:500]), str)
        assert lines_run(lambda text=text: CALCULATOR.answer(text[:500])) < 20_000
    for piece in ("9*", "9", "(", "-", "1//", " ", ".count(", "9*9+"):
        first, second = (lines_run(lambda text=piece * many + "1": CALCULATOR.answer(text)) for many in (5000, 10_000))
        assert second < 2.1 * first + 100


def answers(text: str) -> None:
    """Check that a generated call has a value, and that it is Python's."""
    said = CALCULATOR.answer(text)
    assert not said.startswith("error: "), (text, said)
    assert said == python_says(text)


@pytest.mark.parametrize("rule", RULES)
def test_every_call_that_can_be_generated_is_understood(rule):
    walker, rng = Walker(VOCABULARY), random.Random(3)
    for _ in range(60):
        text = walker.walk(GRAMMAR, Plan(rule, rng.choice([0, 5, 30, 150]), rng.randint(0, 20)), rng)
        answers((text or b"0").decode())


def test_expressions_of_models_can_be_generated():
    for text in [
        "2+2", "12 * (3 + 4.5)", "1,234,567 // 89", "-(2 - -3) / .5", '"strawberry".count("r")', "'it is'.count(\"i\")",
        "0.5*100", "((1))", "'a'.count('')", "24 * 60 * 60 * 365", "60/(1 + 2)", "2*(3 - (4 + 5))", "-.5//1,000",
        "+".join(["7,900,000,000"] * 100), "0.30000000000000004*3",
    ]:  # fmt: skip
        matcher = GrammarMatcher(GRAMMAR)
        assert matcher.accept_string(text), text
        assert matcher.is_accepting()
        assert not CALCULATOR.answer(text).startswith("error")
    for text in ["", "2**3", "2+", "(1", "1 2", "007", "()", '"a".upper()', '"a', "1,00", "2 +  + 3", "x", "1//*2",
                 "1/0", "1//0.0", "1/(2 - 2)", "1/-1", "(((1)))", "2*2*2*2*2", "9999999999999",
                 "1/.0000000001"]:  # fmt: skip
        matcher = GrammarMatcher(GRAMMAR)
        assert not (matcher.accept_string(text) and matcher.is_accepting()), text
