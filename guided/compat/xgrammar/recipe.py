"""What a `Grammar` of the facade was made from, as data. In: texts and options. Out: the IR, or a text that says all.

The text is EBNF. A grammar that was given as EBNF is its own text; others are one rule with macros:

    root ::= Regex("[0-9]+")
    root ::= JsonSchema("{\\"type\\": \\"integer\\"}", strict_mode=true)
    root ::= (Ebnf("root ::= \\"a\\"") | StructuralTag("{...}"))

`from_text` reads them back. So what `str(grammar)` shows and what `serialize_json` stores is the specification itself,
and not what some version of guided makes of it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final, TypeAlias

from guided.compat.xgrammar.exception import InvalidJSONError, InvalidStructuralTagError, as_xgrammar
from guided.compat.xgrammar.lark_text import LarkText, named_tokens
from guided.compat.xgrammar.schema_options import SchemaOptions
from guided.errors import Finding, GuidedError, SpecError, warn_of
from guided.frontends.combinators import choice, sequence
from guided.frontends.composition import expr_to_grammar
from guided.frontends.gbnf import gbnf_to_grammar
from guided.frontends.json_schema import json_schema_to_grammar
from guided.frontends.json_schema.options import JsonSchemaOptions
from guided.frontends.lark import LarkOptions, read_lark
from guided.frontends.structural_tag import structural_tag_to_grammar
from guided.ir.nodes import Grammar
from guided.limits import Limits

__all__ = ["Ebnf", "Joined", "JsonSchema", "Lark", "Recipe", "Regex", "StructuralTag", "from_text"]

TAG_OPTIONS: Final = JsonSchemaOptions(
    additional_properties="minimal", numbers="plain_integers", constants="plain", classes="plain"
)
"""How xgrammar writes the schemas of a structural tag."""


@dataclass(frozen=True, slots=True)
class Ebnf:
    """A grammar in EBNF."""

    source: str
    root: str = "root"
    name: ClassVar[str] = "Ebnf"
    tokens: ClassVar[frozenset[str]] = frozenset()

    @property
    def text(self) -> str:
        """See the module."""
        return self.source.rstrip("\n") + "\n" if self.root == "root" else _rule(self.call())

    def call(self) -> str:
        """As a macro."""
        return _call(self.name, self.source, {} if self.root == "root" else {"root": self.root})

    def read(self, found: list[Finding], later: bool = False) -> Grammar:
        """The IR."""
        with as_xgrammar(what="EBNF parser"):
            return gbnf_to_grammar(self.source, root=self.root, allow_special_tokens=True, xgrammar=True, found=found)


@dataclass(frozen=True, slots=True)
class Regex:
    """A regular expression, in xgrammar's dialect."""

    pattern: str
    name: ClassVar[str] = "Regex"
    tokens: ClassVar[frozenset[str]] = frozenset()

    @property
    def text(self) -> str:
        """See the module."""
        return _rule(self.call())

    def call(self) -> str:
        """As a macro."""
        return _call(self.name, self.pattern, {})

    def read(self, found: list[Finding], later: bool = False) -> Grammar:
        """The IR."""
        from guided.frontends.gbnf.patterns import regex_node

        with as_xgrammar(what="Regex parsing"):
            return Grammar({"root": regex_node(self.pattern, Limits(), ascii_case=True)}, "root")


@dataclass(frozen=True, slots=True)
class JsonSchema:
    """A JSON Schema, as JSON text, and xgrammar's options."""

    schema: str
    options: SchemaOptions
    name: ClassVar[str] = "JsonSchema"
    tokens: ClassVar[frozenset[str]] = frozenset()

    @property
    def text(self) -> str:
        """See the module."""
        return _rule(self.call())

    def call(self) -> str:
        """As a macro."""
        return _call(self.name, self.schema, self.options.given())

    def read(self, found: list[Finding], later: bool = False) -> Grammar:
        """The IR."""
        with as_xgrammar(what="JSON schema"):
            return json_schema_to_grammar(self.options.prepared(self.schema), self.options.guided(), found=found)


@dataclass(frozen=True, slots=True)
class Lark:
    """A grammar of Lark, and what `@name` refers to in it: texts of Lark, or other recipes."""

    source: str
    named: tuple[tuple[str, str | Recipe], ...] = ()
    name: ClassVar[str] = "Lark"

    @property
    def tokens(self) -> frozenset[str]:
        """The tokens that are named, which are no text."""
        given = [one.tokens if not isinstance(one, str) else _tokens(one) for _, one in self.named]
        return _tokens(self.source).union(*given)

    @property
    def text(self) -> str:
        """See the module."""
        return _rule(self.call())

    def call(self) -> str:
        """As a macro."""
        return _call(
            self.name, self.source, {name: one if isinstance(one, str) else one.text for name, one in self.named}
        )

    def read(self, found: list[Finding], later: bool = False) -> Grammar:
        """The IR."""
        with as_xgrammar(what="Lark"):
            texts = {name: LarkText(one) for name, one in self.named if isinstance(one, str)}
            whole = LarkText(self.source)
            grammars: dict[str, Any] = {
                name: texts[name].text if isinstance(one, str) else sequence(one.read(found))
                for name, one in self.named
            }
            options = LarkOptions(
                start="start", semantics="scannerless", lexer="contextual", import_paths=(), postlex=None,
                grammars=grammars, allow_special_tokens=True,
            )  # fmt: skip
            try:
                return read_lark(whole.text, options, Limits(), TAG_OPTIONS, found)
            except GuidedError as error:
                for text in (whole, *texts.values()):
                    text.locate(error)
                raise


@dataclass(frozen=True, slots=True)
class StructuralTag:
    """A structural tag, as JSON text."""

    document: str
    name: ClassVar[str] = "StructuralTag"
    tokens: ClassVar[frozenset[str]] = frozenset()

    @property
    def text(self) -> str:
        """See the module."""
        return _rule(self.call())

    def call(self) -> str:
        """As a macro."""
        return _call(self.name, self.document, {})

    def read(self, found: list[Finding], later: bool = False) -> Grammar:
        """The IR."""
        try:
            document = json.loads(self.document)
        except (ValueError, RecursionError) as error:
            raise InvalidJSONError(f"Failed to parse JSON: {error}") from None
        with as_xgrammar(InvalidStructuralTagError, "Invalid structural tag"):
            return structural_tag_to_grammar(document, TAG_OPTIONS, allow_special_tokens=True, found=found, later=later)


@dataclass(frozen=True, slots=True)
class Joined:
    """Grammars one after the other (" "), or one of them (" | ")."""

    between: str
    parts: tuple[Recipe, ...]

    @property
    def tokens(self) -> frozenset[str]:
        """The tokens that are named, which are no text."""
        return frozenset[str]().union(*(part.tokens for part in self.parts))

    @property
    def text(self) -> str:
        """See the module."""
        return _rule(self.call())

    def call(self) -> str:
        """As macros."""
        return f"({self.between.join(part.call() for part in self.parts)})"

    def read(self, found: list[Finding], later: bool = False) -> Grammar:
        """The IR."""
        parts = [part.read(found) for part in self.parts]
        with as_xgrammar():
            return expr_to_grammar(sequence(*parts) if self.between == " " else choice(*parts), found=found)


Recipe: TypeAlias = Ebnf | Regex | JsonSchema | Lark | StructuralTag | Joined


def _tokens(lark: str) -> frozenset[str]:
    return frozenset(token.text for token in named_tokens(lark))


def _rule(body: str) -> str:
    return f"root ::= {body}\n"


def _call(name: str, first: str, options: Mapping[str, object]) -> str:
    named = "".join(f", {key}={_value(value)}" for key, value in options.items())
    return f"{name}({_value(first)}{named})"


def _value(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


_STARTS: Final = re.compile(r"\s*root ::= (?=\(|(?:Ebnf|JsonSchema|Lark|StructuralTag)\()")
_TOKEN: Final = re.compile(r'\s*(?:([A-Za-z_][\w.-]*)|("(?:[^"\\]|\\.)*")|(-?\d+)|([()|,=\[\]]))')
_READERS: Final[Mapping[str, Callable[[str, dict[str, Any]], Recipe]]] = {
    "Ebnf": lambda text, named: Ebnf(text, **named),
    "Regex": lambda text, named: Regex(text, **named),
    "JsonSchema": lambda text, named: JsonSchema(text, SchemaOptions.from_given(named)),
    "Lark": lambda text, named: Lark(text, tuple(named.items())),
    "StructuralTag": lambda text, named: StructuralTag(text, **named),
}


def from_text(text: str, root: str = "root") -> Recipe:
    """The recipe that a text of EBNF stands for: one that a recipe's `text` gave, or any other grammar."""
    if root != "root" or not _STARTS.match(text):
        return Ebnf(text, root)
    try:
        reader = _Reader(text, _STARTS.match(text).end())  # type: ignore[union-attr]
        recipe = reader.recipe()
        return recipe if reader.is_at_end() else Ebnf(text, root)
    except (ValueError, TypeError, IndexError, SpecError):  # a grammar of someone who has rules with these names
        return Ebnf(text, root)


class _Reader:
    """Reads macros that a recipe wrote."""

    def __init__(self, text: str, at: int) -> None:
        self._text, self._at = text, at

    def is_at_end(self) -> bool:
        return not self._text[self._at :].strip()

    def recipe(self) -> Recipe:
        name = self._next()
        if name != "(":
            return _READERS[name](*self._arguments()) if name in _READERS else self._wrong()
        parts = [self.recipe()]
        between = " | " if self._peek() == "|" else " "
        while self._peek() != ")":
            if between == " | ":
                self._expect("|")
            parts.append(self.recipe())
        self._expect(")")
        return Joined(between, tuple(parts))

    def _arguments(self) -> tuple[str, dict[str, Any]]:
        self._expect("(")
        first, named = self._argument(), dict[str, Any]()
        while self._peek() == ",":
            self._expect(",")
            key = self._next()
            self._expect("=")
            named[key] = self._argument()
        self._expect(")")
        return first, named

    def _argument(self) -> Any:
        token = self._next()
        if token == "[":
            items = list(self._items())
            return tuple(items)
        return json.loads(token)

    def _items(self) -> Iterator[Any]:
        while self._peek() != "]":
            yield self._argument()
            if self._peek() == ",":
                self._expect(",")
        self._expect("]")

    def _peek(self) -> str:
        found = _TOKEN.match(self._text, self._at)
        return "" if found is None else found[0].strip()

    def _next(self) -> str:
        found = _TOKEN.match(self._text, self._at)
        if found is None:
            self._wrong()
        self._at = found.end()  # type: ignore[union-attr]
        return found[0].strip()  # type: ignore[index]

    def _expect(self, token: str) -> None:
        if self._next() != token:
            self._wrong()

    def _wrong(self) -> Any:
        raise ValueError("this was not written by a recipe")


def read_and_warn(recipe: Recipe, later: bool = False) -> Grammar:
    """The IR of a recipe; what is not enforced of it is warned of.

    Raises:
        RuntimeError: it is malformed, or a part is not enforced.
    """
    found: list[Finding] = []
    grammar = recipe.read(found, later)
    warn_of(found)
    return grammar
