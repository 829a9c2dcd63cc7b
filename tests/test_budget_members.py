"""Budgets of objects with many required members in any order: the members that are still missing have the same tokens
as in an object whose order is declared.
"""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from guided import GrammarCompiler, GrammarMatcher, Limits, Vocabulary, allocate_token_bitmask
from tests.effort import examples

NAME = st.text("abc", min_size=1, max_size=7)
VALUES = {
    "true": {"const": True},
    '"yes"': {"const": "yes"},
    "[[],[]]": {"type": "array", "items": {"type": "array", "maxItems": 0}, "minItems": 2, "maxItems": 2},
    '{"k":7}': {"type": "object", "properties": {"k": {"const": 7}}, "required": ["k"], "additionalProperties": False},
    '{"m":1,"nn":1}': {
        "type": "object",
        "properties": {"m": {"const": 1}, "nn": {"const": 1}},
        "required": ["m", "nn"],
    },
}


def _compile(compiler, members, order):
    schema = {
        "type": "object",
        "properties": {name: VALUES[value] for name, value in members.items()},
        "required": list(members),
        "additionalProperties": False,
    }
    return compiler.compile_json_schema(schema, property_order=order, whitespace="compact")


def _vocabulary(pieces):
    """Bytes, the pieces, and so many other tokens that the shortest completion is not searched for exhaustively."""
    tokens = [bytes([byte]) for byte in range(256)]
    tokens += [bytes([200 + i, 200 + j, 200 + k]) for i in range(18) for j in range(18) for k in range(18)]
    tokens += sorted({piece.encode() for piece in pieces} - set(tokens))
    return Vocabulary(tokens, eos_token_ids=[len(tokens)])


@examples(60)
@given(st.data())
def test_missing_members_cost_as_much_as_in_declared_order(data):
    members = data.draw(st.dictionaries(NAME, st.sampled_from([*VALUES]), min_size=3, max_size=9))
    members = {f"{'d' * rank}{name}": value for rank, (name, value) in enumerate(members.items())}
    texts = {name: f'"{name}":{value}' for name, value in members.items()}
    ascending = sorted(members, key=lambda name: len(texts[name]))
    if len({len(text) for text in texts.values()}) < len(texts):
        return  # members of the same length may be written in either order
    whole = "{" + ",".join(texts[name] for name in ascending) + "}"
    spans = st.tuples(st.integers(0, len(whole) - 2), st.integers(2, 9))
    pieces = [whole[start : start + size] for start, size in data.draw(st.lists(spans, min_size=5, max_size=40))]
    compiler = GrammarCompiler(_vocabulary(pieces), cache_bytes=0)
    any_order = _compile(compiler, members, "any")
    for written in ([], *([name] for name in ascending), ascending[1:3], ascending[-1:1:-2]):
        rest = [name for name in ascending if name not in written]
        prefix = "{" + ",".join(texts[name] for name in written) if written else ""
        one, other = (
            GrammarMatcher(any_order),
            GrammarMatcher(_compile(compiler, {name: members[name] for name in (*written, *rest)}, "declared")),
        )
        assert one.accept_string(prefix) and other.accept_string(prefix)
        assert one.min_tokens_to_finish() == other.min_tokens_to_finish(), (members, written)


def test_many_members_stay_within_the_work_of_a_call():
    """A mask considers each member that may come next, and all others after it."""
    names = [f"{chr(97 + i % 26)}{i}" + "x" * (i % 13) for i in range(150)]
    members = {name: [*VALUES][i % 5] for i, name in enumerate(names)}
    text = "{" + ",".join(f'"{name}":{value}' for name, value in members.items()) + "}"
    vocabulary = _vocabulary([text[i : i + size] for i in range(0, len(text) - 6, 5) for size in (2, 3, 6)])
    compiler = GrammarCompiler(vocabulary, cache_bytes=0, limits=Limits(call_work=3_000_000))
    matcher = GrammarMatcher(_compile(compiler, members, "any"))
    bitmask = allocate_token_bitmask(1, vocabulary.size)
    budget = matcher.min_tokens_to_finish() + 3
    written = ""
    for name in names[::-1][:12]:
        for piece in ("," if written else "{", f'"{name}":', members[name]):
            assert matcher.fill_next_token_bitmask(bitmask, max_tokens=budget)
            assert matcher.accept_string(piece)
            written += piece
    assert json.loads(written + matcher.explain().completion.decode()).keys() == members.keys()
