"""Objects with many optional members: the shared tries compared with the order itself, and their growth."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from guided.automaton.reference.token_masks import accepts
from guided.frontends.json_schema import json_schema_to_grammar
from guided.frontends.json_schema.text.member_tries import Field, MemberTries
from guided.ir.nodes import Alt, And, Grammar, Not, Seq, Text
from guided.matching.compiler import GrammarCompiler
from guided.matching.matcher import GrammarMatcher
from guided.vocabulary import Vocabulary
from tests.work_support import lines_run

SLOW = settings(deadline=None, max_examples=50, suppress_health_check=list(HealthCheck))
BYTES = Vocabulary([bytes([byte]) for byte in range(256)] + [None], eos_token_ids=[256])
COMPILER = GrammarCompiler(BYTES, cache_bytes=0)
KEYS = st.text("ab", max_size=3)


@SLOW
@given(st.data())
def test_members_in_order(data):
    """Every choice of members is accepted if and only if it is in order, complete and not empty."""
    names = data.draw(st.lists(KEYS, min_size=1, max_size=6, unique=True))
    required = data.draw(st.sets(st.sampled_from(names), max_size=2))
    with_extras = data.draw(st.booleans())
    fields = [Field(name, Text(":"), name in required, Text(f'"{name}":')) for name in names]
    rules = {}
    extra = Text('"!":')
    extras = Alt((extra, Seq((extra, Text(","), extra)))) if with_extras else None
    rules["start"] = MemberTries(Text(","), extras, Text, rules.__setitem__, "chain").members(fields)
    grammar = Grammar(rules)
    native = COMPILER.compile_grammar(grammar)
    for _ in range(6):
        chosen = data.draw(st.lists(st.sampled_from([*names, "!", "c"]), max_size=8))
        if data.draw(st.integers(0, 3)):
            chosen = sorted(set(chosen), key=[*names, "!", "c"].index)
        text = ",".join(f'"{name}":' for name in chosen)
        declared = [name for name in chosen if name in names]
        right = declared == [name for name in names if name in declared] and required <= set(declared)
        right = right and bool(chosen) and "c" not in chosen
        more = len(chosen) - len(declared)
        right = right and chosen[: len(declared)] == declared and more <= (2 if with_extras else 0)
        matcher = GrammarMatcher(native)
        assert (matcher.accept_string(text) and matcher.is_accepting()) == right, (names, required, text)
        assert accepts(grammar, text.encode()) == right


@pytest.mark.parametrize("closed", [True, False])
def test_an_object_of_many_members(closed):
    names = [f"{prefix}{at}" for at in range(100) for prefix in ("p", 'q"', "é")]
    schema = {"properties": {name: {"type": "integer"} for name in names}, "type": "object"}
    if closed:
        schema["additionalProperties"] = False
    compiled = COMPILER.compile_json_schema(schema, whitespace="single_space")
    for chosen in (names, names[::7], names[:0], names[-1:], names[3:1:-1], [*names[5:9], "zz"]):
        matcher = GrammarMatcher(compiled)
        in_order = chosen == [name for name in names if name in chosen]
        right = in_order or (not closed and chosen[-1] == "zz")
        text = json.dumps(dict.fromkeys(chosen, 1))
        assert (matcher.accept_string(text) and matcher.is_accepting()) == right, chosen


def test_growth_is_linear():
    """Twice as many members need about twice as many rules and alternatives."""

    def size(count):
        schema = {"type": "object", "properties": {f"k{at * 7919 % 10_007}": {} for at in range(count)}}
        rules = json_schema_to_grammar(schema).rules
        return len(rules), sum(len(node.items) for node in rules.values() if isinstance(node, Alt | Seq | And | Not))

    small, large = size(1000), size(2000)
    assert all(b < 2.5 * a for a, b in zip(small, large, strict=True))
    few, many = (lines_run(lambda count=count: size(count)) for count in (200, 400))
    assert many < 2.5 * few
