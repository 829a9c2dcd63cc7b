"""The specification of a `Grammar`, as data. In: strings and options. Out: the IR, or a string with the full
specification.

The string is EBNF. A grammar in EBNF with the start rule `root` is stored unchanged, except for its last line ends;
other specifications become one rule with macros:

    root ::= Regex("[0-9]+")
    root ::= JsonSchema("{\\"type\\": \\"integer\\"}", strict_mode=true)
    root ::= (Ebnf("root ::= \\"a\\"") | StructuralTag("{...}"))

`read_recipe` reads such a string. `str(grammar)` and `serialize_json` contain the string, not the IR, so their results
do not depend on guided's version.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Final, TypeAlias

from guided.compat.xgrammar.exception import InvalidJSONError, InvalidStructuralTagError, as_xgrammar
from guided.compat.xgrammar.lark_text import RewrittenLark, find_named_tokens
from guided.compat.xgrammar.schema_options import SchemaOptions
from guided.errors import Finding, GuidedError, SpecError, warn_about
from guided.frontends.combinators import Expr, choice, sequence
from guided.frontends.composition import expr_to_grammar
from guided.frontends.gbnf import gbnf_to_grammar
from guided.frontends.json_schema import json_schema_to_grammar
from guided.frontends.json_schema.options import JsonSchemaOptions
from guided.frontends.lark import LarkOptions, read_lark
from guided.frontends.structural_tag import structural_tag_to_grammar
from guided.ir.nodes import Grammar
from guided.limits import Limits

__all__ = ["Ebnf", "JoinedGrammars", "JsonSchema", "Lark", "Recipe", "Regex", "StructuralTag", "read_recipe"]

TAG_OPTIONS: Final = JsonSchemaOptions(additional_properties="minimal", numbers="plain_integers", constants="plain")
"""xgrammar's options for the schemas of a structural tag."""


@dataclass(frozen=True, slots=True)
class _Recipe:
    """The base of all recipes. The first field is the macro's positional argument; `options` returns the named
    arguments."""

    @property
    def text(self) -> str:
        """The recipe as EBNF; see the module docstring."""
        return f"root ::= {self.call()}\n"

    @property
    def token_names(self) -> frozenset[str]:
        """The names in the grammar that refer to tokens, not to text."""
        return frozenset()

    def call(self) -> str:
        """The recipe as a macro."""
        positional = getattr(self, fields(self)[0].name)
        options_text = "".join(f", {key}={_dump_value(value)}" for key, value in self.options().items())
        return f"{type(self).__name__}({_dump_value(positional)}{options_text})"

    def options(self) -> Mapping[str, object]:
        """The named arguments of the macro."""
        return {}


@dataclass(frozen=True, slots=True)
class Ebnf(_Recipe):
    """A grammar in EBNF."""

    source: str
    root: str = "root"

    @property
    def text(self) -> str:
        """The recipe as EBNF; see the module docstring."""
        return self.source.rstrip("\n") + "\n" if self.root == "root" else f"root ::= {self.call()}\n"

    def options(self) -> Mapping[str, object]:
        """The start rule, if it is not `root`."""
        return {} if self.root == "root" else {"root": self.root}

    def read(self, findings: list[Finding], defer: bool = False) -> Grammar:
        """Read the specification as IR."""
        with as_xgrammar(parser_name="EBNF parser"):
            return gbnf_to_grammar(
                self.source, root=self.root, allow_special_tokens=True, xgrammar=True, findings=findings
            )


@dataclass(frozen=True, slots=True)
class Regex(_Recipe):
    """A regular expression, in xgrammar's dialect."""

    pattern: str

    def read(self, findings: list[Finding], defer: bool = False) -> Grammar:
        """Read the specification as IR."""
        from guided.frontends.gbnf.patterns import regex_node

        with as_xgrammar(parser_name="Regex parsing"):
            return Grammar({"root": regex_node(self.pattern, Limits(), classes="full", ascii_case=True)}, "root")


@dataclass(frozen=True, slots=True)
class JsonSchema(_Recipe):
    """A JSON Schema as JSON text, and xgrammar's options."""

    schema: str
    schema_options: SchemaOptions

    def options(self) -> Mapping[str, object]:
        """The options that differ from their defaults."""
        return self.schema_options.non_defaults()

    def read(self, findings: list[Finding], defer: bool = False) -> Grammar:
        """Read the specification as IR."""
        with as_xgrammar(parser_name="JSON schema"):
            options = self.schema_options
            return json_schema_to_grammar(options.prepare(self.schema), options.to_guided(), findings=findings)


@dataclass(frozen=True, slots=True)
class Lark(_Recipe):
    """A Lark grammar, and the grammars for `@name`: Lark grammars as strings, or other recipes."""

    source: str
    named_grammars: tuple[tuple[str, str | Recipe], ...] = ()

    @property
    def token_names(self) -> frozenset[str]:
        """The names in the grammar that refer to tokens, not to text."""
        names_of_parts = [
            part.token_names if not isinstance(part, str) else _find_token_names(part)
            for _, part in self.named_grammars
        ]
        return _find_token_names(self.source).union(*names_of_parts)

    def options(self) -> Mapping[str, object]:
        """The grammars for `@name`."""
        return {name: part if isinstance(part, str) else part.text for name, part in self.named_grammars}

    def read(self, findings: list[Finding], defer: bool = False) -> Grammar:
        """Read the specification as IR."""
        with as_xgrammar(parser_name="Lark"):
            grammars = {
                name: part if isinstance(part, str) else sequence(part.read(findings))
                for name, part in self.named_grammars
            }
            options = LarkOptions(semantics="scannerless", grammars=grammars, allow_special_tokens=True)
            return _read_lark(self.source, options, Limits(), TAG_OPTIONS, findings)


@dataclass(frozen=True, slots=True)
class StructuralTag(_Recipe):
    """A structural tag as JSON text."""

    document: str

    def read(self, findings: list[Finding], defer: bool = False) -> Grammar:
        """Read the specification as IR."""
        try:
            document = json.loads(self.document)
        except (ValueError, RecursionError) as error:
            raise InvalidJSONError(f"Failed to parse JSON: {error}") from None
        with as_xgrammar(InvalidStructuralTagError, "Invalid structural tag"):
            return structural_tag_to_grammar(
                document, TAG_OPTIONS, allow_special_tokens=True, findings=findings, defer=defer, read_lark=_read_lark
            )


@dataclass(frozen=True, slots=True)
class JoinedGrammars(_Recipe):
    """A sequence of grammars (" "), or a choice among them (" | ")."""

    separator: str
    parts: tuple[Recipe, ...]

    @property
    def token_names(self) -> frozenset[str]:
        """The names in the grammar that refer to tokens, not to text."""
        return frozenset[str]().union(*(part.token_names for part in self.parts))

    def call(self) -> str:
        """The recipes as macros."""
        return f"({self.separator.join(part.call() for part in self.parts)})"

    def read(self, findings: list[Finding], defer: bool = False) -> Grammar:
        """Read the specification as IR."""
        with as_xgrammar():
            return expr_to_grammar(self._compose(findings), findings=findings)

    def _compose(self, findings: list[Finding]) -> Expr:
        parts = [
            part._compose(findings) if isinstance(part, JoinedGrammars) else part.read(findings) for part in self.parts
        ]
        return sequence(*parts) if self.separator == " " else choice(*parts)


def _read_lark(
    source: str, options: LarkOptions, limits: Limits, schema_options: JsonSchemaOptions, findings: list[Finding]
) -> Grammar:
    """Like `read_lark`, for xgrammar's dialect."""
    parts = {name: RewrittenLark(part) for name, part in options.grammars.items() if isinstance(part, str)}
    grammars = {**options.grammars, **{name: part.text for name, part in parts.items()}}
    rewritten = RewrittenLark(source)
    try:
        return read_lark(rewritten.text, replace(options, grammars=grammars), limits, schema_options, findings)
    except GuidedError as error:
        for rewritten_part in (rewritten, *parts.values()):
            rewritten_part.locate(error)
        raise


Recipe: TypeAlias = Ebnf | Regex | JsonSchema | Lark | StructuralTag | JoinedGrammars


def _find_token_names(lark: str) -> frozenset[str]:
    return frozenset(token.text for token in find_named_tokens(lark))


def _dump_value(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


_RECIPE_START: Final = re.compile(r"\s*root ::= (?=\(|(?:Ebnf|JsonSchema|Lark|StructuralTag)\()")
_TOKEN: Final = re.compile(r'\s*(?:([A-Za-z_][\w.-]*)|("(?:[^"\\]|\\.)*")|(-?\d+)|([()|,=\[\]]))\s*')
_READERS: Final[Mapping[str, Callable[[str, dict[str, Any]], Recipe]]] = {
    "Ebnf": lambda text, options: Ebnf(text, **options),
    "Regex": lambda text, options: Regex(text, **options),
    "JsonSchema": lambda text, options: JsonSchema(text, SchemaOptions.from_json(options)),
    "Lark": lambda text, parts: Lark(text, tuple(parts.items())),
    "StructuralTag": lambda text, options: StructuralTag(text, **options),
}


def read_recipe(text: str, root: str = "root") -> Recipe:
    """Read a recipe from EBNF: the `text` of a recipe, or any other grammar. A `Regex` becomes an `Ebnf`."""
    start_match = _RECIPE_START.match(text)
    if root != "root" or start_match is None:
        return Ebnf(text, root)
    try:
        tokens = _split_tokens(text, start_match.end())
        recipe = _parse_recipe(tokens)
        return Ebnf(text, root) if tokens else recipe
    except (ValueError, TypeError, LookupError, RecursionError, SpecError):
        # an ordinary grammar with rules that are named like the macros
        return Ebnf(text, root)


def _split_tokens(text: str, pos: int) -> list[str]:
    """Split a recipe's macros into tokens, in reverse order. ValueError: the string contains anything else."""
    tokens = []
    while pos < len(text):
        if (match := _TOKEN.match(text, pos)) is None:
            raise ValueError("this text is not a recipe")
        tokens.append(match[0].strip())
        pos = match.end()
    return tokens[::-1]


def _parse_recipe(tokens: list[str]) -> Recipe:
    """Read a recipe from the end of the reversed tokens, and remove its tokens."""
    name = tokens.pop()
    if name != "(":
        return _READERS[name](*_parse_arguments(tokens))
    parts = [_parse_recipe(tokens)]
    separator = " | " if tokens[-1] == "|" else " "
    while tokens[-1] != ")":
        if separator == " | ":
            _expect(tokens, "|")
        parts.append(_parse_recipe(tokens))
    _expect(tokens, ")")
    return JoinedGrammars(separator, tuple(parts))


def _parse_arguments(tokens: list[str]) -> tuple[str, dict[str, Any]]:
    _expect(tokens, "(")
    positional, options = _parse_argument(tokens), dict[str, Any]()
    while tokens[-1] == ",":
        _expect(tokens, ",")
        key = tokens.pop()
        _expect(tokens, "=")
        options[key] = _parse_argument(tokens)
    _expect(tokens, ")")
    return positional, options


def _parse_argument(tokens: list[str]) -> Any:
    if tokens[-1] != "[":
        return json.loads(tokens.pop())
    items = []
    _expect(tokens, "[")
    while tokens[-1] != "]":
        items.append(_parse_argument(tokens))
        if tokens[-1] == ",":
            _expect(tokens, ",")
    _expect(tokens, "]")
    return tuple(items)


def _expect(tokens: list[str], token: str) -> None:
    if tokens.pop() != token:
        raise ValueError("this text is not a recipe")


def read_and_warn(recipe: Recipe, defer: bool = False) -> Grammar:
    """Read a recipe as IR. Warns about parts that are ignored.

    Raises:
        RuntimeError: the recipe is malformed, or a part of it cannot be enforced.
    """
    findings: list[Finding] = []
    grammar = recipe.read(findings, defer)
    warn_about(findings)
    return grammar
