"""Constructs of regular expressions, choices, GBNF and EBNF, and Lark. Out: `TEXTS`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from benchmarks.bad_inputs.construct import Construct, largest

__all__ = ["TEXTS"]

_Build = Callable[[int], Any]


def _words(n: int) -> list[str]:
    return [f"w{i}" for i in range(n)]


def _counts(n: int, most: int, item: str = "a") -> str:
    """A count of a count of a count, and so on."""
    return "(" * n + item + f"){{1,{most}}}" * n


_REGEX: Final[Mapping[str, _Build]] = {
    "literal": lambda n: "a" * n,
    "alternatives": lambda n: "|".join(_words(n)),
    "alternatives that begin alike": lambda n: "|".join("a" * (i % 100) + f"b{i}" for i in range(n)),
    "alternatives, repeated": lambda n: f"({'|'.join(_words(n))})*c",
    "alternatives of classes": lambda n: "|".join(f"[a-z]{{{i % 50}}}{i}" for i in range(n)),
    "classes": lambda n: "[a-z]" * n,
    "class of many characters": lambda n: "[" + "".join(chr(0x4E00 + 2 * (i % 10000)) for i in range(n)) + "]+",
    "optional characters": lambda n: "a?" * n + "a" * n,
    "stars": lambda n: "a*" * n,
    "stars of stars": lambda n: "(" * n + "a" + "*)" * n,
    "pluses of pluses": lambda n: "(" * n + "a" + "+)" * n + "b",
    "groups": lambda n: "(" * n + "a" + ")" * n,
    "groups that may be empty": lambda n: "(" * n + "a?" + ")*" * n,
    "count": lambda n: f"a{{{n}}}",
    "count up to": lambda n: f"[ab]{{0,{n}}}c",
    "count of an ambiguous group": lambda n: f"(a|ab|b){{1,{n}}}c",
    "count of an optional": lambda n: f"(a?){{{n}}}",
    "counts side by side": lambda n: "a{1,50}" * n,
    "counts side by side that overlap": lambda n: "[ab]{0,99}[bc]{0,99}" * n,
    "counts nested": lambda n: _counts(n, 100),
    "counts nested, exact": lambda n: "(" * n + "a" + "){99}" * n,
    "counts nested with tails": lambda n: "(" * n + "a" + "){2,99}b" * n,
    "counts nested, optional": lambda n: "(" * n + "a" + "){0,99}" * n,
    "count in a count": lambda n: f"(a{{{n}}}b){{{n}}}",
    "counts of classes nested": lambda n: _counts(n, 1000, "[a-z ]"),
    "count begun anywhere": lambda n: f".*a.{{{n}}}",
    "count begun anywhere, twice": lambda n: f".*a.{{{n}}}b.*c.{{{n}}}",
    "lookahead": lambda n: f"(?=.{{0,{n}}}a).*",
    "lookaheads": lambda n: "".join(f"(?=.*a.{{{i % 12}}}b)" for i in range(n)) + ".*",
    "negative lookaheads": lambda n: "".join(f"(?!.*{word})" for word in _words(n)) + "[a-z0-9]*",
    "negative lookahead, repeated": lambda n: f"((?!{'|'.join(_words(n))}).)*",
    "lookaheads nested": lambda n: "(?=" * n + "a" + ")" * n + "a",
    "lookbehinds": lambda n: "".join(f"[a-z]*(?<=a{'b' * (i % 9)})" for i in range(n)),
    "word boundaries": lambda n: r"\b\w*" * n,
    "possessive groups": lambda n: "(?>a|ab)" * n,
    "ignored case": lambda n: "(?i)" + "straße" * n,
    "backslash classes": lambda n: r"\w\d\s" * n,
    "named groups": lambda n: "".join(f"(?P<n{i}>a)" for i in range(n)),
    "comments": lambda n: "(?x)a" + " # comment\n" * n,
    "unbalanced": lambda n: "(" * n,
    "backslashes": lambda n: "\\" * n,
    "anchors": lambda n: "$^" * n,
    "bad escape at the end": lambda n: "a" * n + "(?<",
    "large count": lambda n: "a{" + "9" * n + "}",
    "any character": lambda n: "." * n,
    "negated classes": lambda n: "[^a]" * n,
    "character outside ASCII": lambda n: "é[à-ü]" * n,
}
_ECMA: Final[Mapping[str, _Build]] = {
    "properties": lambda n: r"\p{L}\p{Script=Greek}?" * n,
    "sets of the flag v": lambda n: r"[\p{L}\p{N}]" * n,
    "lookbehind counts": lambda n: f".*(?<=a.{{{n}}})b",
    "escapes": lambda n: r"\u{1F600}" * n,
}
_CHOICES: Final[Mapping[str, _Build]] = {
    "words": _words,
    "one text": lambda n: ["x" * n],
    "texts that begin alike": lambda n: ["x" * i for i in range(1, 2 + int(n**0.5))],
    "texts that end alike": lambda n: [f"{i}{'x' * 50}" for i in range(n)],
    "the same": lambda n: ["x"] * n,
    "texts of characters outside ASCII": lambda n: [chr(0x4E00 + i % 20000) * 3 for i in range(n)],
}


def _rules(n: int, rule: str, last: str, root: str = "root ::= r0\n") -> str:
    return root + "".join(rule.format(i=i, next=i + 1) + "\n" for i in range(n)) + last.format(i=n) + "\n"


_GBNF: Final[Mapping[str, _Build]] = {
    "literal": lambda n: f'root ::= "{"a" * n}"',
    "alternatives": lambda n: "root ::= " + " | ".join(f'"{word}"' for word in _words(n)),
    "alternatives of rules": lambda n: (
        "root ::= "
        + " | ".join(f"r{i}" for i in range(n))
        + "\n"
        + "".join(f'r{i} ::= "{i}" [a-z]\n' for i in range(n))
    ),
    "ambiguous alternatives": lambda n: "root ::= (" + " | ".join(f"[a-z]{{{i % 20},}}" for i in range(n)) + ")+",
    "sequence": lambda n: "root ::= " + '"a" ' * n,
    "sequence of optionals": lambda n: "root ::= " + '"a"? ' * n,
    "rules in a chain": lambda n: _rules(n, "r{i} ::= r{next}", 'r{i} ::= "a"'),
    "rules doubled": lambda n: _rules(n, "r{i} ::= r{next} r{next}", 'r{i} ::= "a"'),
    "rules doubled, optional": lambda n: _rules(n, "r{i} ::= r{next}? r{next}?", 'r{i} ::= "a"'),
    "rules doubled, alternatives": lambda n: _rules(n, 'r{i} ::= r{next} | "x" r{next}', 'r{i} ::= "a"'),
    "left recursion": lambda n: _rules(n, 'r{i} ::= r{next} "a" | "b"', 'r{i} ::= r0 "c" | "d"'),
    "left recursion, hidden": lambda n: _rules(n, 'r{i} ::= "x"? r{next} "a" | "b"', 'r{i} ::= r0 "c" | "d"'),
    "right recursion": lambda n: _rules(n, 'r{i} ::= "a" r{next} | "b"', 'r{i} ::= "c" r0 | "d"'),
    "empty rules": lambda n: "root ::= " + "e " * n + '"a"\ne ::= "x" | ""',
    "ambiguous recursion": lambda n: "root ::= e\ne ::= e e | " + " | ".join(f'"{word}"' for word in _words(n)),
    "operators": lambda n: _rules(n, 'r{i} ::= r{i} "o{i}" r{next} | r{next}', 'r{i} ::= [0-9]+ | "(" r0 ")"'),
    "groups": lambda n: "root ::= " + "(" * n + '"a"' + ")" * n,
    "groups repeated": lambda n: "root ::= " + "(" * n + '"a"' + ")*" * n,
    "count": lambda n: f'root ::= "a"{{{n}}}',
    "count of a rule": lambda n: f'root ::= r{{1,{n}}}\nr ::= "a" | "(" r ")"',
    "counts nested": lambda n: "root ::= " + "(" * n + '"a"' + "){1,99}" * n,
    "counts nested in rules": lambda n: _rules(n, "r{i} ::= r{next}{{1,99}}", 'r{i} ::= "a"'),
    "counts of ambiguous rules": lambda n: f'root ::= r{{1,{n}}} "z"\nr ::= "a" | "ab" | "b"',
    "stacked operators": lambda n: 'root ::= "a"' + "*+?" * n,
    "class": lambda n: "root ::= [" + "".join(chr(0x4E00 + i % 20000) for i in range(n)) + "]+",
    "comments": lambda n: 'root ::= "a"\n' + "# comment\n" * n,
    "empty lines": lambda n: 'root ::= "a"' + "\n" * n,
    "escapes": lambda n: 'root ::= "' + r"\x41" * n + '"',
    "long name": lambda n: f'root ::= {"r" * n}\n{"r" * n} ::= "a"',
    "unused rules": lambda n: (
        'root ::= "a"\n' + "".join(f'u{i} ::= "b" u{i + 1}\n' for i in range(n)) + f'u{n} ::= "c"'
    ),
    "undefined rules": lambda n: "root ::= " + " ".join(f"r{i}" for i in range(n)),
    "undefined beside defined": lambda n: "root ::= r0 nothere\n" + "".join(f'r{i} ::= "a"\n' for i in range(n)),
    "unbalanced": lambda n: "root ::= " + "(" * n,
    "open string of backslashes": lambda n: 'root ::= "' + "\\" * n,
    "open class of backslashes": lambda n: "root ::= [" + "\\" * n,
    "tags": lambda n: "root ::= TagDispatch(" + ", ".join(f'("<t{i}>", r)' for i in range(n)) + ')\nr ::= "a"',
    "tags with excludes": lambda n: (
        'root ::= TagDispatch(("<t>", r), excludes=('
        + ", ".join(f'"<x{i}>"' for i in range(n))
        + ',)) "<x0>"\nr ::= "a"'
    ),
    "macro: regex": lambda n: f'root ::= Regex("[a-z]{{{n}}}")',
    "macro: substring": lambda n: "root ::= Substring(" + ", ".join(f'"{word} "' for word in _words(n)) + ")",
    "macro: substring of the same": lambda n: "root ::= Substring(" + ", ".join(['"ab "'] * n) + ")",
    "option: max_chars": lambda n: f"root ::= r\nr[max_chars={n}] ::= [a-z]+",
    "option: max_tokens": lambda n: f"root ::= r\nr[max_tokens={n}] ::= [a-z]+",
    "option: capture": lambda n: (
        "root ::= "
        + " ".join(f"r{i}" for i in range(n))
        + "\n"
        + "".join(f'r{i}[capture="c{i}"] ::= [a-z]*\n' for i in range(n))
    ),
    "option: lazy": lambda n: "root ::= r\nr[lazy] ::= " + " | ".join(f'[a-z]* "{word}"' for word in _words(n)),
}


def _lark(n: int, rule: str, last: str = "") -> str:
    return (
        "start: "
        + " | ".join(f"r{i}" for i in range(n))
        + "\n"
        + "".join(rule.format(i=i, next=(i + 1) % n) + "\n" for i in range(n))
        + last
    )


_LARK: Final[Mapping[str, _Build]] = {
    "literal": lambda n: f'start: "{"a" * n}"',
    "alternatives": lambda n: "start: " + " | ".join(f'"{word}"' for word in _words(n)),
    "alternatives of rules": lambda n: _lark(n, 'r{i}: "{i}" X', "X: /[a-z]/"),
    "terminals": lambda n: (
        "start: (" + " | ".join(f"T{i}" for i in range(n)) + ")+\n" + "".join(f"T{i}: /t{i}[a-z]*/\n" for i in range(n))
    ),
    "terminals that overlap": lambda n: (
        "start: ("
        + " | ".join(f"T{i}" for i in range(n))
        + ")+\n"
        + "".join(f"T{i}.{i}: /[a-z]{{{i + 1}}}[0-9]*/\n" for i in range(n))
    ),
    "terminal of texts": lambda n: (
        "start: T\nT: " + " | ".join(f"U{i}" for i in range(n)) + "\n" + "".join(f'U{i}: "u{i}"\n' for i in range(n))
    ),
    "terminal with a count": lambda n: f"start: T\nT: /a{{{n}}}/",
    "terminal with counts of a group": lambda n: f"start: T\nT: /(ab){{2,{n}}}c/i",
    "count of a rule": lambda n: f'start: x~{n}\nx: "a"',
    "counts nested": lambda n: "start: " + "(" * n + '"a"' + ")~1..9" * n,
    "sequence": lambda n: "start: " + '"a" ' * n,
    "sequence of optionals": lambda n: "start: " + '"a"? ' * n,
    "maybes": lambda n: "start: " + '["a"] ' * n,
    "rules in a chain": lambda n: "start: r0\n" + "".join(f"r{i}: r{i + 1}\n" for i in range(n)) + f'r{n}: "a"',
    "rules doubled": lambda n: "start: r0\n" + "".join(f"r{i}: r{i + 1} r{i + 1}\n" for i in range(n)) + f'r{n}: "a"',
    "left recursion": lambda n: (
        "start: r0\n" + "".join(f'r{i}: r{i + 1} "a" | "b"\n' for i in range(n)) + f'r{n}: r0 "c" | "d"'
    ),
    "operators": lambda n: (
        "start: r0\n" + "".join(f'r{i}: r{i} "o{i}" r{i + 1} | r{i + 1}\n' for i in range(n)) + f"r{n}: /[0-9]+/"
    ),
    "templates": lambda n: (
        "start: "
        + " ".join(f"t{{{chr(65 + i % 26)}X}}" for i in range(n))
        + "\n"
        + 't{x}: x "," x\n'
        + "".join(f'{chr(65 + i)}X: "{chr(97 + i)}"\n' for i in range(26))
    ),
    "templates nested": lambda n: "start: " + "t{" * n + "A" + "}" * n + '\nt{x}: "(" x ")"\nA: "a"',
    "groups": lambda n: "start: " + "(" * n + '"a"' + ")" * n,
    "groups repeated": lambda n: "start: " + "(" * n + '"a"' + ")*" * n,
    "ignored terminals": lambda n: 'start: "a"+\n' + "".join(f'%ignore "i{i}"\n' for i in range(n)),
    "comments": lambda n: 'start: "a"\n' + "// comment\n" * n,
    "empty lines": lambda n: 'start: "a"' + "\n" * n,
    "unused rules": lambda n: 'start: "a"\n' + "".join(f'u{i}: "b{i}"\n' for i in range(n)),
    "undefined beside defined": lambda n: "start: r0 nothere\n" + "".join(f'r{i}: "a"\n' for i in range(n)),
    "keywords beside names": lambda n: (
        "start: (NAME | " + " | ".join(f'"k{i}"' for i in range(n)) + ')+\nNAME: /[a-z][a-z0-9]*/\n%ignore " "'
    ),
    "ambiguous recursion": lambda n: "start: e\ne: e e | " + " | ".join(f'"{word}"' for word in _words(n)),
    "intersections": lambda n: "start: T\nT: " + " & ".join(f"/(a|b)*a(a|b){{{i % 9}}}/" for i in range(n)),
    "complement": lambda n: "start: T\nT: ~(" + " | ".join(f'"{word}"' for word in _words(n)) + ")",
    "schema": lambda n: "start: %json " + str({"type": "object", "minProperties": n}).replace("'", '"'),
    "nested grammars": lambda n: "start: " + "%lark { start: " * n + '"a"' + " }" * n,
    "captures": lambda n: (
        "start: " + " ".join(f"r{i}" for i in range(n)) + "\n" + "".join(f"r{i}[capture]: /[a-z]*/\n" for i in range(n))
    ),
    "lazy rules": lambda n: (
        "start: " + " ".join(f"r{i}" for i in range(n)) + "\n" + "".join(f"r{i}[lazy]: /[a-z]*x/\n" for i in range(n))
    ),
    "stop": lambda n: f'start: r\nr[stop="{"x" * n}"]: /[a-z]*/',
    "max_tokens": lambda n: f"start: r\nr[max_tokens={n}]: /[a-z]*/",
    "substring of words": lambda n: 'start: T\nT: %regex {"substring_words": "' + " ".join(_words(n)) + '"}',
    "open string of backslashes": lambda n: 'start: "' + "\\" * n,
    "open expression of backslashes": lambda n: "start: /" + "\\" * n,
    "escaped quotation marks": lambda n: 'start: "' + '\\"' * n,
    "strings repeated": lambda n: "start: " + '"*' * n,
    "rules": lambda n: "start: r0\n" + "".join(f'r{i}: "a"\n' for i in range(n)),
    "parameters": lambda n: f'start: r::0\nr::_: "a" r::incr(_) %if lt(_, {n})\n | "b"',
}


def _all() -> Iterator[Construct]:
    tables: list[tuple[str, str, Mapping[str, _Build], dict[str, Any]]] = [
        ("regex", "regex", _REGEX, {}),
        ("regex of ECMA", "regex", _ECMA, {"dialect": "ecma"}),
        ("choice", "choice", _CHOICES, {}),
        ("gbnf", "gbnf", _GBNF, {}),
        ("lark", "lark", _LARK, {}),
        ("lark, scannerless", "lark", _LARK, {"semantics": "scannerless"}),
    ]
    for front, kind, table, options in tables:
        for name, build in table.items():
            yield Construct(f"{front}: {name}", kind, build, options, largest(build, 1 << 17))


TEXTS: Final = tuple(_all())
