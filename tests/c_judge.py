"""pycparser as a judge of C, and where it accepts more than `grammars/c.lark`.

pycparser reads the output of a preprocessor. `preprocessed` does what a preprocessor would do, and declares the names
that the grammar knows as types.

pycparser accepts some texts that C99 forbids, and a few constructs that the grammar leaves out. `RELAXED` lists them as
changes of the grammar. If only pycparser accepts a text, a relaxed grammar must generate it.
"""

from __future__ import annotations

import re
from pathlib import Path

from pycparser import CParser
from pycparser.c_parser import ParseError

from tests.lark_judge import reasons_of

GRAMMAR = (Path(__file__).parent.parent / "grammars" / "c.lark").read_text(encoding="utf-8")
PIECES = re.compile(
    r"""(?P<skipped>//(?:[^\\\n]|\\[^\n])*|/\*.*?\*/|^[ \t]*\#[^\n]*)|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|\w+|\s+"""
    r"""|<<=|>>=|->|\+\+|--|&&|\|\||<<|>>|[<>=!*/%+&|^-]=|.""",
    re.DOTALL | re.MULTILINE,
)
STANDARD = re.findall(r'"(\w+)"', re.search(r"(?s)\nstandard: (.*?)\n\n", GRAMMAR)[1])
ANY_TYPE = r"""(qualifier | storage | "typedef" | "inline" | "auto" | "register" | "restrict" | "signed" | "unsigned"
    | "short" | "long" | "int" | "char" | "float" | "double" | "void" | "_Bool" | "_Complex"
    | record | enumeration | standard | TYPE)+"""

# A construct that only pycparser accepts -> changes of the grammar that would allow it: (old text, new text), ...
RELAXED = {
    "types are any words in any order, storage classes among them": [
        ("type: qualifier* _specifier qualifier*", f"type: {ANY_TYPE}"),
        ('"/*" | "_Complex"', '"/*"'),
    ],
    "a function or a parameter without a type": [
        ('function: storage? "inline"? type pointer*', 'function: storage? "inline"? type? pointer*'),
        ("| abstract)?\n", "| abstract)? | qualifier+ (declarator{NAME} | abstract)?\n"),
        ('declared ("," declared)* ";" | (record', 'declared ("," declared)* ";" | storage declared ";" | (record'),
    ],
    "parameters that are declared behind the list, or not at all": [
        ("block\ndeclaration:", "(declaration | local)* block\ndeclaration:"),
        ('parameters: "(" ")"', 'parameters: "(" ")" | "(" NAME ("," NAME)* ")"'),
    ],
    "declarations of nothing": [
        ("?external: function", '?external: ";" | type ";" | function'),
        ('type_definition: "typedef"', 'type_definition: "typedef" type ";" | "typedef"'),
        ('members: type member ("," member)* ";"', 'members: type member ("," member)* ";" | type ";" | ";"'),
        ('block: "{" (declaration', 'block: "{" (type ";" | declaration'),
        ('_tag? "{" members+ "}"', '_tag? "{" members* "}"'),
        ("DEFINE)* external+", "DEFINE)* external*"),
    ],
    "a function without parameters": [("pointer* _direct{NAME} parameters ", "pointer* _direct{NAME} parameters? ")],
    "values are assigned to what is no place": [("assign: _unary (", "assign: _conditional (")],
    "an empty list of initial values": [('braced: "{" element', 'braced: "{" "}" | "{" element')],
    "a label before a closing brace": [
        ('_statement)* "}"', '_statement)* label* "}"'),
        ("closed: _simple", "closed: _simple | label"),
    ],
    "names that are types by themselves": [
        ('member: declarator{NAME} [":" _conditional]', 'member: declarator{any_name} [":" _conditional]'),
        ("declared: declarator{NAME}", "any_name: NAME | standard | TYPE\ndeclared: declarator{any_name}"),
        ('declarator{TYPE} ("," declarator{TYPE})* ";"', 'declarator{any_name} ("," declarator{any_name})* ";"'),
        ("type (declarator{NAME}", "type (declarator{any_name}"),
        ('("." | "->") NAME', '("." | "->") any_name'),
    ],
    "constants of C23, of several characters, and with other escapes": [
        ("INTEGER: /([1-9][0-9]*", "INTEGER: /([1-9]('?[0-9])*|0[bB][01]+|'([^'\\\\\\n]|\\\\[^\\n]){1,4}'"),
        ("CHARACTER.1: /L?'([^'\\\\\\n]|", "CHARACTER.1: /L?'(\\\\[a-zA-Z._~!=&^0-9-]|[^'\\\\\\n]|"),
        ('STRING.1: /L?"([^"\\\\\\n]|', 'STRING.1: /(L|u8|u|U)?"(\\\\[a-zA-Z._~!=&^0-9-]|[^"\\\\\\n]|'),
        (" | HEX_SIGN) NEVER\nHEX_SIGN.2: /0[xX][0-9a-fA-F]*[eE][-+]/", ") NEVER"),
    ],
    "directives, which are left out before it reads": [
        ("%ignore /[ \\t\\n\\f\\v]+/", "%ignore /[ \\t\\n\\f\\v]+/\n%ignore /\\n[ \\t]*#[^\\n]*/"),
        ("start: (INCLUDE", "start: DIRECTIVE+ | (INCLUDE | DIRECTIVE"),
        ("\nNEVER:", "\nDIRECTIVE: /#[^\\n]*\\n?/\nNEVER:"),
    ],
}


def preprocessed(text: str) -> str:
    """The text without comments and directives, behind declarations of its types.

    The sign after `[`: pycparser takes `[*p]` in a declarator for the star of a prototype, `[*]`.
    """
    kept = PIECES.sub(lambda found: " " if found["skipped"] else found[0], text)
    names = [*STANDARD, *sorted(set(re.findall(r"\b[A-Z][a-z]\w*", kept)))]
    return "".join(f"typedef int {name};\n" for name in names) + re.sub(r"\[\s*\*", "[+*", kept)


def is_parsed(text: str) -> bool:
    """Whether pycparser accepts a text."""
    try:
        CParser().parse(preprocessed(text))
    except ParseError:
        return False
    return True


reason_for = reasons_of(GRAMMAR, RELAXED)
"""Why pycparser alone takes a text, or None if that is not known."""
