"""Supports llguidance's and xgrammar's extensions of Lark's notation. In: a grammar. Out: a grammar that Lark's loader
can read, and nodes or grammars for the extensions.

    definitions.py   splits tokens (`..scan`) into statements
    attributes.py    the attributes of rules
    parameters.py    rules with a parameter
    plain.py         rewrites statements to Lark's own notation, with names for the extensions
    expressions.py   terminals with `&` and `~`
    substrings.py    `%regex {"substring_words": ...}`
    parts.py         what the names stand for: schemas, grammars, tokens of the vocabulary, terminals

Sources: llguidance, docs/syntax.md and docs/parametric.md; xgrammar, docs on Lark grammars.
"""

from .parts import Context, needs_scannerless, resolve_parts
from .plain import PlainLark, rewrite_extensions

__all__ = ["Context", "PlainLark", "needs_scannerless", "resolve_parts", "rewrite_extensions"]
