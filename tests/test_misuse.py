"""No misuse from Python ends the process: wrong objects, objects that run code while they are read, little stack.

Each case runs in its own process, since a failure would end the process. A case prints the errors that it caught.
"""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

PRELUDE = """
import threading
import numpy as np
from dataclasses import dataclass
from guided import Limits, GrammarCompiler, GrammarMatcher
from guided.automaton import _core
from guided.errors import *
from guided.ir import *
from guided.matching import allocate_token_bitmask, fill_batch
from guided.matching.compiled import native_vocabulary
from tests.core_support import FREE, SPECS, TREE, vocabulary

NODES = (Text, Seq, Alt, Ref, Repeat, Chars, Encoded, And, Not, Length, Distinct, Entry, Permutation, Member)
TYPES = _core.NodeTypes(NODES)
compiler = GrammarCompiler(vocabulary())
def compile(**rules): return compiler.compile_grammar(Grammar(rules))
def matcher(name="tree"): return GrammarMatcher(SPECS[name](compiler))
def caught(call):
    try:
        call()
    except Exception as error:
        print(type(error).__name__)
    else:
        print("fine")
def with_stack(size, call):
    threading.stack_size(size)
    thread = threading.Thread(target=caught, args=(call,))
    thread.start()
    thread.join()
    threading.stack_size(0)
"""

CASES: dict[str, tuple[str, str]] = {
    "members that make their item when it is read": (
        """
        class Made:
            required = repeatable = False
            @property
            def item(self): return Seq((Text("a"), Text("b" * 1000)))
        caught(lambda: compile(start=Permutation((Made(), Made(), Made()), Text(","))))
        caught(lambda: compile(start=Permutation([Member(Text("a"))], Text(","))))
        caught(lambda: compile(start=Permutation((Member(Text("a")),), Text(","))))
        """,
        "SpecError SpecError fine",
    ),
    "a class that looks like a member": (
        """
        class Other(Member):
            pass
        caught(lambda: compile(start=Permutation((Other(Text("a")),), Text(","))))
        """,
        "SpecError",
    ),
    "classes of nodes whose fields run code": (
        """
        class Odd:
            @property
            def items(self): return (Odd(), Odd())
            @property
            def item(self): return Odd()
            text = name = ranges = encoding = known = members = separator = item
        class Hidden(Seq):
            items = "no slot"
        class Borrowed:
            __slots__ = ()
            item, items, text, min, max = Repeat.item, Seq.items, Text.text, Repeat.min, Repeat.max
            name, ranges, encoding, known = Ref.name, Chars.ranges, Encoded.encoding, Distinct.known
            members, separator = Permutation.members, Permutation.separator
        builder = _core.Builder()
        _core.NodeTypes(NODES)
        refused = 0
        for kind in range(14):
            for odd in (Odd, Hidden, Borrowed, int, 1):
                try:
                    _core.NodeTypes((*NODES[:kind], odd, *NODES[kind + 1 :]))
                except ValueError:
                    refused += 1
        assert refused == 14 * 5, refused
        """,
        "",
    ),
    "a node inside of itself": (
        """
        loops = Seq((Text("a"),))
        object.__setattr__(loops, "items", (Text("a"), loops))
        caught(lambda: compile(start=loops))
        loops = Repeat(Text("a"), 0, -1)
        object.__setattr__(loops, "item", loops)
        caught(lambda: compile(start=loops))
        member = Member(Text("a"))
        loops = Permutation((member,), Text(","))
        object.__setattr__(member, "item", loops)
        caught(lambda: compile(start=loops))
        """,
        "SpecError SpecError SpecError",
    ),
    "nodes of derived classes, nested": (
        """
        class Own(Repeat):
            pass
        node = Text("a")
        for _ in range(5000):
            node = Own(node, 0, 1)
        with_stack(512 << 10, lambda: compile(start=node))
        """,
        "SpecError",
    ),
    "a callback that asks for ever new nodes": (
        """
        builder = _core.Builder()
        reader = _core.NodeReader(builder, TYPES, {}, 10**6)
        def other(node): return reader.read(object(), other)
        with_stack(256 << 10, lambda: reader.read(object(), other))
        """,
        "ValueError",
    ),
    "rules that are no numbers": (
        """
        for number in ("x", None, -1, 2**80, 7):
            builder = _core.Builder()
            builder.encoding(_core.Encoding([([(0, 127)], [[(0, 127, 0, 1)]])]))
            def run():
                node = _core.NodeReader(builder, TYPES, {"a": number}, 100).read(Ref("a"), lambda node: builder.ref(9))
                builder.compile(native_vocabulary(vocabulary()), [node], ["a"], 0, 100, 1.0, 100)
            caught(run)
        caught(lambda: _core.NodeTypes(NODES[:13]))
        """,
        "IndexError IndexError IndexError IndexError IndexError ValueError",
    ),
    "deep nesting in threads with little stack": (
        """
        def nested(wrap, levels):
            node = Text("a")
            for level in range(levels):
                node = wrap(node, level)
            return node
        wraps = [
            lambda node, level: Seq((node, Text("b"))),
            lambda node, level: Alt((Text("c"), node)),
            lambda node, level: Not(node),
            lambda node, level: Seq((Repeat(Seq((node, Text("b" * 30))), 3, 9), Text("c"))),
            lambda node, level: Seq((Length(node, 0, 900), Repeat(Text("b"), 0, 1))),
            lambda node, level: Permutation((Member(node, required=True),), Text(",")),
            lambda node, level: Entry(node),
        ]
        def attempt(node):
            try:
                return compile(start=node).native.positions
            except (LimitExceeded, UnsupportedError, SpecError) as error:
                return str(error)
        for wrap in wraps:
            for levels in (60, 200, 3000):
                node = nested(wrap, levels)
                answers = [attempt(node)]
                for size in (128 << 10, 512 << 10):
                    threading.stack_size(size)
                    thread = threading.Thread(target=lambda: answers.append(attempt(node)))
                    thread.start()
                    thread.join()
                    threading.stack_size(0)
                assert len(set(answers)) == 1, answers
        print("fine")
        """,
        "fine",
    ),
    "statistics while workspaces are renewed": (
        """
        small = GrammarCompiler(vocabulary(), limits=Limits(memory=1 << 12))
        shared = GrammarMatcher(SPECS["members"](small))
        stop = threading.Event()
        def read():
            while not stop.is_set():
                for name in ("configurations", "bytes", "steps", "state"):
                    try:
                        assert getattr(shared, name) >= 0
                    except RuntimeError:
                        pass
                assert shared.grammar.native.memory_bytes >= 0 and shared.grammar.native.states > 0
        threads = [threading.Thread(target=read) for _ in range(4)]
        for thread in threads: thread.start()
        for turn in range(400):
            for token in b"1abcdefghij, 2xyz, 3ab, 3cd, 4z":
                while True:
                    try:
                        shared.accept_token(token)
                        break
                    except RuntimeError:
                        pass
            while True:
                try:
                    shared.reset()
                    break
                except RuntimeError:
                    pass
        stop.set()
        for thread in threads: thread.join()
        assert shared.grammar.native.rebuilds > 0
        print("fine")
        """,
        "fine",
    ),
    "sequences whose lengths and items change": (
        """
        class Lying:
            def __init__(self, items, length): self.items, self.length = items, length
            def __len__(self): return self.length
            def __getitem__(self, at): return self.items(at)
        def token(at):
            if at > 5000: raise IndexError
            return b"a%d" % at
        caught(lambda: _core.TokenVocabulary(Lying(token, 1), [], 1, 1000))
        caught(lambda: _core.TokenVocabulary(Lying(token, 10**9), [], 6000, 1000))
        caught(lambda: _core.TokenVocabulary([b"a"], [], 1, -1))
        bitmask = allocate_token_bitmask(100, vocabulary().size)
        def made(at):
            if at == 100: raise IndexError
            return matcher("free")  # nobody else keeps it
        caught(lambda: _core.fill_batch(Lying(made, 100), bitmask, list(range(100)), 500, 2))
        matchers = [matcher("free") for _ in range(100)]
        class Clearing:
            def __index__(self):
                matchers.clear()
                return 0
        caught(lambda: _core.fill_batch(matchers, bitmask, [Clearing(), *range(1, 100)], 500, 2))
        caught(lambda: _core.fill_batch([matcher(), matcher()], bitmask, [0, 0], -1, 2))
        rows = [np.zeros((3, bitmask.shape[1]), np.int32) for _ in range(100)]
        caught(lambda: _core.advance_matchers(Lying(made, 100), [(-1, each, 500, True) for each in rows]))
        matchers = [matcher("free") for _ in range(100)]
        steps = [(-1, each, 500, True) for each in rows]
        caught(lambda: _core.advance_matchers(matchers, [(-1, rows[0], Clearing(), True), *steps[1:]]))
        one, other, words = matcher(), matcher(), rows[0]
        caught(lambda: _core.advance_matchers([one], [(-1, words, 5, True)] * 2))
        caught(lambda: _core.advance_matchers([one, one], steps[:2]))
        caught(lambda: _core.advance_matchers([one, other], [(-1, words, 5, True)] * 2))
        caught(lambda: _core.advance_matchers([one], [(-2, words, 5, True)]))
        caught(lambda: _core.advance_matchers([one], [(10**6, words, 5, True)]))
        caught(lambda: _core.advance_matchers([one], [(-1, words[:2], 5, True)]))
        caught(lambda: _core.advance_matchers([one], [(-1, words[:, 1:].copy(), 5, True)]))
        caught(lambda: _core.advance_matchers([one], [(-1, words.astype(np.int64), 5, True)]))
        caught(lambda: one._fill_under_budget(words[:2], 5, True))
        caught(lambda: _core.advance_matchers([one], [(-1, words, -(10**12), True)]))
        """,
        "ValueError fine ValueError fine ValueError ValueError fine ValueError ValueError ValueError ValueError "
        "ValueError ValueError IndexError ValueError TypeError IndexError fine",
    ),
    "tokens past the vocabulary": (
        """
        builder = _core.Builder()
        builder.encoding(_core.Encoding([([(0, 127)], [[(0, 127, 0, 1)]])]))
        node = builder.special(10**6, 10**6)
        def run():
            compiled = builder.compile(native_vocabulary(vocabulary()), [node], ["a"], 0, 100, 1.0, 100)
            _core.Matcher(compiled).fill_next_token_bitmask(allocate_token_bitmask(1, vocabulary().size))
        caught(run)
        """,
        "IndexError",
    ),
    "a builder that is changed while it compiles": (
        """
        builder = _core.Builder()
        builder.encoding(_core.Encoding([([(0, 127)], [[(0, 127, 0, 1)]])]))
        letters = builder.many("seq", [builder.chars([(97, 97 + i % 20)]) for i in range(3000)])
        top = builder.negation(builder.many("alt", [letters, builder.many("seq", [letters, letters])]))
        done = threading.Event()
        def grow():
            while not done.is_set():
                try:
                    for _ in range(1000): builder.text("abc")
                    builder.distinct(top, ["a"])
                    builder.encoding(_core.Encoding([]))
                    builder.compile(native_vocabulary(vocabulary()), [0], ["a"], 0, 10**6, 9.0, 1 << 20)
                except (RuntimeError, ValueError, IndexError, GuidedError):
                    pass
        thread = threading.Thread(target=grow)
        thread.start()
        for _ in range(5):
            try:
                builder.compile(native_vocabulary(vocabulary()), [top], ["a"], 0, 10**6, 9.0, 1 << 20)
            except (RuntimeError, GuidedError):
                pass
        done.set()
        thread.join()
        print("fine")
        """,
        "fine",
    ),
    "objects that were not initialised, or twice": (
        """
        import warnings
        warnings.simplefilter("ignore")
        empty = _core.Matcher.__new__(_core.Matcher)
        caught(lambda: empty.steps)
        caught(lambda: _core.Matcher(empty))
        caught(lambda: _core.fill_batch([empty], allocate_token_bitmask(1, vocabulary().size), [0], -1, 1))
        one = matcher()
        caught(lambda: _core.Matcher.__init__(one, matcher("free").grammar.native))
        caught(lambda: _core.Compiled.__new__(_core.Compiled).states)
        """,
        "TypeError TypeError TypeError TypeError TypeError",
    ),
    "an encoding with ever more sums": (
        """
        digits = [[(0, 255, 0, 3**level % 100003) for _ in range(3)] for level in range(40)]
        forms = (Form(((0, 0xD7FF),), tuple(tuple(Span(*span) for span in digit) for digit in digits)),)
        try:
            GrammarCompiler(vocabulary(), limits=Limits(seconds=1)).compile_grammar(
                Grammar({"start": Encoded(Text("a"), Encoding("odd", forms))}))
        except LimitExceeded:
            pass
        print("fine")
        """,
        "fine",
    ),
}


def alone(code: str, seconds: float = 100) -> subprocess.CompletedProcess[str]:
    """Run code in another process with the same modules."""
    return subprocess.run(
        [sys.executable, "-c", PRELUDE + textwrap.dedent(code)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )


@pytest.mark.parametrize("name", CASES)
def test_the_process_survives(name: str) -> None:
    code, expected = CASES[name]
    done = alone(code)
    assert done.returncode == 0, (done.returncode, done.stdout, done.stderr[-2000:])
    assert done.stdout.split() == expected.split(), done.stderr[-2000:]


NODES_AT_RANDOM = """
kinds = [Text, Seq, Alt, Ref, Repeat, Chars, Encoded, And, Not, Length, Distinct, Entry, Permutation, Member, Special,
         Automaton, Encoding, Form, Span]
def value(depth):
    odd = [None, True, -1, 0, 1, 2, 3, 256, 10**6, 2**31, -2**63, 2**80, 0.5, "", "a", "b\\ud800", b"a", [], {}, set(),
           object(), UTF8, Text, ((0x61, 0x62),), ((0x62, 0x61),), ((0xD000, 0xE000),), ((1,),), range(3)]
    turn = rng.random()
    if turn < 0.4 or depth == 0:
        return rng.choice(odd)
    if turn < 0.6:
        return tuple(value(depth - 1) for _ in range(rng.randrange(4)))
    return node(depth - 1)
def node(depth):
    kind = rng.choice(kinds)
    good = rng.random() < 0.5
    if good and depth:
        inner = tuple(node(depth - 1) for _ in range(rng.randrange(3)))
        if kind in (Seq, Alt, And): return kind(inner)
        if kind in (Not, Entry, Distinct, Member): return kind(*inner[:1] or (Text("a"),))
        if kind in (Repeat, Length): return kind(*inner[:1] or (Text("a"),), rng.randrange(3), rng.choice((None, 3)))
        if kind is Permutation:
            return kind(tuple(Member(item) if rng.random() < 0.8 else item for item in inner), Text(","))
        if kind is Encoded: return kind(*inner[:1] or (Text("a"),), UTF8)
    if good:
        return rng.choice([Text("ab"), Chars(((0x61, 0x63),)), Ref("start"), Special(256)])
    made = kind.__new__(kind)
    for name in kind.__slots__:
        if rng.random() < 0.95:
            object.__setattr__(made, name, value(depth))
    return made
small = GrammarCompiler(vocabulary(), limits=Limits(seconds=1, states=5000, nodes=1000, memory=1 << 20))
for _ in range(ROUNDS):
    root = node(3)
    if rng.random() < 0.1 and isinstance(root, Seq | Alt | And):
        object.__setattr__(root, "items", (root, Text("a")))
    try:
        one = GrammarMatcher(small.compile_grammar(Grammar({"start": root})))
        one.fill_next_token_bitmask(allocate_token_bitmask(1, vocabulary().size))
    except GuidedError as error:
        assert str(error)
"""

CALLS_AT_RANDOM = """
import warnings
import numpy as np
warnings.simplefilter("ignore")
size = vocabulary().size
def objects():
    builder = _core.Builder()
    try:
        builder.encoding(_core.Encoding([([(0, 127)], [[(0, 127, 0, 1)]])]))
        builder.text("ab")
    except ValueError:
        pass
    one = matcher(rng.choice(("tree", "members", "calls", "free")))
    return [builder, one, one.fork(), one.grammar.native, native_vocabulary(vocabulary()),
            _core.NodeReader(builder, TYPES, {"start": 0}, 100), allocate_token_bitmask(2, size)]
class Odd:
    def __init__(self, pool): self.pool = pool
    def __index__(self): return call(self.pool, 0) or rng.choice((0, 1, -1, 2**31))
    def __len__(self): return rng.choice((0, 1, 5, 1000))
    def __getitem__(self, at):
        if at > 4: raise IndexError
        return value(self.pool)
    def __call__(self, *_): return call(self.pool, 0) or 0
    def __bool__(self): return rng.random() < 0.5
def value(pool):
    return rng.choice((
        None, True, -1, 0, 1, 2, 97, 256, size, 2**31 - 1, 2**31, -2**31, 2**63 - 1, -2**63, 2**64, 0.5, float("nan"),
        "", "a", "\\ud800", b"", b'{"name": "', b"\\xff" * 9, [], [0], [1, 0], [-1], [None], [97, 256, 2**31 - 1],
        (0, 1), [(0, 5)], [(5, 0)], [([(0, 9)], [[(0, 9, 0, 1)]])], [(0, 97, 98, 0)], {}, {"a": 1}, [True],
        np.zeros((2, 3), np.int32), np.zeros((1, (size + 31) // 32)), np.int64(3), Text("a"),
        Seq((Text("a"), Text("b"))), Odd(pool), Odd, *pool))
def call(pool, depth=2):
    one = rng.choice(pool)
    name = rng.choice([name for name in dir(one) if not name.startswith("__") or name in ("__init__", "__call__")])
    if isinstance(one, np.ndarray):
        return None
    try:
        method = getattr(one, name)
        if callable(method):
            arguments = [value(pool) for _ in range(rng.choice((0, 1, 1, 2, 2, 3, 4, 6, 7)))]
            method(*arguments)
    except (TypeError, ValueError, IndexError, RuntimeError, OverflowError, AttributeError, LookupError, GuidedError):
        pass
for _ in range(ROUNDS):
    pool = objects()
    for _ in range(60):
        call(pool)
    for function in (_core.TokenVocabulary, _core.Encoding, _core.Matcher, _core.NodeReader, _core.fill_batch,
                     fill_batch):
        for _ in range(4):
            try:
                function(*[value(pool) for _ in range(rng.choice((1, 2, 3, 4, 5)))])
            except (TypeError, ValueError, IndexError, RuntimeError, OverflowError, AttributeError, GuidedError):
                pass
"""


@pytest.mark.parametrize("code", [NODES_AT_RANDOM, CALLS_AT_RANDOM], ids=["nodes", "calls"])
def test_random_misuse(code: str) -> None:
    """GUIDED_FUZZ_SEED sets the start, GUIDED_FUZZ_ROUNDS the length."""
    seed, rounds = (os.environ.get(f"GUIDED_FUZZ_{name}", default) for name, default in (("SEED", "0"), ("ROUNDS", "")))
    rounds = rounds or ("3000" if code is NODES_AT_RANDOM else "150")
    done = alone(f"import random\nrng, ROUNDS = random.Random({int(seed)}), {int(rounds)}\n" + code, 600)
    assert done.returncode == 0, (done.returncode, done.stdout[-2000:], done.stderr[-2000:])
