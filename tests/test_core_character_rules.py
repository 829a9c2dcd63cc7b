"""Rules that read one character, which the core inlines: masks, budgets and explanations remain the same.

Three forms of a grammar are compared. In the first, other rules call the character rules. In the second, the calls are
replaced by the nodes of these rules. In the third, each character rule may also read a control token that no text
contains, so the core keeps the calls.
"""

from __future__ import annotations

import random
from collections.abc import Mapping

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from guided.errors import BudgetError, GuidedError, LimitExceeded
from guided.ir import Alt, Chars, Encoded, Grammar, Member, Node, Permutation, Ref, Repeat, Seq, Special, Text
from guided.ir.ranges import charset, complement
from guided.matching import CompiledGrammar, GrammarCompiler, GrammarMatcher
from guided.matching.compiled import native_vocabulary
from guided.vocabulary import Vocabulary
from tests.brute_force import HEX, TOY
from tests.core_support import mask_of
from tests.twin_support import compile_both, small_searches

KEEP = "<keep>"
LETTERS = 'ab\\"é€'
WORDS = ("ab", 'a"', '"a', "\\a", "\\\\", "aé", "éa", '"b"', "bab", '""', "€", "\\u", "aaaa", "ba" * 6)
TOKENS: list[bytes | None] = [bytes([byte]) for byte in dict.fromkeys((LETTERS + "u,0123456789").encode())]
TOKENS += [word.encode() for word in WORDS] + ["é".encode()[1:] + b"a", "a€".encode()[:2], None]
VOCABULARY = Vocabulary(TOKENS, eos_token_ids=[len(TOKENS)], special_tokens={len(TOKENS) - 1: KEEP})

OTHERS = Chars(complement(charset((ord(c), ord(c)) for c in '"\\')))
DIGITS = Chars(((0x30, 0x39),))
CHARACTERS: dict[str, Node] = {
    "other": OTHERS,
    "digit": DIGITS,
    "hex": Chars(((0x30, 0x39), (0x61, 0x66))),
    "wide": Chars(((0xE0, 0x20FF),)),
    "escape": Seq((Text("\\"), Chars(((0x61, 0x62), (0x5C, 0x5C), (0x22, 0x22))))),
    "escaped": Alt((OTHERS, Seq((Text("\\"), Alt((Chars(((0x61, 0x62),)), Seq((Text("u"), DIGITS, DIGITS)))))))),
    "nested": Alt((Ref("other"), Ref("escape"))),
    "ambiguous": Alt((Ref("other"), Seq((Text("a"), Ref("digit"))))),
    "hexed": Encoded(OTHERS, HEX),
    "toy": Encoded(OTHERS, TOY),
}


def calling(names: tuple[str, ...]) -> st.SearchStrategy[Node]:
    """Nodes that call these rules."""
    refs = st.sampled_from(names).map(Ref)
    base = refs | refs | st.sampled_from([Text('"'), Text("a"), Text(","), Text("é"), DIGITS])

    def extend(items: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
        some = st.lists(items, min_size=1, max_size=3).map(tuple)
        counts = st.sampled_from([(0, None), (1, None), (0, 1), (0, 3), (2, 4), (0, 40), (3, 30)])
        members = st.lists(items.map(lambda item: Member(Seq((Text(","), item)))), min_size=1, max_size=2).map(tuple)
        return (
            some.map(Seq)
            | some.map(Alt)
            | st.builds(lambda item, at: Repeat(item, *at), items, counts)
            | st.builds(lambda item: Seq((Text('"'), Repeat(item, 0, None), Text('"'))), refs)
            | st.builds(Permutation, members, st.just(Text(",")))
        )

    return st.recursive(base, extend, max_leaves=6)


def _grammar(draw: st.DrawFn) -> Grammar:
    characters = tuple(draw(st.lists(st.sampled_from(sorted(CHARACTERS)), min_size=1, max_size=3, unique=True)))
    names = ("start", *(("A",) if draw(st.booleans()) else ()))
    rules = {name: draw(calling((*characters, *characters, *names[1:]))) for name in names}
    if "A" in rules:
        rules["A"] = Alt((rules["A"], Text("a"), Ref(characters[0])))
    return Grammar({**rules, **CHARACTERS})


grammars = st.composite(_grammar)


def replaced(node: Node, rules: Mapping[str, Node]) -> Node:
    """The node with these rules inserted in place of references to them."""
    if isinstance(node, Ref):
        return replaced(rules[node.name], rules) if node.name in rules else node
    if isinstance(node, (Seq, Alt)):
        return type(node)(tuple(replaced(item, rules) for item in node.items))
    if isinstance(node, Repeat):
        return Repeat(replaced(node.item, rules), node.min, node.max)
    if isinstance(node, Permutation):
        return Permutation(tuple(Member(replaced(member.item, rules)) for member in node.members), node.separator)
    return node


def with_calls_kept(grammar: Grammar) -> Grammar:
    """Character rules without calls also read a control token, so the core inlines none of them."""
    keep = [name for name, node in CHARACTERS.items() if replaced(node, CHARACTERS) == node]
    return Grammar({name: Alt((node, Special(KEEP))) if name in keep else node for name, node in grammar.rules.items()})


def compiled(grammar: Grammar) -> CompiledGrammar | None:
    try:
        return GrammarCompiler(VOCABULARY, cache_bytes=0).compile_grammar(grammar)
    except GuidedError as error:
        event(type(error).__name__)
        return None


def shortest(matcher: GrammarMatcher) -> int | None:
    try:
        return matcher.min_tokens_to_finish()
    except BudgetError:
        return None


@given(grammars(), st.randoms(use_true_random=False))
def test_called_and_inlined(grammar: Grammar, rng: random.Random) -> None:
    inlined = Grammar({name: replaced(node, CHARACTERS) for name, node in grammar.rules.items()})
    forms = [compiled(form) for form in (grammar, inlined, with_calls_kept(grammar))]
    called, inline, kept = [form and GrammarMatcher(form) for form in forms]
    if called is None or inline is None or kept is None:
        assert called is kept is None or called is inline is None
        return
    keep = len(TOKENS) - 1
    for _ in range(8):
        mask = mask_of(called)
        assert mask == mask_of(inline)
        assert mask == tuple(token for token in mask_of(kept) if token != keep)
        assert set(mask) == set(called._walk_mask())
        assert called.is_accepting() == inline.is_accepting() == kept.is_accepting()
        assert called._open_rules(b"") == kept._open_rules(b"")
        assert called._open_rules(b"\xe2\x82") == kept._open_rules(b"\xe2\x82")
        if not mask or called.is_terminated():
            return
        least = shortest(called)
        assert least == shortest(kept)
        if least is not None:
            assert mask_of(called, least + 1) == tuple(t for t in mask_of(kept, least + 1) if t != keep)
        token = rng.choice(mask)
        assert called.accept_token(token) and inline.accept_token(token) and kept.accept_token(token)


@given(grammars(), st.randoms(use_true_random=False))
def test_side_by_side_with_the_reference(grammar: Grammar, rng: random.Random) -> None:
    with small_searches(300, 1500):
        pair = compile_both(grammar, TOKENS, [len(TOKENS)], {len(TOKENS) - 1: KEEP})
        if pair is None:
            return
        matcher, twin = pair
        state = twin.initial()
        for _ in range(6):
            try:
                expected = twin.mask(state)
            except LimitExceeded:
                event("the reference gave up")
                return
            assert set(mask_of(matcher)) == expected
            if not expected:
                return
            token = rng.choice(sorted(expected))
            assert matcher.accept_token(token)
            after = twin.accept_token(state, token)
            assert after is not None
            state = after


CHAR = Alt((OTHERS, Seq((Text("\\"), Chars(((0x61, 0x62),))))))
FORMS: dict[str, Node] = {
    "loop": Seq((Text('"'), Repeat(Ref("char"), 0, None), Text('"'))),
    "count": Seq((Text('"'), Repeat(Ref("char"), 0, 100), Text('"'))),
    "twice": Seq((Text('"'), Repeat(Alt((Ref("char"), Seq((Text('"'), Ref("char"))))), 0, None), Text('"'))),
}


@pytest.mark.parametrize("form", FORMS)
def test_no_table_of_all_remainders(form: str) -> None:
    """The first mask inside a string takes no more memory than if the class were written in place of the rule."""
    rng = random.Random(3)
    words = {"".join(rng.choices("abcdefgh", k=rng.randint(2, 7))).encode() for _ in range(3000)}
    tokens: list[bytes | None] = [bytes([byte]) for byte in range(256)] + sorted(words)
    sizes = []
    for rules in ({"start": FORMS[form], "char": CHAR}, {"start": replaced(FORMS[form], {"char": CHAR})}):
        compiler = GrammarCompiler(Vocabulary(tokens, eos_token_ids=[len(tokens)]), cache_bytes=0)
        matcher = GrammarMatcher(compiler.compile_grammar(Grammar(rules)))
        assert matcher.accept_string('"')
        mask_of(matcher)
        sizes.append(native_vocabulary(compiler.vocabulary).cached_bytes)
    assert sizes[0] == sizes[1]
