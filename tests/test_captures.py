"""Captures: samples with llguidance as a second judge, all parses of random grammars by brute force, and Lark's own
parse trees; while streaming, after rollbacks, in forks.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

import guided
import guided.ir as ir
from guided.ir.nodes import Region
from guided.matching import CompiledGrammar, GrammarCompiler, GrammarMatcher
from guided.vocabulary import Vocabulary
from tests.effort import examples

TOKENS = [bytes([code]) for code in range(256)]
SPECIAL = {257: "<call>", 258: "</call>"}
COMPILER = GrammarCompiler(Vocabulary(TOKENS, eos_token_ids=[256], special_tokens=SPECIAL, size=260))

Captures = dict[str, list[bytes]]
AnnotatedGrammar = tuple[tuple[int, int], ...]


def after(grammar: CompiledGrammar, text: str) -> GrammarMatcher:
    matcher = GrammarMatcher(grammar)
    for byte in text.encode():
        assert matcher.accept_token(byte), text
    return matcher


# name -> (grammar, text, captures)
SAMPLES: dict[str, tuple[str, str, dict[str, list[str]]]] = {
    "own name": ("start: a\na[capture]: /[a-z]+/", "ab", {"a": ["ab"]}),
    "another name": ('start: a\na[capture="x-y"]: /[a-z]+/', "ab", {"x-y": ["ab"]}),
    "a name with a hyphen": ("start: a-b\na-b[capture]: /[a-z]+/", "ab", {"a-b": ["ab"]}),
    "repeated": ('start: (a ",")+\na[capture]: /[a-z]+/', "ab,c,d,", {"a": ["ab", "c", "d"]}),
    "one of two": ('start: a | b\na[capture]: /[a-z]+/\nb[capture]: "1"', "1", {"a": [], "b": ["1"]}),
    "inside of one another": (
        'start: o\no[capture]: "(" i ")"\ni[capture]: /[a-z]+/', "(ab)", {"o": ["(ab)"], "i": ["ab"]},
    ),
    "one name for two": ('start: a "," b\na[capture="x"]: /[a-z]/\nb[capture="x"]: /[0-9]/', "a,1", {"x": ["a", "1"]}),
    "suffix": ('start: w\nw[capture, suffix="<end>"]: /.*/', "foo<end>", {"w": ["foo"]}),
    "suffix, around": (
        'start: o\no[capture]: w\nw[capture, suffix="<end>"]: /.*/', "foo<end>", {"o": ["foo<end>"], "w": ["foo"]},
    ),
    "stop_capture": (
        'start: w\nw[suffix=/<end>|END/, stop_capture="s"]: /.*/', "fooEND", {"s": ["END"]},
    ),
    "both": (
        'start: w "!"\nw[capture, suffix=/<end>|END/, stop_capture="s"]: /.*/', "f<end>!", {"w": ["f"], "s": ["<end>"]},
    ),
    "lazy": ("start: w\nw[capture, lazy]: /.*<end>/", "foo<end>", {"w": ["foo<end>"]}),
    "stop": ('start: w "<end>"\nw[capture, stop="<end>"]: /.*/', "foo<end>", {"w": ["foo"]}),
    "a schema": ('start: "x" j\nj[capture]: %json {"type": "array"}', "x[1, {}]", {"j": ["[1, {}]"]}),
    "nothing": ('start: a "b"\na[capture]: /x*/', "b", {"a": [""]}),
    "as much as possible": (
        "start: a b\na[capture]: /[a-z]+/\nb[capture]: /[a-z]*/", "abc", {"a": ["abc"], "b": [""]},
    ),
    "max_chars": (
        "start: a b\na[capture, max_chars=2]: /[a-z]+/\nb[capture]: /[a-z]+/", "abcd", {"a": ["ab"], "b": ["cd"]},
    ),
    "tools": (
        'start: call* TEXT\ncall: head body "</f>"\nhead[lazy]: TEXT "<f>"\nbody[capture]: /[a-z]+/\nTEXT: /(.|\\n)*/',
        "Hm.<f>ab</f>,<f>c</f>.", {"body": ["ab", "c"]},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SAMPLES)
def test_samples(name: str) -> None:
    text, output, captures = SAMPLES[name]
    matcher = after(COMPILER.compile_lark(text), output)
    assert matcher.is_accepting()
    assert matcher.captures() == {key: [each.encode() for each in texts] for key, texts in captures.items()}
    assert matcher.accept_token(256) and matcher.captures() == matcher.captures(partial=True)


@pytest.mark.parametrize("name", sorted(SAMPLES.keys() - {"max_chars", "tools"}))
def test_verdicts_match_llguidance(name: str) -> None:
    llguidance = pytest.importorskip("llguidance", reason="llguidance is not installed")
    text, output, captures = SAMPLES[name]

    class Wrapped:
        def __init__(self) -> None:
            self.eos_token_id, self.bos_token_id = 256, None
            self.tokens, self.special_token_ids = [*TOKENS, b"</s>"], [256]

        def __call__(self, text: str | bytes) -> list[int]:
            return list(text.encode() if isinstance(text, str) else text)

    tokenizer = llguidance.LLTokenizer(llguidance.TokenizerWrapper(Wrapped()))
    matcher = llguidance.LLMatcher(tokenizer, llguidance.LLMatcher.grammar_from_lark(text))
    assert matcher.consume_tokens([*output.encode(), 256]) and not matcher.is_error()
    found: Captures = {key: [] for key in captures}
    for key, data in matcher.get_captures():
        found[key].append(data)
    assert found == {key: [each.encode() for each in texts] for key, texts in captures.items()}


def test_ignored_text_belongs_to_no_capture() -> None:
    text = 'start: (a ",")*\na[capture]: b+\nb[capture]: /[a-z]+/\n%ignore /[ \\n]+/'
    for semantics in ("lexer", "scannerless"):
        matcher = after(COMPILER.compile_lark(text, semantics=semantics), " ab  c , \n d,  ")  # type: ignore[arg-type]
        assert matcher.captures() == {"a": [b"ab  c", b"d"], "b": [b"ab", b"c", b"d"]}


def test_partial_captures() -> None:
    text = 'start: a ";" b "."\na[capture]: /[a-z]+/\nb[capture]: c ("," c)*\nc[capture]: /[0-9]+/\n%ignore " "'
    for semantics in ("lexer", "scannerless"):
        grammar = COMPILER.compile_lark(text, semantics=semantics)  # type: ignore[arg-type]
        for output, complete, partial in [
            ("", {"a": [], "b": [], "c": []}, {"a": [], "b": [], "c": []}),
            ("ab", {"a": [], "b": [], "c": []}, {"a": [b"ab"], "b": [], "c": []}),
            ("ab ; ", {"a": [b"ab"], "b": [], "c": []}, {"a": [b"ab"], "b": [], "c": []}),
            ("ab;1", {"a": [b"ab"], "b": [], "c": []}, {"a": [b"ab"], "b": [b"1"], "c": [b"1"]}),
            ("ab;1 , 2", {"a": [b"ab"], "b": [], "c": [b"1"]}, {"a": [b"ab"], "b": [b"1 , 2"], "c": [b"1", b"2"]}),
            ("a;1,2.", {"a": [b"a"], "b": [b"1,2"], "c": [b"1", b"2"]}, None),
        ]:
            matcher = after(grammar, output)
            assert matcher.captures() == complete, (semantics, output)
            assert matcher.captures(partial=True) == (complete if partial is None else partial), (semantics, output)


# --- all parses, by brute force


@dataclass(frozen=True)
class Part:
    """A random expression: a node, and all of its marked texts for some letters, by definition."""

    kind: str
    parts: tuple[Part, ...] = ()
    letters: str = ""
    name: int = -1

    def node(self, rules: dict[str, ir.Node]) -> ir.Node:
        inner = tuple(part.node(rules) for part in self.parts)
        match self.kind:
            case "letter":
                return ir.Chars(ir.charset([(ord(letter), ord(letter)) for letter in self.letters]))
            case "seq":
                return ir.Seq(inner)
            case "alt":
                return ir.Alt(inner)
            case "many":
                return ir.Repeat(inner[0], 1, None)
            case "maybe":
                return ir.Repeat(inner[0], 0, 1)
        rules[f"r{self.name}"] = inner[0]
        return ir.Ref(f"r{self.name}")

    def readings(self, text: str, at: int) -> Iterator[tuple[int, AnnotatedGrammar]]:
        """The end of each reading from a position, and its marked text: (0, n) begins n, (1, 0) reads, (2, n) ends."""
        match self.kind:
            case "letter":
                if at < len(text) and text[at] in self.letters:
                    yield at + 1, ((1, 0),)
            case "seq":
                yield from self._in_turn(self.parts, text, at)
            case "alt":
                for part in self.parts:
                    yield from part.readings(text, at)
            case "maybe":
                yield at, ()
                yield from self.parts[0].readings(text, at)
            case "many":
                for end, marked in self.parts[0].readings(text, at):
                    if end > at:  # items are not empty
                        yield end, marked
                        for last, more in self.readings(text, end):
                            yield last, marked + more
            case "capture":
                for end, marked in self.parts[0].readings(text, at):
                    yield end, ((0, self.name), *marked, (2, self.name))

    def _in_turn(self, parts: tuple[Part, ...], text: str, at: int) -> Iterator[tuple[int, AnnotatedGrammar]]:
        if not parts:
            yield at, ()
            return
        for middle, marked in parts[0].readings(text, at):
            for end, more in self._in_turn(parts[1:], text, middle):
                yield end, marked + more

    @property
    def is_nullable(self) -> bool:
        if self.kind in ("seq", "many", "capture"):
            return all(part.is_nullable for part in self.parts)
        return self.kind == "maybe" or (self.kind == "alt" and any(part.is_nullable for part in self.parts))


def random_part(rng: random.Random, names: Iterator[int], depth: int) -> Part:
    kind = rng.choice(["letter", "seq", "alt", "many", "maybe", "capture", "capture"]) if depth else "letter"
    if kind == "letter":
        return Part("letter", letters=rng.choice(["a", "b", "ab"]))
    count = rng.randint(2, 3) if kind in ("seq", "alt") else 1
    parts = tuple(random_part(rng, names, depth - 1) for _ in range(count))
    if kind == "many" and parts[0].is_nullable:
        return parts[0]
    return Part(kind, parts, name=next(names) if kind == "capture" else -1)


def best(part: Part, text: str) -> Captures | None:
    """The captures of the first reading. A reading is earlier if it begins a capture before it reads, and reads before
    it ends a capture.
    """
    readings = [marked for end, marked in part.readings(text, 0) if end == len(text)]
    if not readings:
        return None
    out: list[tuple[int, int, bytes]] = []
    opened: list[tuple[int, int, int]] = []
    at = 0
    # At the end of the text, the shorter sequence of events comes first.
    for number, (kind, name) in enumerate(min((*marked, (1, 0)) for marked in readings)[:-1]):
        if kind == 0:
            opened.append((number, name, at))
        elif kind == 1:
            at += 1
        else:
            order, name, start = opened.pop()
            out.append((order, name, text[start:at].encode()))
    found: Captures = {}
    for _, name, data in sorted(out):
        found.setdefault(f"r{name}", []).append(data)
    return found


@examples(150, 2000)
@given(st.randoms(use_true_random=False))
def test_the_reading_that_counts(rng: random.Random) -> None:
    names = itertools.count()
    part = Part("seq", (random_part(rng, names, 4), random_part(rng, names, 3)))
    rules: dict[str, ir.Node] = {}
    start = part.node(rules)
    regions = {name: Region(capture=name) for name in sorted(rules, key=lambda name: int(name[1:]))}
    grammar = COMPILER.compile_grammar(ir.Grammar({**rules, "start": start}, regions=regions))
    for text in ("".join(rng.choice("ab") for _ in range(length)) for length in (1, 2, 3, 4, 5, 6)):
        matcher = GrammarMatcher(grammar)
        expected = best(part, text)
        assert (matcher.accept_string(text) and matcher.is_accepting()) == (expected is not None)
        if expected is not None:
            assert {name: texts for name, texts in matcher.captures().items() if texts} == expected, (part, text)


# --- Lark's parse trees

PROGRAM = r"""
start: statement+
statement: assignment | loop
assignment: NAME "=" sum ";"
loop: "while" sum "{" statement* "}"
sum: product (("+" | "-") product)*
product: value ("*" value)*
value: NAME | NUMBER | "(" sum ")"
NAME: /[a-z]\w*/
NUMBER: /[0-9]+(\.[0-9]+)?/
%ignore /\s+/
%ignore /#[^\n]*/
"""


def program(rng: random.Random, depth: int = 3) -> str:
    def space() -> str:
        return rng.choice(["", "", " ", "\n", "# a = 1;\n"])

    def expression(depth: int) -> str:
        if depth == 0 or rng.random() < 0.4:
            return rng.choice(["x", "whilex", "while1", "12", "1.5", "a_b"])
        if rng.random() < 0.3:
            return f"({space()}{expression(depth - 1)}{space()})"
        operator = rng.choice("+-*")
        return f"{expression(depth - 1)}{space()}{operator}{space()}{expression(depth - 1)}"

    out = []
    for _ in range(rng.randint(1, 3)):
        if depth and rng.random() < 0.4:
            out.append(f"while {expression(2)}{space()}{{{program(rng, depth - 1)}}}")
        else:
            out.append(f"{rng.choice(['x', 'whilex', 'y'])}{space()}={space()}{expression(2)}{space()};")
    return space() + space().join(out) + space()


@examples(60, 1000)
@given(st.randoms(use_true_random=False))
def test_lark_finds_the_same_places(rng: random.Random) -> None:
    lark = pytest.importorskip("lark", reason="lark is not installed")
    captured = ("statement", "assignment", "loop", "sum", "product", "value")
    marked = PROGRAM
    for name in captured:
        marked = marked.replace(f"\n{name}:", f"\n{name}[capture]:")
    grammar = COMPILER.compile_lark(marked)
    text = program(rng)
    tree = lark.Lark(PROGRAM, parser="lalr", propagate_positions=True, maybe_placeholders=False).parse(text)
    found = {name: [] for name in captured}
    for node in tree.iter_subtrees_topdown():
        if node.data in found:
            found[node.data].append((node.meta.start_pos, text[node.meta.start_pos : node.meta.end_pos].encode()))
    expected = {
        name: [data for _, data in sorted(places, key=lambda it: (it[0], -len(it[1])))]
        for name, places in found.items()
    }
    assert after(grammar, text).captures() == expected


# --- while an output grows


@examples(40, 400)
@given(st.sampled_from(sorted(SAMPLES)), st.randoms(use_true_random=False))
def test_rollback_forks_and_strings(name: str, rng: random.Random) -> None:
    text, output, _ = SAMPLES[name]
    grammar = COMPILER.compile_lark(text)
    data = output.encode()
    matcher = GrammarMatcher(grammar)
    ends = [0]
    for _ in range(30):
        at = ends[-1]
        match rng.choice(["token", "token", "string", "rollback", "fork", "ask", "reset"]):
            case "token" if at < len(data):
                assert matcher.accept_token(data[at])
                ends.append(at + 1)
            case "string":
                end = rng.randint(at, len(data))
                assert matcher.accept_string(data[at:end])
                ends.append(end)
            case "rollback":
                steps = rng.randint(0, len(ends) - 1)
                matcher.rollback(steps)
                del ends[len(ends) - steps :]
            case "fork":
                other, matcher = matcher, matcher.fork()
                assert other.captures() == matcher.captures()
                other.accept_token(data[at] if at < len(data) else 256)
            case "ask":
                expected = after(grammar, data[:at].decode())
                for partial in (False, True):
                    assert matcher.captures(partial=partial) == expected.captures(partial=partial)
            case "reset" if rng.random() < 0.2:
                matcher.reset()
                ends = [0]


def test_control_tokens_have_no_text() -> None:
    text = "start: c+\nc[capture]: <call> n </call>\nn[capture]: <[^97-99]> /[a-z]+/"
    matcher = GrammarMatcher(COMPILER.compile_lark(text, allow_special_tokens=True))
    for token in (257, *b"xab", 258, 257, *b"zc", 258):
        assert matcher.accept_token(token)
    assert matcher.captures() == {"c": [b"xab", b"zc"], "n": [b"xab", b"zc"]}
    matcher.rollback(1)
    assert matcher.captures() == {"c": [b"xab"], "n": [b"xab"]}


def test_parts_and_nested_grammars() -> None:
    date = guided.capture("year", guided.regex("[0-9]{4}")) + "-" + guided.capture("month", guided.regex("[0-9]{2}"))
    entry = guided.capture(
        "entry", date + guided.optional(guided.capture("note", guided.json_schema({"type": "string"})))
    )
    matcher = GrammarMatcher(COMPILER.compile(guided.repeat(entry + ";")))
    assert matcher.accept_string('2024-01"a";1999-12;')
    assert matcher.captures() == {
        "year": [b"2024", b"1999"], "month": [b"01", b"12"], "entry": [b'2024-01"a"', b"1999-12"], "note": [b'"a"'],
    }  # fmt: skip
    nested = 'start: a @given %lark { start: a\na[capture="inner"]: /[0-9]/ }\na[capture]: /[a-z]/'
    compiled = COMPILER.compile_lark(nested, grammars={"given": date})
    expected = {"a": [b"x"], "year": [b"2024"], "month": [b"01"], "inner": [b"7"]}
    assert after(compiled, "x2024-017").captures() == expected
    assert after(COMPILER.compile(guided.sequence(compiled, "!")), "x2024-017!").captures() == expected
    with pytest.raises(guided.SpecError, match="the name of a capture is a string"):
        guided.capture("", "a")


def test_a_rule_that_begins_with_itself_is_refused() -> None:
    for text in [
        'start: e\ne[capture]: e "+" /[0-9]/ | "1"',
        'start: e\ne[temperature=1]: f | "1"\nf: g e "+"\ng: "a"?',
    ]:
        with pytest.raises(guided.UnsupportedError, match="a left-recursive rule cannot be captured") as caught:
            COMPILER.compile_lark(text)
        assert caught.value.span == (9, 10) and "right recursion" in caught.value.hint
    value = guided.rule("v")
    with pytest.raises(guided.UnsupportedError, match="a left-recursive rule cannot be captured"):
        COMPILER.compile(guided.rules(value, v=guided.capture("x", value + "a" | "b")))
    right = COMPILER.compile_lark('start: e\ne[capture]: /[0-9]/ "+" e | /[0-9]/')
    assert after(right, "1+2+3").captures() == {"e": [b"1+2+3", b"2+3", b"3"]}


def test_too_many_ways_end_in_a_limit() -> None:
    matcher = after(COMPILER.compile_lark('start: a{9999} a{9999} "b"\na[capture]: /x?/'), "x")
    with pytest.raises(guided.LimitExceeded):
        matcher.captures()


@pytest.mark.parametrize(
    ("text", "output"),
    [
        ('start: "b" | "a" item{1,30}', "aab" * 30),
        ('start: "b" | "a" item{1,40} item{1,40}', "aabb" * 20),
        ('start: x{2,9}\nx: "a" | "a" item{1,9}', "a" * 60),
    ],
)
def test_too_many_parses_end_in_a_limit(text: str, output: str) -> None:
    """Each letter may end any number of items, so there would be hundreds of thousands of parallel parses."""
    matcher = after(COMPILER.compile_lark(text + "\nitem[capture]: start"), output)
    with pytest.raises(guided.LimitExceeded, match="so that a text has one count"):
        matcher.captures(partial=True)


def test_without_captures_nothing_is_kept() -> None:
    plain, captured = COMPILER.compile_lark("start: /a+/"), COMPILER.compile_lark("start: a\na[capture]: /a+/")
    assert type(GrammarMatcher(plain)) is GrammarMatcher and type(GrammarMatcher(captured)) is not GrammarMatcher
    assert after(plain, "aa").captures() == {} and after(plain, "aa").temperature() is None


def test_temperatures() -> None:
    text = 'start: "a" t ("," t)* u?\nt[temperature=0.7]: /[b-d]+/\nu: ";" v\n'
    text += 'v[temperature=2]: w "z"\nw[temperature=0]: /[0-9]/'
    for semantics in ("lexer", "scannerless"):
        grammar = COMPILER.compile_lark(text, semantics=semantics)  # type: ignore[arg-type]
        for output, expected in [
            ("", None),
            ("a", 0.7),
            ("abc", 0.7),
            ("abc,", 0.7),
            ("ab;", 0),
            ("ab;1", 2),
            ("ab;1z", None),
        ]:
            assert after(grammar, output).temperature() == expected, (semantics, output)


def test_a_lexer_that_tries_all_terminals() -> None:
    text = 'start: s\ns[capture]: SELECT NAME\nSELECT: "select"\nNAME: /[a-z]+/\n%ignore " "'
    grammar = COMPILER.compile_lark(text, lexer="basic")
    assert after(grammar, "select  a ").captures() == {"s": [b"select  a"]}
