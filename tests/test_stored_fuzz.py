"""Hostile bytes: reading a stored grammar ends in a grammar or in a clear error.

GUIDED_FUZZ_CASES is the number of cases, GUIDED_FUZZ_SEED the first seed. Under the address sanitizer:

    GUIDED_FUZZ_CASES=10000 scripts/sanitize.sh address tests/test_stored_fuzz.py
"""

from __future__ import annotations

import json
import random
import time
import warnings
import zlib
from array import array
from contextlib import suppress

import pytest

from guided import CompiledGrammar, GrammarCompiler, GrammarMatcher, Limits, allocate_token_bitmask, allowed_tokens
from guided.errors import GuidedError, GuidedWarning, LimitExceeded, SpecError
from guided.frontends.stored import container, write_container
from guided.ir.nodes import (
    Automaton,
    Grammar,
    Keyword,
    Lexer,
    Ref,
    Region,
    Repeat,
    Seq,
    Special,
    Terminal,
    Text,
)
from guided.matching.native import vocabulary_digest
from guided.matching.stored import write_specification
from tests.core_support import EVERY_SPEC, vocabulary
from tests.test_core_fuzz import CASES, chances
from tests.test_stored import tools

VOCABULARY = vocabulary(20)
LIMITS = Limits(states=20_000, nodes=20_000, memory=1 << 20, spec_length=100_000, seconds=5.0, work=2_000_000)
HEAD = len(container._MAGIC) + 1


def seeds() -> list[bytes]:
    """Stored grammars of all kinds."""
    compiler = GrammarCompiler(VOCABULARY, warn=False)
    found = [compile(compiler).to_bytes() for compile in EVERY_SPEC.values()]
    return [*found, compiler.compile_structural_tag(tools(9)).to_bytes()]


def split(data: bytes) -> tuple[dict, array]:
    """The JSON and the integers of stored bytes."""
    body = zlib.decompress(data[HEAD:])
    size = int.from_bytes(body[:4], "little")
    return json.loads(body[4 : 4 + size]), array("I", body[4 + size :])


def join(head: dict, ints: array) -> bytes:
    text = json.dumps(head, ensure_ascii=True).encode()
    body = len(text).to_bytes(4, "little") + text + ints.tobytes()
    return container._MAGIC + bytes([container.FORMAT]) + zlib.compress(body, 1)


def with_other_ints(head: dict, ints: array, rng: random.Random) -> bytes:
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(ints))
        match rng.randint(0, 3):
            case 0:
                ints[at] = rng.choice((0, 1, 2, rng.randint(0, 40), ints[rng.randrange(len(ints))], 2**32 - 1, 2**31))
            case 1:
                ints[at] = max(0, min(2**32 - 1, ints[at] + rng.choice((-1, 1))))
            case 2:
                del ints[at]
                ints.insert(rng.randrange(len(ints) + 1), rng.randint(0, 40))
            case 3:
                other = rng.randrange(len(ints))
                ints[at], ints[other] = ints[other], ints[at]
    return join(head, ints)


ODD_VALUES = (None, True, -1, 2**40, 1.5, "", "a", "\ud800", [], [[]], {}, {"a": {}}, "0" * 50, "ffffffffff")


def with_other_json(head: dict, ints: array, rng: random.Random) -> bytes:
    name = rng.choice(sorted(head))
    value = head[name]
    if isinstance(value, list) and value and rng.random() < 0.8:
        at = rng.randrange(len(value))
        value[at] = rng.choice((*ODD_VALUES, value[rng.randrange(len(value))]))
    else:
        head[name] = rng.choice(ODD_VALUES)
    return join(head, ints)


def with_other_bytes(data: bytes, rng: random.Random) -> bytes:
    out = bytearray(data)
    for _ in range(rng.randint(1, 3)):
        out[rng.randrange(len(out))] = rng.randrange(256)
    return bytes(out[: rng.randint(0, len(out))]) if rng.random() < 0.2 else bytes(out)


def use(data: bytes, rng: random.Random) -> bool:
    """Read bytes, and use the grammar in them. Returns whether there is one."""
    grammar = None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GuidedWarning)
        try:
            grammar = CompiledGrammar.from_bytes(data, VOCABULARY, limits=LIMITS)
        except GuidedError as error:
            assert str(error)
            return False
    bitmask = allocate_token_bitmask(1, VOCABULARY.size)
    with suppress(GuidedError):
        matcher = GrammarMatcher(grammar)
        for _ in range(3):
            matcher.fill_next_token_bitmask(bitmask)
            if not matcher.accept_token(rng.choice(allowed_tokens(bitmask))):
                break
        if rng.random() < 0.1:  # these take most of the time
            matcher.captures()
            matcher.explain(b"x")
    if rng.random() < 0.1:
        with suppress(GuidedError):
            assert grammar.grammar.rules
            CompiledGrammar.from_bytes(grammar.to_bytes(), VOCABULARY, limits=LIMITS)
    return True


def test_changed_bytes():
    known = sorted(seeds(), key=len)
    read, total = 0, 0
    for rng in chances(10 * CASES):
        data = known[int(len(known) * rng.random() ** 2)]  # mostly small ones
        kind = rng.randint(0, 9)
        if kind == 0:
            data = with_other_bytes(data, rng)
        else:
            data = (with_other_json if kind == 1 else with_other_ints)(*split(data), rng)
        read += use(data, rng)
        total += 1
    assert 0.02 < read / total < 0.98  # both outcomes occur


def stored(grammar: Grammar) -> bytes:
    about = {"kind": "grammar", "vocabulary": vocabulary_digest(VOCABULARY), "findings": []}
    return write_container([grammar], about)


def test_a_bomb_of_zeros():
    bomb = container._MAGIC + bytes([container.FORMAT]) + zlib.compress(bytes(1 << 28), 9)
    assert len(bomb) < 1 << 19
    with pytest.raises(LimitExceeded, match="nodes"):
        CompiledGrammar.from_bytes(bomb, VOCABULARY)


def test_json_that_nests_deeply():
    text = b"[" * 1_000_000
    body = zlib.compress(len(text).to_bytes(4, "little") + text)
    with pytest.raises(SpecError, match="JSON text is damaged"):
        CompiledGrammar.from_bytes(container._MAGIC + bytes([container.FORMAT]) + body, VOCABULARY)


def test_equal_rows_are_refused():
    """Comparing two towers of equal parts would take exponential time."""
    head, ints = split(stored(Grammar({"start": Seq((Text("a"), Text("b")))})))
    assert ints[:4] == array("I", [1, ints[1], 1, ints[3]])
    ints[3] = ints[1]
    with pytest.raises(SpecError, match="a row occurs twice"):
        CompiledGrammar.from_bytes(join(head, ints), VOCABULARY)
    head["texts"].append(head["texts"][0])
    with pytest.raises(SpecError, match="a text occurs twice"):
        CompiledGrammar.from_bytes(join(head, ints), VOCABULARY)


@pytest.mark.parametrize("shape", ["tower", "chain", "twice"])
def test_large_shapes_take_bounded_time(shape):
    begin = time.monotonic()
    node = Text("ab")
    rules = {}
    for number in range({"tower": 60, "chain": 15_000, "twice": 400}[shape]):
        if shape == "tower":
            node = Seq((node, node))
        elif shape == "chain":
            node = Repeat(node, 0, 1)
        else:
            rules[f"r{number}"] = Seq((Ref(f"r{number + 1}"), Ref(f"r{number + 1}")))
    rules |= {"r400": Text("a")} if shape == "twice" else {}
    use(stored(Grammar({"start": Ref("r0") if shape == "twice" else node, **rules})), random.Random(1))
    assert time.monotonic() - begin < 60


def test_names_that_are_not_defined():
    keyword = Terminal("A", Text("a"), (Keyword("B", Text("a")),))
    for changes in (
        {"regions": {"other": Region("x")}},
        {"lexer": Lexer((keyword,))},
        {"lexer": Lexer((Terminal("A", Text("a")),), frozenset({"B"}))},
        {"lexer": Lexer((Terminal("A", Text("a")), Terminal("A", Text("b"))))},
        {"lexer": Lexer((Terminal("A", Text("a")),), contexts={frozenset("A"): frozenset("A")})},
    ):
        with pytest.raises(SpecError, match="malformed"):
            CompiledGrammar.from_bytes(stored(Grammar({"start": Special("A")}, **changes)), VOCABULARY)


def test_automata_that_lead_nowhere():
    for states in (((True, ((97, 97, 5),)),), ((True, ((98, 97, 0),)),), ((True, ((97, 0x110000, 0),)),), ()):
        with pytest.raises(SpecError):
            CompiledGrammar.from_bytes(stored(Grammar({"start": Automaton(states)})), VOCABULARY)


@pytest.mark.parametrize("automaton", [Automaton(((True, ()),), 1), Automaton(((True, ((97, 97, 1),)),))])
def test_explanations_do_not_see_states_that_an_automaton_lacks(automaton):
    """The core compiles another grammar, in which rules are missing."""
    first, whole = (Grammar({"start": node}) for node in (Text("a"), automaton))
    digest = vocabulary_digest(VOCABULARY)
    read = CompiledGrammar.from_bytes(
        write_specification("grammar", None, (), first, lambda: whole, digest), VOCABULARY
    )
    with pytest.raises(SpecError, match="a state that it lacks"):
        assert read.grammar.rules
