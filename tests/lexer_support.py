"""Random grammars for Lark's lexer, and texts for them."""

from __future__ import annotations

from lark.indenter import Indenter

import guided
from guided.automaton.reference.lexer import LexedLanguage, LexedState
from tests import core_support

TERMINALS = [
    *('"a"', '"b"', '"ab"', '"ba"', '"aa"', '"abb"', '"A"i', '"aB"i'),
    *("/a+/", "/b+/", "/[ab]+/", "/ab?/", "/a*b/", "/ba*/", "/aab?/", "/b[ab]/", "/[ab]c?/", "/a/i"),
    *("/a+?b/", "/a.*?b/", "/a|ab/", "/b(a|ab)/", "/ab??/"),
]
NEWLINES = [r"/\n[ \t]*/", r"/(\n[ \t]*)+/", r"/( *\n)+[ \t]*/", r"/\n/", r"/(\n[ \t]*|#a?)+/", r'"\n"', r"/\s+/"]
BLOCKS = [
    """start: _NL? stmt+
stmt: "a" _NL | "b" _NL _INDENT stmt+ _DEDENT | "(" e ")" _NL
e: "a" | "a" e |""",
    """start: stmt*
stmt: simple | "b" body
simple: "a" ["(" e* ")"] _NL
body: simple | _NL _INDENT stmt+ _DEDENT
e: "a" | "(" e ")\"""",
    """start: stmt
stmt: name [_INDENT stmt+ _DEDENT]
name: "a" _NL | "b" "(" "a" ")" _NL""",
    """start: _NL* stmt
stmt: NAME _NL [_INDENT stmt+ _DEDENT]
NAME: /[ab]+/""",
]
IGNORED = ["", '%ignore " "', "%ignore / +/", '%ignore /#a?/\n%ignore " "', r"%ignore /\s/", r"%ignore / *#[^\n]*/"]


class Blocks(Indenter):
    """Indentation between brackets `(` and `)`."""

    NL_type = "_NL"
    INDENT_type = "_INDENT"
    DEDENT_type = "_DEDENT"
    OPEN_PAREN_types = ["LPAR"]  # noqa: RUF012 - as in Lark
    CLOSE_PAREN_types = ["RPAR"]  # noqa: RUF012 - as in Lark
    tab_len = 2


def vocabulary_of(tokens: tuple[bytes, ...] | list[bytes]) -> guided.Vocabulary:
    return guided.Vocabulary([*tokens, None], eos_token_ids=[len(tokens)])


def vocabulary_for(texts: list[str]) -> guided.Vocabulary:
    """Each byte, and pieces of the texts, so that tokens contain several lexemes."""
    pieces = {data[i : i + n] for data in map(str.encode, texts) for n in (2, 3, 5) for i in range(len(data) - n + 1)}
    tokens = [*(bytes([byte]) for byte in range(256)), *sorted(pieces)]
    return guided.Vocabulary([*tokens, None], eos_token_ids=[len(tokens)])


def mask_of(matcher: guided.GrammarMatcher, max_tokens: int | None = None) -> set[int]:
    return set(core_support.mask_of(matcher, max_tokens))


def allowed_by(language: LexedLanguage, state: LexedState, tokens: tuple[bytes, ...]) -> set[int]:
    """The twin's mask: the tokens with which some output continues, and then the end token."""
    found = {len(tokens)} if language.is_accepting(state) else set()
    for number, token in enumerate(tokens):
        after = state
        for byte in token:
            after = after and language.read(after, byte)
        if after and language._is_completable(after):
            found.add(number)
    return found


def random_grammar(rng):
    """Rules over some terminals, recursive in any way, with empty alternatives, and sometimes an ignored terminal."""
    names = [f"T{number}" for number in range(rng.randint(2, 5))]
    rules = ["start", *(f"r{number}" for number in range(1, rng.randint(1, 3)))]
    lines = []
    for name, pattern in zip(names, rng.sample(TERMINALS, len(names)), strict=True):
        lines.append(f"{name}{rng.choice(['.1', '.2', '.-1']) if rng.random() < 0.15 else ''}: {pattern}")
    for rule in rules:
        alternatives = [
            " ".join(rng.choice([*names, *names, *rules]) for _ in range(rng.randint(0, 3)))
            for _ in range(rng.randint(1, 3))
        ]
        lines.append(f"{rule}: {' | '.join(alternatives)}")
    if rng.random() < 0.4:
        lines.append(f"%ignore {rng.choice([chr(34) + 'c' + chr(34), *names])}")
    return "\n".join(lines) + "\n"


def random_blocks(rng):
    """A grammar of indented blocks, with symbols added, removed and replaced."""
    lines = rng.choice(BLOCKS).splitlines()
    symbols = ['"a"', '"b"', '"("', '")"', "_NL", "_INDENT", "_DEDENT", "stmt", "start"]
    for _ in range(rng.choice((0, 0, 1, 2, 3))):
        at = rng.randrange(len(lines))
        head, _, body = lines[at].partition(": ")
        if head.isupper():
            continue
        parts = body.split(" ")
        place = rng.randrange(len(parts) + 1)
        parts[place : place + rng.randrange(2)] = rng.choice([[], [rng.choice(symbols)]])
        lines[at] = f"{head}: {' '.join(parts)}"
    lines += ["_NL: " + rng.choice(NEWLINES), "%declare _INDENT _DEDENT", 'LPAR: "("', 'RPAR: ")"', rng.choice(IGNORED)]
    return "\n".join(lines) + "\n"


def random_lines(rng):
    """Lines that are indented by an earlier width, by a larger width, or by a random one."""
    widths, out = [0], []
    for _ in range(rng.randint(0, 6)):
        widths.append(
            rng.choice([rng.choice(widths), rng.choice(widths), widths[-1] + rng.randint(1, 2), rng.randint(0, 4)])
        )
        space = " " * widths[-1] if widths[-1] < 2 or rng.random() < 0.8 else "\t" + " " * (widths[-1] - 2)
        out.append(
            space
            + rng.choice(["a", "a", "b", "b", "", "(a)", "(a\n a)", "ab", "b(a)", "a(a)", "(", "a)", "#a", "b(\n)"])
        )
    return near(rng, "\n".join(out) + rng.choice(["\n", "\n", "", "\n\n"]), "ab()\n #")


def near(rng, text, alphabet, chance=0.4):
    """The text, sometimes with one character added, removed or replaced."""
    if rng.random() >= chance:
        return text
    at = rng.randrange(len(text) + 1)
    return text[:at] + rng.choice([*alphabet, ""]) + text[at + rng.randrange(2) :]


def walk(rng, twin, alphabet, size):
    """The longest text that the twin accepts along a random walk of `size` bytes."""
    state, out, best = twin.initial_readings, b"", b""
    while len(out) < size:
        ways = [(char, after) for char in alphabet if (after := twin.read(state, ord(char)))]
        if not ways:
            break
        char, state = rng.choice(ways)
        out += char.encode()
        if twin.is_accepting(state):
            best = out
            if rng.random() < 0.15:
                break
    return best.decode()
