"""`ast.parse` as a judge of Python, real programs, and the differences between the judge and `grammars/python.lark`.

`ast.parse` reads as Python's own parser does, without later checks, such as names that are declared twice, or `return`
outside of functions. `NARROWER` and `WIDER` list the reasons for which only `ast.parse`, or only the grammar, may
accept a text. A reason is a test of the text, as narrow as is simple to write.
"""

from __future__ import annotations

import ast
import random
import re
import sysconfig
import tokenize
import warnings
from collections.abc import Iterator
from pathlib import Path

PIECES = re.compile(
    r"""[rbfuRBFU]{0,2}(?:\"{3}.*?\"{3}|'{3}.*?'{3}|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')|\#[^\n]*|\w+|\n[ ]*|[ ]+"""
    r"""|\*\*=?|//=?|>>=?|<<=?|->|:=|\.\.\.|[-+*/%@&|^<>=!]=|.""",
    re.DOTALL | re.VERBOSE,
)
_WORDS = """
( ) [ ] { } , : ; . = := == -> * ** / @ + - ~ < | ... _ a b.c f() x[0] 1 2.5 1j 0x1F 'a' b'c' r'' not in is and or
if else elif for while break continue pass def class return yield from import as with async await lambda try
except finally raise del
global nonlocal assert match case None True f'{a}' # \\
"""
WORDS = _WORDS.split()
FOLDER = Path(sysconfig.get_paths()["stdlib"])

F_STRING = re.compile(r"(?i)(?<![a-z0-9_])(?:f|fr|rf)(?:['\"].*|(?:'{3}|\"{3})[^\0]*)\{")

# Why only ast.parse accepts a text -> whether the text has this property
NARROWER = {
    "the last line has no end": re.compile(r"[^\n]\Z"),
    "a line begins with a tab, a form feed or a backslash": re.compile(r"(?m)^[ ]*[\t\f\\]"),
    "a field of an f-string": F_STRING,
    "a carriage return that ends no line": re.compile(r"\r(?!\n)"),
    "type parameters, since Python 3.12": re.compile(r"\b(?:class|def)\s+\w+\s*\["),
    "a type statement, since Python 3.12": re.compile(r"\btype\s+\w+\s*[\[=]"),
    "a joiner in a name, since Unicode 15.1": re.compile("[\u200c\u200d]"),
}
# Why only the grammar accepts a text -> whether the text has this property
WIDER = {
    "a field of an f-string": F_STRING,
    "a name of a character that there is not": re.compile(r"\\N\{"),
    "numbers of thousands of digits": re.compile(r"\d{4301}"),
}


def is_parsed(text: str) -> bool:
    """Whether ast.parse accepts a text."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            ast.parse(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return False
    return True


def reason_for(text: str, taken: bool) -> str | None:
    """The reason why ast.parse and the grammar disagree about a text; None if the reason is unknown."""
    reasons = WIDER if taken else NARROWER
    return next((reason for reason, has in reasons.items() if has.search(text)), None)


def programs(least: int, most: int) -> Iterator[tuple[Path, str]]:
    """The files of the standard library with at most this many bytes that ast.parse accepts, sorted by name."""
    for path in sorted(FOLDER.rglob("*.py")):
        if "site-packages" in path.parts or not least <= path.stat().st_size < most:
            continue
        try:
            with tokenize.open(path) as file:
                text = file.read()
        except (SyntaxError, UnicodeDecodeError):
            continue
        if is_parsed(text):
            yield path, text if text.endswith("\n") or not text else text + "\n"


def mutated(rng: random.Random, text: str) -> str:
    """The text with a piece, a line or a character removed, inserted, doubled, replaced or swapped with another."""
    kind = rng.randrange(9)
    if kind < 2:
        at = rng.randrange(len(text))
        return text[:at] + rng.choice(["", rng.choice(text)]) + text[at + rng.randrange(2) :]
    parts = text.splitlines(keepends=True) if kind < 4 else PIECES.findall(text)
    places = [at for at, part in enumerate(parts) if kind < 4 or not part.isspace()] or [0]
    at, other = rng.choice(places), rng.choice(places)
    match rng.randrange(5):
        case 0:
            parts[at] = ""
        case 1:
            parts[at] += f"{rng.choice(WORDS)} " if kind > 3 else parts[other]
        case 2:
            parts[at] = f" {rng.choice(WORDS)} " if kind > 3 else " " + parts[at]
        case 3:
            parts[at] += parts[at]
        case _:
            parts[at], parts[other] = parts[other], parts[at]
    return "".join(parts)
