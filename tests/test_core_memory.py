"""Memory is bounded, and caches change no answer: renewed workspaces, evicted tables, long histories, deep stacks."""

from __future__ import annotations

import gc
import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import guided
from guided import Limits
from guided.automaton import _core
from guided.automaton.build import Target, compile_native
from guided.errors import GuidedError
from guided.ir import Alt, And, Chars, Grammar, Length, Node, Not, Ref, Repeat, Seq, Text
from guided.matching import GrammarCompiler, GrammarMatcher, allocate_token_bitmask, allowed_tokens
from guided.matching.compiled import native_vocabulary
from guided.vocabulary import Vocabulary
from tests.core_support import ANY, EVERY_SPEC, NESTED, SANITIZED, SPECS, ReadingCompiler, journey, mask_of, vocabulary
from tests.drawn_grammars import ALPHABETS, grammars, vocabularies

STEPS = 25 if SANITIZED else 40
LONG = 20_000 if SANITIZED else 100_000


def resident() -> int:
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


needs_proc = pytest.mark.skipif(
    bool(SANITIZED) or not Path("/proc/self/statm").exists(), reason="needs /proc and an allocator that frees"
)


# ---- workspaces that are renewed


@pytest.mark.parametrize("name", EVERY_SPEC)
def test_renewed_workspaces_answer_alike(name: str) -> None:
    plenty = EVERY_SPEC[name](GrammarCompiler(vocabulary()))
    scarce = EVERY_SPEC[name](GrammarCompiler(vocabulary(), limits=Limits(memory=1)))
    for seed in range(3):
        assert journey(GrammarMatcher(scarce), seed, STEPS) == journey(GrammarMatcher(plenty), seed, STEPS)
    assert scarce.native.rebuilds > 0 and plenty.native.rebuilds == 0


@pytest.mark.parametrize("name", EVERY_SPEC)
def test_every_earlier_step_survives_a_renewal(name: str) -> None:
    """Masks and distances of all steps, computed again after rollbacks and in forks from before and after renewals."""
    first = GrammarMatcher(EVERY_SPEC[name](GrammarCompiler(vocabulary())))
    first.min_tokens_to_finish()
    limits = Limits(
        memory=first.memory_bytes + 8_000
    )  # space for the search for the least number of tokens, and little else
    grammar = EVERY_SPEC[name](GrammarCompiler(vocabulary(), limits=limits))
    matcher, rng = GrammarMatcher(grammar), random.Random(3)
    seen: list[tuple[tuple[int, ...], int]] = []
    forks: list[GrammarMatcher] = []
    for _ in range(STEPS):
        seen.append((mask_of(matcher), matcher.min_tokens_to_finish()))
        forks.append(matcher.fork())
        ids = [token for token in seen[-1][0] if token != vocabulary().size - 1]
        if not ids:
            break
        assert matcher.accept_token(rng.choice(ids))
    for lap in range(60):  # other sequences fill the workspace
        journey(GrammarMatcher(grammar), rng.randrange(1 << 30), 20)
        if lap >= 14 and grammar.native.rebuilds:
            break
    assert grammar.native.rebuilds > 0
    for step, fork in enumerate(forks):
        assert (mask_of(fork), fork.min_tokens_to_finish()) == seen[step]
    matcher.fork().rollback(matcher.steps)
    for step in reversed(range(matcher.steps)):
        matcher.rollback(1)
        assert (mask_of(matcher), matcher.min_tokens_to_finish()) == seen[step]
        branch = forks[-1].fork()
        if branch.steps >= step:
            branch.rollback(branch.steps - step)
            assert mask_of(branch) == seen[step][0]


@needs_proc
def test_memory_stays_flat() -> None:
    """Each sequence adds states; once the limit is reached, old states are dropped."""
    grammar = GrammarCompiler(vocabulary(), limits=Limits(memory=2 << 20)).compile_regex(
        r"(?:[a-z]{1,500}[ ,]|\d{3,90}é){2,400}"
    )
    rng, after = random.Random(1), []
    for lap in range(4):
        for _ in range(12):
            matcher = GrammarMatcher(grammar)
            for _ in range(400):
                ids = [token for token in mask_of(matcher) if token < vocabulary().size - 1]
                if not ids or not matcher.accept_token(rng.choice(ids)):
                    break
                assert matcher.memory_bytes < 8 << 20
        after.append(resident())
        assert grammar.native.rebuilds > lap
    assert after[-1] - after[0] < 16 << 20


LISTS = 'start: item+\nitem: "(" item* ")" | NAME | "[" item* "]"\nNAME: /[a-z]+/\n%ignore " "\n'


@pytest.mark.parametrize("kind", ["rules", "lexer", "composed"])
def test_matchers_that_were_idle_do_not_raise_the_limit(kind: str) -> None:
    """An idle matcher adds its own states to full ones. The limit must not double each time."""
    limit, rng = 1_000_000, random.Random(1)
    compiler = GrammarCompiler(vocabulary(), limits=Limits(memory=limit))
    match kind:
        case "rules":
            grammar = compiler.compile_regex(r"(?:[a-z]{1,500}[ ,]|\d{3,90}é){2,400}")
        case "lexer":
            grammar = compiler.compile_lark(LISTS)
        case _:
            grammar = compiler.compile(guided.sequence("x", guided.lark(LISTS), "y"))

    def step(matcher: GrammarMatcher) -> bool:
        ids = [token for token in mask_of(matcher) if token < vocabulary().size - 1]
        return bool(ids) and matcher.accept_token(rng.choice(ids))

    def write_until(is_reached: Callable[[], bool]) -> None:
        for _ in range(1000):
            matcher = GrammarMatcher(grammar)
            for _ in range(600):
                if is_reached():
                    return
                if not step(matcher):
                    break

    idle = [GrammarMatcher(grammar) for _ in range(4)]
    assert all(step(matcher) for matcher in idle)
    write_until(lambda: grammar.native.rebuilds > 0)
    bound = limit
    for matcher in idle:
        rebuilds = grammar.native.rebuilds
        write_until(lambda: grammar.native.memory_bytes > 0.9 * bound or grammar.native.rebuilds > rebuilds)  # noqa: B023
        assert step(matcher)
        bound = max(bound, 2 * grammar.native.memory_bytes)  # the limit that the matcher would have left
        assert grammar.native.memory_bytes < 1.5 * limit


# ---- histories


def test_a_fork_at_every_step() -> None:
    """Histories are shared, not copied: forks of long histories are cheap, and their destruction does not recurse."""
    grammar = GrammarCompiler(vocabulary()).compile_regex("[ab]*")
    matcher, forks = GrammarMatcher(grammar), []
    for step in range(LONG):
        assert matcher.accept_token(97 + step % 2)
        forks.append(matcher.fork())
        if step % 3 == 0:
            matcher = forks[-1].fork()
    for step in random.Random(0).sample(range(LONG), 300):
        assert forks[step].steps == step + 1
        forks[step].rollback(min(step, 7))
        assert forks[step].steps == step + 1 - min(step, 7)
    deep = matcher.fork()
    assert deep.steps == LONG
    deep.rollback(LONG)
    assert deep.steps == 0 and mask_of(deep) == mask_of(GrammarMatcher(grammar))
    with pytest.raises(ValueError, match="rollback"):
        deep.rollback(1)
    del forks, matcher


def test_forks_share_a_past_and_not_a_future() -> None:
    grammar = SPECS["nested"](GrammarCompiler(vocabulary()))
    rng, matcher = random.Random(8), GrammarMatcher(grammar)
    twins: list[tuple[GrammarMatcher, list[int]]] = [(matcher, [])]
    for _ in range(STEPS * 4):
        matcher, path = rng.choice(twins)
        if rng.random() < 0.2 and len(twins) < 40:
            twins.append((matcher.fork(), list(path)))
        elif path and rng.random() < 0.3:
            n = rng.randint(1, len(path))
            matcher.rollback(n)
            del path[len(path) - n :]
        else:
            mask = [token for token in mask_of(matcher) if token < 256]
            if mask:
                path.append(rng.choice(mask))
                assert matcher.accept_token(path[-1])
    for matcher, path in twins:
        fresh = GrammarMatcher(grammar)
        assert all(fresh.accept_token(token) for token in path)
        assert fresh.state == matcher.state and fresh.steps == matcher.steps


# ---- deep stacks


def test_deep_nesting_is_linear() -> None:
    compiler = GrammarCompiler(vocabulary())

    def descend(depth: int) -> GrammarMatcher:
        matcher = GrammarMatcher(compiler.compile_grammar(Grammar(dict(NESTED.rules), origins={"start": str(depth)})))
        for _ in range(depth):
            assert matcher.accept_token(ord("("))
        assert matcher.min_tokens_to_finish() == depth + 2
        assert mask_of(matcher) == tuple(matcher._walk_mask())
        return matcher

    half, whole = descend(5_000), descend(10_000)
    assert whole.configurations < 2.1 * half.configurations and whole.memory_bytes < 2.3 * half.memory_bytes
    assert whole.configurations < 10 * 10_000
    assert whole.accept_string("a" + ")" * 10_000) and whole.is_accepting()
    assert not whole.accept_string(")")
    whole.rollback(1)
    assert not whole.is_accepting() and whole.accept_string("b)")


def test_deep_nesting_survives_renewals() -> None:
    grammar = GrammarCompiler(vocabulary(), limits=Limits(memory=100_000)).compile_grammar(NESTED)
    matcher = GrammarMatcher(grammar)
    depth = 2_000
    for _ in range(depth):
        assert matcher.accept_token(ord("("))
    assert grammar.native.rebuilds < 40  # each renewal leaves space
    assert matcher.min_tokens_to_finish() == depth + 2
    assert matcher.accept_string("a" + ")" * depth) and matcher.is_accepting()


def test_long_lists_do_not_deepen() -> None:
    tail = Grammar({"start": Alt((Seq((Text("a"), Ref("start"))), Text("b")))})
    matcher = GrammarMatcher(GrammarCompiler(vocabulary()).compile_grammar(tail))
    assert matcher.accept_token(97)
    before = matcher.configurations
    for _ in range(10_000):
        assert matcher.accept_token(97)
    assert matcher.configurations <= before + 4


@pytest.mark.parametrize("wrap", ["seq", "alt", "repeat", "not", "and", "length"])
def test_deep_specifications_are_refused(wrap: str) -> None:
    """No nesting of nodes may overflow the machine's stack: it works, or exceeds a limit."""
    node: Node = Text("a")
    for level in range(30_000):
        match wrap:
            case "seq":
                node = Seq((node, Text("b")))
            case "alt":
                node = Alt((node, Text("b")))
            case "repeat":
                node = Repeat(node, level % 2, 2)
            case "not":
                node = Not(node)
            case "and":
                node = Seq((And((node, Repeat(ANY, 0, None))), Repeat(Text("b"), 0, 1)))
            case _:
                node = Seq((Length(node, 0, 9), Repeat(Text("b"), 0, 1)))
    with pytest.raises(GuidedError):
        compiled = GrammarCompiler(vocabulary(), limits=Limits(seconds=5)).compile_grammar(Grammar({"start": node}))
        raise GuidedError(f"it works: {compiled}")
    while isinstance(node, Seq | Alt | Repeat | Not | And | Length):  # destroy it without recursion
        node = node.items[0] if isinstance(node, Seq | Alt | And) else node.item


# ---- caches


@pytest.mark.parametrize("name", EVERY_SPEC)
def test_cached_equals_uncached(name: str) -> None:
    """Masks from warm tables, from cleared tables, and by definition."""
    native = native_vocabulary(vocabulary())

    def by_definition(matcher: GrammarMatcher) -> None:
        assert mask_of(matcher) == tuple(matcher._walk_mask())

    for seed in range(2):
        grammar = EVERY_SPEC[name](GrammarCompiler(vocabulary()))
        warm = journey(GrammarMatcher(grammar), seed, STEPS, visit=by_definition)
        native.clear_cache()
        assert native.cached_tables == 0 and native.cached_bytes == 0
        assert journey(GrammarMatcher(EVERY_SPEC[name](GrammarCompiler(vocabulary()))), seed, STEPS) == warm


@given(st.data())
def test_cached_equals_uncached_for_drawn_grammars(data: st.DataObject) -> None:
    alphabet = data.draw(st.sampled_from(ALPHABETS))
    drawn = data.draw(vocabularies(alphabet, complete=True))
    grammar = data.draw(grammars(alphabet, specials=tuple(drawn.special_tokens.values())))
    seed = data.draw(st.integers(0, 1000))
    shared = Vocabulary(drawn.tokens, eos_token_ids=drawn.eos_token_ids, special_tokens=drawn.special_tokens)
    records = []
    for _ in range(2):
        try:
            matcher = GrammarMatcher(GrammarCompiler(shared).compile_grammar(grammar))
        except GuidedError:
            return
        for _ in range(6):
            mask = mask_of(matcher)
            assert mask == tuple(matcher._walk_mask())
            if not mask or not matcher.accept_token(random.Random(seed).choice(mask)):
                break
            records.append(mask)
    assert records[: len(records) // 2] == records[len(records) // 2 :]


def test_tables_are_bounded_in_bytes() -> None:
    """The least recently used tables are dropped first, and rebuilt tables are equal."""
    words = vocabulary()
    natives = {
        limit: _core.TokenVocabulary(words.tokens, sorted(words.eos_token_ids), words.size, limit)
        for limit in (1 << 30, 20_000, 0)
    }
    special = {"<call>": [256], "<end>": [257]}
    masks: dict[int, list[object]] = {}
    for limit, native in natives.items():
        masks[limit] = []
        for name in [*SPECS, *SPECS]:
            reading = ReadingCompiler(words)
            SPECS[name](reading)
            target = Target(native, special, sorted(words.eos_token_ids))
            matcher = _core.Matcher(compile_native(reading.rules, target, Limits()))
            rng = random.Random(1)
            bitmask = allocate_token_bitmask(1, words.size)
            for _ in range(25):
                matcher.fill_next_token_bitmask(bitmask)
                mask = allowed_tokens(bitmask)
                masks[limit].append(mask)
                if not mask:
                    break
                matcher.accept_token(rng.choice(mask))
                if limit < 1 << 30:
                    assert native.cached_bytes <= limit or native.cached_tables == 1
    assert masks[0] == masks[20_000] == masks[1 << 30]
    assert natives[1 << 30].cached_bytes > 20_000


# ---- counts near their bounds

LETTERS = Chars(((0x61, 0x7A), (0xE0, 0xFF), (0x1F600, 0x1F640)))
PAIRS = Alt((Text("ab"), Text("a"), Text("é")))


@pytest.mark.parametrize("upper", [None, 1003, 1000])
@pytest.mark.parametrize(
    "item, spelled",
    [
        pytest.param(LETTERS, "a", id="letters"),
        pytest.param(ANY, "x", id="any"),
        pytest.param(PAIRS, "ab", id="pairs"),
        pytest.param(Seq((LETTERS, Repeat(Text("b"), 0, 1))), "ab", id="optional"),
        pytest.param(Repeat(LETTERS, 1, 3), "a", id="nested"),
        pytest.param(Seq((Text('"'), Repeat(LETTERS, 0, 30), Text('", '))), '"", ', id="frames"),
    ],
)
def test_repetition_near_its_bounds(item: Node, spelled: str, upper: int | None) -> None:
    grammar = Grammar({"start": Seq((Repeat(item, 1000, upper), Text('"')))})
    matcher = GrammarMatcher(GrammarCompiler(vocabulary()).compile_grammar(grammar))
    check_near(matcher, spelled, [0, 1, 500, *range(955, 1004, 3), 998, 999, 1000, 1001, 1002, 1003])


@pytest.mark.parametrize("low, high", [(1000, None), (1000, 1003), (0, 1000), (990, 1001)])
@pytest.mark.parametrize(
    "item, spelled",
    [
        pytest.param(Repeat(ANY, 0, None), "x", id="any"),
        pytest.param(Repeat(Text("abc"), 0, None), "abc", id="threes"),
        pytest.param(Repeat(Alt((Text("abc"), Text("éb"))), 0, None), "éb", id="gaps"),
        pytest.param(Seq((Repeat(LETTERS, 0, None), Repeat(Text("ab"), 0, None))), "ab", id="two loops"),
        pytest.param(
            And((Repeat(ANY, 0, None), Not(Seq((Repeat(ANY, 0, None), Text("bb"), Repeat(ANY, 0, None)))))),
            "ab",
            id="and",
        ),
    ],
)
def test_lengths_near_their_bounds(item: Node, spelled: str, low: int, high: int | None) -> None:
    grammar = Grammar({"start": Seq((Length(item, low, high), Text('"')))})
    matcher = GrammarMatcher(GrammarCompiler(vocabulary()).compile_grammar(grammar))
    last = 1003 // len(spelled)
    check_near(matcher, spelled, [0, 1, *range(last - 30, last - 4, 3), *range(last - 4, last + 1)])


def check_near(matcher: GrammarMatcher, spelled: str, counts: list[int]) -> None:
    """At each reachable count, and one token later, the mask equals the definition."""
    rng = random.Random(4)
    for count in counts:
        matcher.reset()
        if not matcher.accept_string(spelled * count):
            continue
        for _ in range(2):
            mask = mask_of(matcher)
            assert mask == tuple(matcher._walk_mask()), count
            assert matcher.validate_tokens([rng.choice(mask)]) == 1
            refused = set(range(vocabulary().size)) - set(mask)
            assert not any(matcher.accept_token(token) for token in refused)
            assert matcher.accept_token(rng.choice(mask))


@needs_proc
def test_forks_and_rollbacks_in_turn_leave_nothing() -> None:
    matcher = GrammarMatcher(GrammarCompiler(vocabulary()).compile_regex("a*"))
    after = []
    for _ in range(2):
        for _ in range(60_000):
            assert matcher.accept_string("a")
            matcher.fork()
            matcher.rollback(1)
        after.append(resident())
    assert matcher.steps == 0 and after[1] - after[0] < 2_000_000
