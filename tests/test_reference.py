"""The reference compared with sets of strings (`brute_force`), Python's `re`, and interegular."""

from __future__ import annotations

import re
from itertools import product

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from guided.automaton.reference.language import Language
from guided.automaton.reference.substrings import all_substrings
from guided.automaton.reference.token_masks import ReferenceGrammar
from guided.errors import LimitExceeded, SpecError, VocabularyError
from guided.ir.nodes import EMPTY, Alt, And, Chars, Grammar, Length, Node, Not, Repeat, Seq, Special, Substrings, Text
from tests.brute_force import SPECIALS, Output, fewest_tokens, language
from tests.drawn_grammars import (
    ALPHABETS,
    DrawnVocabulary,
    finite_nodes,
    grammars,
    plain_nodes,
    regular_nodes,
    vocabularies,
)
from tests.effort import examples

alphabets = st.sampled_from(ALPHABETS)


def explore(reference: Language, letters: bytes, n: int) -> tuple[set[Output], set[Output]]:
    """All outputs of at most n symbols that the reference accepts, and all prefixes that it continues."""
    accepted, going = set(), set()
    todo = [((), reference.start)] if reference.start else []
    while todo:
        prefix, state = todo.pop()
        going.add(prefix)
        if state.is_accepting:
            accepted.add(prefix)
        if len(prefix) < n:
            for byte in sorted(set(letters)):
                if (after := reference.step(state, byte)) is not None:
                    todo.append(((*prefix, byte), after))
            for name, id in SPECIALS.items():
                if (after := reference.special(state, {name})) is not None:
                    todo.append(((*prefix, ~id), after))
    return accepted, going


def contains(reference: Language, data: bytes) -> bool:
    state = reference.start
    for byte in data:
        state = reference.step(state, byte) if state else None
    return bool(state and state.is_accepting)


def letters_of(alphabet: str) -> tuple[bytes, int]:
    """The bytes to try for an alphabet, and the maximum length."""
    data = bytes(dict.fromkeys(alphabet.encode()))
    return {2: (data + b",!", 4), 3: (data + b",", 4)}.get(len(data), (data, 4))


@given(st.data())
@examples(60)
def test_language_is_the_set_of_strings(data):
    alphabet = data.draw(alphabets)
    letters, n = letters_of(alphabet)
    grammar = data.draw(grammars(alphabet, specials=tuple(SPECIALS)))
    expected = language(grammar, letters, n)
    accepted, going = explore(Language(grammar), letters, n)
    assert accepted == expected
    assert {output[:i] for output in expected for i in range(len(output) + 1)} <= going


@given(st.data())
@examples(15)
def test_viable_prefixes_can_be_completed(data):
    alphabet = data.draw(alphabets)
    grammar = data.draw(grammars(alphabet, specials=tuple(SPECIALS)))
    reference = Language(grammar)
    assume(reference.start is not None)
    symbols = [*range(256), *(~id for id in SPECIALS.values())]
    names = {~id: {name} for name, id in SPECIALS.items()}
    prefix, state = (), reference.start
    for _ in range(data.draw(st.integers(0, 4))):
        ways = [
            (symbol, after)
            for symbol in symbols
            if (after := reference.special(state, names[symbol]) if symbol < 0 else reference.step(state, symbol))
        ]
        if not ways:
            break
        symbol, state = data.draw(st.sampled_from(ways))
        prefix += (symbol,)
    seen, level = {state}, [(prefix, state)]
    while not any(state.is_accepting for _, state in level):  # breadth first, so a path to an end is found
        level = [
            ((*output, symbol), after)
            for output, state in level
            for symbol in symbols
            if (after := reference.special(state, names[symbol]) if symbol < 0 else reference.step(state, symbol))
            and not (after in seen or seen.add(after))
        ]
        assert level
        assume(len(seen) < 200)
    output = next(output for output, state in level if state.is_accepting)
    if len(output) <= 6 and len(set(output)) <= 3:
        assert output in language(grammar, bytes(symbol for symbol in output if symbol >= 0), len(output))


# ---- other engines


def pattern_of(node: Node) -> str:
    """A plain regular node as a pattern of Python's `re`."""
    match node:
        case Chars(ranges):
            inside = "".join(f"\\U{low:08x}-\\U{high:08x}" for low, high in ranges)
            return f"[{inside}]" if inside else "(?!)"
        case Text(text):
            return re.escape(text)
        case Seq(items):
            return "".join(map(pattern_of, items))
        case Alt(items):
            return f"(?:{'|'.join(map(pattern_of, items))})" if items else "(?!)"
        case Repeat(item, low, high):
            return f"(?:{pattern_of(item)}){{{low},{'' if high is None else high}}}"
    raise AssertionError(node)


def repeats_are_in_order(node: Node) -> bool:
    match node:
        case Seq(items) | Alt(items):
            return all(map(repeats_are_in_order, items))
        case Repeat(item, low, high):
            return (high is None or low <= high) and repeats_are_in_order(item)
    return not isinstance(node, Substrings)  # which `pattern_of` cannot write


@given(st.data())
@examples(60)
def test_plain_nodes_agree_with_re(data):
    alphabet = data.draw(alphabets)
    node = data.draw(plain_nodes(alphabet).filter(repeats_are_in_order))
    pattern, reference = re.compile(pattern_of(node), re.DOTALL), Language(Grammar({"start": node}))
    other = data.draw(st.characters(exclude_categories=("Cs",)))
    for size in range(4):
        for letters in product(alphabet + other, repeat=size):
            text = "".join(letters)
            assert contains(reference, text.encode()) == bool(pattern.fullmatch(text)), text


@given(st.data())
@examples(50)
def test_boolean_nodes_agree_with_interegular(data):
    interegular = pytest.importorskip("interegular")
    alphabet = data.draw(alphabets)
    other = next(c for c in "xyz" if c not in alphabet)

    def machine(node: Node):
        # interegular supports neither characters by number nor an empty language, so classes are spelled out
        match node:
            case And(items):
                found = machine(Not(EMPTY))
                for item in items:
                    found &= machine(item)
                return found
            case Not(item):
                return everything.difference(machine(item))
            case Alt(items):
                return nothing.union(*map(machine, items)) if items else nothing
            case Seq(items):
                found = empty_text
                for item in items:
                    found += machine(item)
                return found
            case Repeat(item, low, high):
                one = machine(item)
                if high is None:
                    return one * low + one.star()
                return nothing.union(*(one * count for count in range(low, high + 1))) if low <= high else nothing
            case Chars(ranges):
                inside = [c for c in alphabet + other if any(low <= ord(c) <= high for low, high in ranges)]
                return parse(f"[{''.join(inside)}]") if inside else nothing
            case Text(text):
                return parse(text)
            case Substrings():
                return parse("|".join(all_substrings(node)))
        raise AssertionError(node)

    symbols = interegular.fsm.Alphabet.from_groups(*alphabet, other, {interegular.fsm.anything_else})

    def parse(pattern: str):
        return interegular.parse_pattern(pattern).to_fsm(symbols)

    everything, empty_text = parse(f"[{alphabet}{other}]*"), parse("")
    nothing = everything.difference(everything)

    def small(node: Node) -> bool:  # no Length and no unrolling by thousands
        match node:
            case Seq(items) | Alt(items) | And(items):
                return all(map(small, items))
            case Repeat(item, _, high):
                return (high or 0) < 9 and small(item)
            case Not(item):
                return small(item)
            case Length():
                return False
        return True

    node = data.draw(regular_nodes(alphabet).filter(small))
    expected, reference = machine(node), Language(Grammar({"start": node}))
    for size in range(4):
        for letters in product(alphabet + other, repeat=size):
            assert contains(reference, "".join(letters).encode()) == expected.accepts(letters)


# ---- tokens


def make(grammar: Grammar, vocabulary: DrawnVocabulary) -> ReferenceGrammar:
    return ReferenceGrammar(grammar, vocabulary.tokens, vocabulary.eos_token_ids, vocabulary.special_tokens)


def longest(node: Node) -> int:
    """The maximum number of bytes of a text of a node from `finite_nodes`."""
    match node:
        case Text(text):
            return len(text.encode())
        case Seq(items):
            return sum(map(longest, items))
        case Alt(items) | And(items):
            return max(map(longest, items), default=0)
        case Repeat(item, _, high):
            return longest(item) * high
    return 1


@given(st.data())
@examples(80)
def test_masks_and_budgets_of_finite_languages(data):
    """Everything is enumerated: the outputs, the ways to cut them into tokens, and every state that tokens lead to."""
    alphabet = data.draw(alphabets)
    vocabulary = data.draw(vocabularies(alphabet))
    items = data.draw(st.lists(finite_nodes(alphabet) | st.sampled_from(sorted(SPECIALS)).map(Special), max_size=3))
    grammar = Grammar({"start": data.draw(st.sampled_from([Seq(tuple(items)), Alt(tuple(items))]))})
    assume(longest(grammar.rules["start"]) <= 14)
    letters = b"".join(vocabulary.texts.values())
    ids = vocabulary.ids
    outputs = language(grammar, letters, 14, ids)
    pieces = {id: tuple(text) for id, text in vocabulary.texts.items()}
    pieces |= {id: (~id,) for id in vocabulary.special_tokens}

    def needed(prefix: Output) -> int | None:
        """The smallest number of tokens after `prefix`, including the end token."""
        rests = (output[len(prefix) :] for output in outputs if output[: len(prefix)] == prefix)
        counts = (fewest_tokens(rest, vocabulary.texts.values()) for rest in rests)
        return min((count + 1 for count in counts if count is not None), default=None)

    if needed(()) is None:
        with pytest.raises((SpecError, VocabularyError)):
            make(grammar, vocabulary)
        return
    reference = make(grammar, vocabulary)
    todo, seen = [((), reference.initial())], set()
    while todo and len(seen) < 60:
        prefix, state = todo.pop()
        if prefix in seen:
            continue
        seen.add(prefix)
        after = {id: needed(prefix + piece) for id, piece in pieces.items()}
        after = {id: count for id, count in after.items() if count is not None}
        if prefix in outputs:
            after |= dict.fromkeys(vocabulary.eos_token_ids, 0)
        assert reference.is_accepting(state) == (prefix in outputs)
        assert reference.mask(state) == after.keys()
        assert reference.min_tokens(state) == needed(prefix) == min(after.values()) + 1
        for budget in range(needed(prefix) + 3):
            assert reference.budget_mask(state, budget) == {id for id, count in after.items() if count < budget}
        for id in after.keys() & pieces.keys():
            todo.append((prefix + pieces[id], reference.accept_token(state, id)))


@given(st.data())
@examples(40)
def test_masks_of_any_language(data):
    """Allowed tokens can be completed with the promised number of tokens, and tokens of short outputs are allowed."""
    alphabet = data.draw(alphabets)
    vocabulary = data.draw(vocabularies(alphabet, complete=True))
    grammar = data.draw(grammars(alphabet, specials=tuple(SPECIALS)))
    letters = bytes({byte for text in vocabulary.texts.values() for byte in text})[:4]
    outputs = language(grammar, letters, 4, vocabulary.ids)
    try:
        reference = make(grammar, vocabulary)
        reference.min_tokens(reference.initial())
    except (SpecError, VocabularyError):
        assert not outputs
        return
    except LimitExceeded:  # never a guess
        assume(False)
    end = vocabulary.eos_token_ids[0]
    spelled: Output = ()
    state = reference.initial()
    for _ in range(data.draw(st.integers(0, 3))):
        fewest = reference.min_tokens(state)
        assert fewest is not None
        mask = reference.mask(state)
        assert (end in mask) == reference.is_accepting(state)
        silent = {id for id, text in enumerate(vocabulary.tokens) if not text}
        assert not mask & (silent - set(vocabulary.special_tokens) - set(vocabulary.eos_token_ids))
        exact = {id: reference.min_tokens(reference.accept_token(state, id)) for id in mask}
        assert fewest == 1 + min(exact.values())
        assert reference.budget_mask(state, fewest) == {id for id, count in exact.items() if count == fewest - 1}
        assert reference.budget_mask(state, fewest - 1) == set()
        for id, text in vocabulary.texts.items():
            if any(output[: len(spelled) + len(text)] == spelled + tuple(text) for output in outputs):
                assert id in mask
        id = data.draw(st.sampled_from(sorted(mask)))
        if id in vocabulary.eos_token_ids:
            break
        spelled += (~id,) if id in vocabulary.special_tokens else tuple(vocabulary.tokens[id])
        state = reference.accept_token(state, id)
