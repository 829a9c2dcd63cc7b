"""Shared by the tests of the core's threads, memory and robustness: a vocabulary, specifications, random journeys.

A journey is a fixed random sequence of calls on one matcher. Its record holds every answer. So two journeys with the
same seed and specification must have equal records, for any number of threads, forks and rebuilt workspaces.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from importlib.util import find_spec

import guided
from guided.ir import (
    Alt,
    And,
    Chars,
    Grammar,
    Length,
    Member,
    Node,
    Not,
    Permutation,
    Ref,
    Repeat,
    Seq,
    Special,
    Text,
)
from guided.matching import CompiledGrammar, GrammarCompiler, GrammarMatcher, allocate_token_bitmask, allowed_tokens
from guided.vocabulary import Vocabulary

SANITIZED = os.environ.get("GUIDED_SANITIZED", "")
"""Which sanitizer the core was built with; its tests are then shorter, and nothing is measured."""

PIECES = (
    "ab",
    "abc",
    "aa",
    "bb",
    "é",
    "éa",
    "😀",
    '"',
    '",',
    '": ',
    '"}',
    "},",
    "[1",
    "12",
    "345",
    "0.",
    ", ",
    "tr",
    "true",
)


class ReadingCompiler(GrammarCompiler):
    """Keeps the rules of the last compilation, since a compiled grammar does not."""

    rules: Grammar

    def _to_native(self, grammar: Grammar):
        self.rules = replace(grammar, rules=dict(grammar.rules))  # a compiler clears its own list
        return super()._to_native(grammar)


@cache
def vocabulary(words: int = 150) -> Vocabulary:
    """All bytes, common pieces of text, random words, control tokens 256 and 257, an unused id, a duplicate, an end
    token.
    """
    rng = random.Random(5)
    tokens: list[bytes | None] = [bytes([byte]) for byte in range(256)] + [None, None, None, b"ab"]
    tokens += [piece.encode() for piece in PIECES]
    letters = 'aabbccdefgxyz  {}[]()"",:0123é😀'
    for _ in range(words):
        tokens.append("".join(rng.choices(letters, k=rng.randint(2, 9))).encode()[: rng.randint(2, 12)])
    tokens += [b"a" * 24, "é".encode() * 9, b"x" * 40]
    return Vocabulary(tokens, eos_token_ids=[len(tokens)], special_tokens={256: "<call>", 257: "<end>"})


def ranges(text: str) -> Node:
    return Chars(tuple((ord(c), ord(c)) for c in sorted(set(text))))


LOWER = Chars(((0x61, 0x7A),))
ANY = Chars(((0, 0xD7FF), (0xE000, 0x10FFFF)))
NESTED = Grammar({"start": Alt((Seq((Text("("), Ref("start"), Text(")"))), Text("a"), Text("b")))})
AMBIGUOUS = Grammar(
    {"start": Alt((Seq((Ref("start"), Ref("start"))), Seq((Text("("), Ref("start"), Text(")"))), Text("a")))}
)
CALLS = Grammar(
    {
        "start": Repeat(Alt((LOWER, Seq((Special("<call>"), Ref("list"), Special("<end>"))))), 1, 30),
        "list": Seq((Text("["), Repeat(Seq((Ref("item"), Text(", "))), 0, 40), Ref("item"), Text("]"))),
        "item": Alt((Repeat(ranges("0123"), 1, 12), Ref("list"), Text('"'))),
    }
)
MEMBERS = Grammar(
    {
        "start": Permutation(
            tuple(Member(Seq((Text(c), Repeat(LOWER, 1, 30))), c in "12", c == "3") for c in "1234567"),
            Text(", "),
            2,
            9,
        )
    }
)
GAPS = Grammar({"start": Seq((Length(Repeat(Alt((Text("abc"), Text("é😀"))), 0, None), 27, 27), Text('"')))})
WINDOW = Grammar(
    {
        "start": Seq(
            (Length(And((Repeat(ANY, 0, None), Not(Seq((Repeat(ANY, 0, None), ranges('"\\')))))), 30, 400), Text("}"))
        )
    }
)
TREE = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 20},
        "tags": {"type": "array", "items": {"enum": ["a", "ab", "abc"]}, "minItems": 1, "maxItems": 30},
        "left": {"$ref": "#"},
        "n": {"type": "integer"},
    },
    "required": ["name"],
    "additionalProperties": False,
}
FREE = {"type": "object", "properties": {"a": {"type": "number"}, "b": {"type": "boolean"}}, "required": ["b"]}

SPECS: dict[str, Callable[[GrammarCompiler], CompiledGrammar]] = {
    "nested": lambda c: c.compile_grammar(NESTED),
    "ambiguous": lambda c: c.compile_grammar(AMBIGUOUS),
    "calls": lambda c: c.compile_grammar(CALLS),
    "members": lambda c: c.compile_grammar(MEMBERS),
    "gaps": lambda c: c.compile_grammar(GAPS),
    "window": lambda c: c.compile_grammar(WINDOW),
    "tree": lambda c: c.compile_json_schema(TREE),
    "free": lambda c: c.compile_json_schema(FREE, max_string=50),
    "counted": lambda c: c.compile_regex(r"(?:[a-z]{3,200}x|\w{2,9}){2,40}"),
    "numbers": lambda c: c.compile_regex(r"(?:\d{1,3},){1,50}(?:é|ab|aab)*end"),
    "any": lambda c: c.compile_regex(r".{10,300}"),
}

PROGRAM = r"""
start: (assignment | loop)*
assignment: NAME "=" sum ";"
loop: "ab" sum "{" start "}"
sum: sum ("," | ",," | ":") value | value
value: NAME | NUMBER | "(" sum ")" | STRING
NAME: /[a-z]+/
NUMBER: /[0-9]+/
STRING: /"[^"]*"/
%ignore /[ \n]+/
"""
BLOCKS = r"""
start: (_NL | line)*
line: NAME ("," NAME)* _NL | NAME ":" _NL _INDENT line+ _DEDENT | "(" NAME* ")" _NL
NAME: /[a-z0-9]+/
_NL: /(\n[ \t]*)+/
%ignore " "
%declare _INDENT _DEDENT
"""


def blocks(compiler: GrammarCompiler) -> CompiledGrammar:
    from tests.lexer_support import Blocks  # needs lark

    return compiler.compile_lark(BLOCKS + 'LPAR: "("\nRPAR: ")"\n', postlex=Blocks())


def composed(compiler: GrammarCompiler) -> CompiledGrammar:
    call = guided.special("<call>") + guided.lark(PROGRAM) + guided.special("<end>")
    return compiler.compile(guided.repeat(guided.choice(call, guided.regex("[a-c]+")), 1, 3))


def captured(compiler: GrammarCompiler) -> CompiledGrammar:
    pair = guided.capture("name", guided.regex("[a-z]+")) + ":" + guided.capture("value", guided.regex("[0-9a-f]*"))
    return compiler.compile(guided.repeat(pair + guided.regex("[ ,]"), 1, 9))


LEXED_SPECS: dict[str, Callable[[GrammarCompiler], CompiledGrammar]] = {
    "lexed": lambda c: c.compile_lark(PROGRAM),
    "blocks": blocks,
    "composed": composed,
    "captured lexemes": lambda c: c.compile_lark(PROGRAM.replace("assignment: ", "assignment[capture]: ")),
    "limited": lambda c: c.compile_lark('start: a "b" a\na[max_tokens=4]: /[a-c]+}/'),
}
"""Grammars with a lexer, and what was built upon them: these need Lark."""
EVERY_SPEC = {**SPECS, "captured": captured, **(LEXED_SPECS if find_spec("lark") else {})}


def mask_of(matcher: GrammarMatcher, max_tokens: int | None = None) -> tuple[int, ...]:
    """The allowed ids, in ascending order."""
    bitmask = allocate_token_bitmask(1, matcher.grammar.vocabulary.size)
    matcher.fill_next_token_bitmask(bitmask, max_tokens=max_tokens)
    return tuple(allowed_tokens(bitmask))


def journey(
    matcher: GrammarMatcher,
    seed: int,
    steps: int,
    *,
    visit: Callable[[GrammarMatcher], None] | None = None,
) -> list[object]:
    """Random calls and their results. Calls `visit` after each."""
    rng = random.Random(seed)
    record: list[object] = []
    for _ in range(steps):
        act = rng.randrange(12)
        if act == 0 and matcher.steps:
            matcher.rollback(rng.randint(0, matcher.steps))
        elif act == 1:
            branch = matcher.fork()
            for token in rng.choices(range(matcher.grammar.vocabulary.size), k=4):
                record.append(branch.accept_token(token))
            if rng.random() < 0.5:
                matcher = branch
        elif act == 2:
            record.append(matcher.accept_token(rng.randrange(matcher.grammar.vocabulary.size)))
        elif act == 3 and not matcher.is_terminated():
            least = matcher.min_tokens_to_finish()
            record.append((least, mask_of(matcher, least + rng.choice([0, 1, 2, 50]))))
        elif act == 4:
            record.append(matcher.validate_tokens(rng.choices(range(matcher.grammar.vocabulary.size), k=3)))
            record.append(sorted(matcher._next_tokens()))
        else:
            mask = mask_of(matcher)
            record.append(mask)
            if matcher.is_terminated():
                assert set(mask) == matcher.grammar.vocabulary.eos_token_ids
                matcher.reset()
            else:
                assert matcher.accept_token(rng.choice(mask))
        record.append((matcher.is_accepting(), matcher.is_terminated(), matcher.steps))
        if visit is not None:
            visit(matcher)
    return record
