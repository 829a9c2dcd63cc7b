"""Several divisors of one number: what is a multiple, what is refused, and what is left out."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guided import GrammarCompiler, GrammarMatcher, UnsupportedError, Vocabulary
from guided.frontends.json_schema.algebra.number_set import NumberSet
from guided.frontends.json_schema.documents.values import Decimal10
from guided.frontends.json_schema.text.numbers import number_node
from guided.ir.nodes import EMPTY
from tests.effort import examples
from tests.test_json_schema_numbers import matches

COMPILER = GrammarCompiler(Vocabulary([bytes([byte]) for byte in range(256)], eos_token_ids=[256]), cache_bytes=0)
DIVISORS = ["2", "3", "4", "5", "6", "7", "8", "10", "12", "20", "25", "33", "44", "0.5", "0.25", "0.75", "0.1", "1.5"]
divisors = st.lists(st.sampled_from(DIVISORS), max_size=4, unique=True)


def _accepts(compiled, text):
    matcher = GrammarMatcher(compiled)
    return matcher.accept_string(text) and matcher.is_accepting()


def _is_inside(value, wanted, unwanted, integral):
    return (
        all((value / Fraction(step)).denominator == 1 for step in wanted)
        and not any((value / Fraction(step)).denominator == 1 for step in unwanted)
        and not (integral and value.denominator > 1)
    )


@examples(150)
@given(divisors, divisors, st.booleans(), st.booleans(), st.data())
def test_multiples_are_exact(wanted, unwanted, integral, plain, data):
    parsed = (tuple(map(Decimal10.parse, steps)) for steps in (wanted, unwanted))
    numbers = NumberSet(integral=integral, divisors=next(parsed), no_divisors=next(parsed))
    node = number_node(numbers, plain)
    for _ in range(6):
        step = Fraction(data.draw(st.sampled_from(wanted or DIVISORS)))
        value = step * data.draw(st.integers(-400, 400)) * data.draw(st.sampled_from([1, 7, 11, Fraction(1, 2)]))
        text = Decimal10.parse(f"{value * 10**4}e-4").plain()
        inside = _is_inside(value, wanted, unwanted, integral)
        assert matches(node, text) == inside, (numbers, text)
        if not plain:
            shift = data.draw(st.integers(-3, 3))
            other = Decimal10.parse(f"{value * 10**4}e{-4 - shift}").plain() + f"e{shift}"
            assert matches(node, other) == inside, (numbers, other)
        if inside:
            assert not numbers.is_empty and node != EMPTY


@pytest.mark.parametrize(
    ("wanted", "unwanted", "is_empty"),
    [
        (["12"], ["6"], True),
        (["4", "6"], ["12"], True),
        (["1.5", "0.4"], ["6"], True),
        (["6"], ["12"], False),
        (["4", "6"], ["24"], False),
        ([], ["2"], False),
        (["1" * 2000], ["3"], False),
    ],
)
def test_contradictions(wanted, unwanted, is_empty):
    """A multiple of all divisors may always be a multiple of an excluded one."""
    steps, excluded = (tuple(map(Decimal10.parse, texts)) for texts in (wanted, unwanted))
    assert NumberSet(divisors=steps, no_divisors=excluded).is_empty == is_empty


def test_many_remainders_leave_out_exponents():
    """Plain spellings stay complete. Few remainders keep the exponents."""
    steps = [2, 3, 5, 7, 11, 13]
    schema = {"type": "integer", "allOf": [{"not": {"multipleOf": step}} for step in steps]}
    many = COMPILER.compile_json_schema(schema)
    for value in (1, 17, 289, -323, 30031, 26, 121, 30030, 0, 10**30 + 1):
        assert _accepts(many, str(value)) == all(value % step for step in steps)
        assert _accepts(many, f"{value}.0") == all(value % step for step in steps)
    assert not _accepts(many, "17e0")
    few = COMPILER.compile_json_schema(
        {"type": "integer", "allOf": [{"not": {"multipleOf": step}} for step in (7, 11)]}
    )
    assert _accepts(few, "13e2") and not _accepts(few, "14e2")


def test_combined_alternatives_of_divisors():
    """Each alternative combines up to six divisors."""
    schema = {
        "type": "number",
        "allOf": [
            {"oneOf": [{"multipleOf": 33}, {"multipleOf": 12}, {"multipleOf": 77}]},
            {"oneOf": [{"not": {"anyOf": [{"multipleOf": 6}, {"multipleOf": 7}]}}, {"multipleOf": 44}]},
            {"oneOf": [{"not": {"multipleOf": 11}}, {"multipleOf": 13}]},
            {"not": {"multipleOf": 8}},
        ],
    }
    compiled = COMPILER.compile_json_schema(schema)
    for value in [*range(0, 60_000, 143), *range(0, 3_000, 4), 429.5]:
        first = sum(value % step == 0 for step in (33, 12, 77)) == 1
        second = (value % 6 != 0 and value % 7 != 0) + (value % 44 == 0) == 1
        third = (value % 11 != 0) + (value % 13 == 0) == 1
        assert _accepts(compiled, str(value)) == (first and second and third and value % 8 != 0), value


def test_too_many_remainders_are_refused():
    steps = [8721, 7, 11, 13, 37]
    schema = {"multipleOf": steps[0], "not": {"anyOf": [{"multipleOf": step} for step in steps[1:]]}}
    with pytest.raises(UnsupportedError, match=r"322,999,677 different remainders.*no multiples of 7"):
        COMPILER.compile_json_schema({"type": "number", "minimum": 0, **schema})
    # Two bounds may leave few of them.
    compiled = COMPILER.compile_json_schema({"type": "number", "minimum": 0, "maximum": 100_000, **schema})
    for count in range(12):
        assert _accepts(compiled, str(8721 * count)) == (count > 0 and all(count % step for step in steps[1:]))


@pytest.mark.parametrize("steps", [["0.5", "0.125"], ["0.125"], ["4", "2"]])
def test_zero_has_every_exponent(steps):
    node = number_node(NumberSet(divisors=tuple(map(Decimal10.parse, steps))))
    assert all(matches(node, text) for text in ("0", "-0.00", "0e99", "0.0E-99"))
