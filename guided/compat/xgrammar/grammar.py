"""`Grammar`: a grammar before it is compiled for a tokenizer."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from guided.compat.xgrammar.base import XGRObject
from guided.compat.xgrammar.config import SERIALIZATION_VERSION
from guided.compat.xgrammar.exception import DeserializeFormatError, as_xgrammar
from guided.compat.xgrammar.lark_text import check_tokens
from guided.compat.xgrammar.recipe import (
    JoinedGrammars,
    JsonSchema,
    Lark,
    Recipe,
    Regex,
    StructuralTag,
    read_and_warn,
    read_recipe,
)
from guided.compat.xgrammar.schema_options import SchemaOptions
from guided.compat.xgrammar.serialized import load_serialized
from guided.errors import LimitExceeded
from guided.ir.nodes import Grammar as IR

if TYPE_CHECKING:
    from guided.compat.xgrammar.tokenizer_info import TokenizerInfo

__all__ = ["Grammar", "read_named_grammars", "schema_to_json", "tag_to_json"]


_MAX_DEPTH: Final = 200  # reading joined grammars takes a few of Python's stack frames for each level


class Grammar(XGRObject):
    """A grammar. `str(grammar)` is EBNF that `from_ebnf` can read, see `recipe.py`."""

    def __str__(self) -> str:
        return self._recipe.text

    @staticmethod
    def from_ebnf(ebnf_string: str, *, root_rule_name: str = "root") -> Grammar:
        """Create a Grammar from EBNF. RuntimeError: it is malformed; the message contains the line and column."""
        return _build_grammar(read_recipe(ebnf_string, root_rule_name))

    @staticmethod
    def from_json_schema(
        schema: str | type | dict[str, Any],
        *,
        any_whitespace: bool = True,
        indent: int | None = None,
        separators: tuple[str, str] | None = None,
        strict_mode: bool = True,
        max_whitespace_cnt: int | None = None,
        print_converted_ebnf: bool = False,
        any_order: bool = False,
    ) -> Grammar:
        """Create a Grammar from a JSON Schema: JSON text, a dict, or a pydantic model.

        Args:
            any_whitespace: whether whitespace is allowed wherever JSON allows it. If not, `indent` and `separators`
                determine it, as for `json.dumps`.
            strict_mode: whether objects and arrays contain only members and items that the schema mentions.
            max_whitespace_cnt: the maximum number of whitespace characters in a row.
            print_converted_ebnf: whether to print the grammar.
            any_order: whether properties may come in any order. Required ones must occur, and none may occur twice.

        Raises:
            RuntimeError: the schema is malformed, allows no value, or has a part that cannot be enforced.
            ValueError: the schema has another type.
        """
        options = SchemaOptions(
            any_whitespace, indent, _as_pair(separators), strict_mode, max_whitespace_cnt, any_order
        )
        return _print_if(_build_grammar(JsonSchema(schema_to_json(schema), options)), print_converted_ebnf)

    @staticmethod
    def from_regex(regex_string: str, *, print_converted_ebnf: bool = False) -> Grammar:
        """Create a Grammar from a regular expression, which the whole output must match. RuntimeError: it is
        malformed."""
        return _print_if(_build_grammar(Regex(regex_string)), print_converted_ebnf)

    @staticmethod
    def from_lark(
        lark_string: str,
        *,
        tokenizer_info: TokenizerInfo | None = None,
        named_grammars: dict[str, Grammar | str] | None = None,
    ) -> Grammar:
        """Create a Grammar from a Lark grammar with the start rule `start`.

        Args:
            tokenizer_info: the tokenizer, to check the tokens that the grammar names. Without it, the compiler checks
                them.
            named_grammars: the grammars for `@name`.

        Raises:
            RuntimeError: the grammar is malformed, or names a token that the tokenizer lacks. TypeError:
                `named_grammars` is malformed.
        """
        if tokenizer_info is not None:
            with as_xgrammar(parser_name="Lark"):
                check_tokens(lark_string, tokenizer_info._tokens.ids_of)
        return _build_grammar(Lark(lark_string, read_named_grammars(named_grammars)))

    @staticmethod
    def from_structural_tag(*args: Any, **kwargs: Any) -> Grammar:
        """Create a Grammar from a structural tag: `from_structural_tag(tag)`, or, deprecated, `(tags, triggers)`.

        Raises:
            InvalidJSONError: a string is not JSON. InvalidStructuralTagError: the tag is malformed, or a part of it
                cannot be enforced. TypeError: the arguments are wrong.
        """
        return _build_grammar(StructuralTag(tag_to_json(args, kwargs)))

    @staticmethod
    def builtin_json_grammar() -> Grammar:
        """The grammar of any JSON object or array, as in xgrammar."""
        return _build_grammar(JsonSchema('{"type": ["object", "array"]}', SchemaOptions()))

    @staticmethod
    def concat(*grammars: Grammar) -> Grammar:
        """A sequence of grammars."""
        return _join(" ", grammars)

    @staticmethod
    def union(*grammars: Grammar) -> Grammar:
        """A choice among grammars. RuntimeError: there are none."""
        return _join(" | ", grammars) if grammars else _build_grammar(JoinedGrammars(" | ", ()))

    def serialize_json(self) -> str:
        """The grammar as JSON: `str(grammar)` and a version."""
        return json.dumps({"grammar": str(self), "__VERSION__": SERIALIZATION_VERSION})

    @staticmethod
    def deserialize_json(json_string: str) -> Grammar:
        """Read a string that `serialize_json` wrote.

        Raises:
            InvalidJSONError, DeserializeVersionError, DeserializeFormatError: see `exception.py`. A string that
                xgrammar itself wrote raises DeserializeVersionError.
        """
        data = load_serialized(json_string, "Grammar")
        if not isinstance(data.get("grammar"), str):
            raise DeserializeFormatError('this is not a serialized Grammar: "grammar" is missing')
        try:
            return Grammar.from_ebnf(data["grammar"])
        except RuntimeError as error:
            raise DeserializeFormatError(f"the serialized grammar is malformed: {error}") from None

    @staticmethod
    def _from_recipe(recipe: Recipe) -> Grammar:
        return _build_grammar(recipe)

    @property
    def _recipe(self) -> Recipe:
        return self._parsed_recipe.recipe

    @property
    def _parsed_recipe(self) -> _ParsedRecipe | _JoinedRecipe:
        handle: _ParsedRecipe | _JoinedRecipe = self._handle
        return handle


class _ParsedRecipe:
    """A recipe and its IR. It reads the recipe once, so its warnings appear once."""

    __slots__ = ("_ir_with_deferred_rules", "_whole_ir", "recipe")

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe
        self._ir_with_deferred_rules = read_and_warn(recipe, defer=True)
        self._whole_ir = None if self._ir_with_deferred_rules.later else self._ir_with_deferred_rules

    def ir(self, defer: bool) -> IR:
        """The IR. `defer`: whether the parts for many tools may be compiled later, when the output reaches them."""
        if defer:
            return self._ir_with_deferred_rules
        if self._whole_ir is None:
            self._whole_ir = self.recipe.read([])
        return self._whole_ir


class _JoinedRecipe:
    """The recipe and the IR of joined grammars, which have been read before.

    The recipe and the IR are created when they are needed, so it takes linear time to join many grammars one by one.
    `depth`: how deeply sequences and choices alternate.
    """

    __slots__ = ("_ir", "_parts", "_recipe", "_separator", "depth")

    def __init__(self, separator: str, parts: tuple[_ParsedRecipe | _JoinedRecipe, ...]) -> None:
        self._separator, self._parts = separator, parts
        self._recipe: Recipe | None = None
        self._ir: IR | None = None
        joined_parts = [part for part in parts if isinstance(part, _JoinedRecipe)]
        self.depth: int = max((part.depth + (part._separator != separator) for part in joined_parts), default=1)
        if self.depth > _MAX_DEPTH:
            with as_xgrammar():
                raise LimitExceeded("depth", self.depth, _MAX_DEPTH, fixed=True, hint="use fewer levels")

    @property
    def recipe(self) -> Recipe:
        """The recipe. A sequence in a sequence, or a choice in a choice, is merged into the outer one."""
        if self._recipe is None:
            parts, pending_parts = list[Recipe](), [*reversed(self._parts)]
            while pending_parts:
                part = pending_parts.pop()
                if isinstance(part, _JoinedRecipe) and part._separator == self._separator:
                    pending_parts += reversed(part._parts)
                else:
                    parts.append(part.recipe)
            self._recipe = JoinedGrammars(self._separator, tuple(parts))
        return self._recipe

    def ir(self, defer: bool) -> IR:
        """The IR. No parts are compiled later."""
        if self._ir is None:
            self._ir = self.recipe.read([])
        return self._ir


def _join(separator: str, grammars: tuple[Grammar, ...]) -> Grammar:
    parts = tuple(grammar._parsed_recipe for grammar in grammars)
    return Grammar._create_from_handle(_JoinedRecipe(separator, parts))


def _build_grammar(recipe: Recipe) -> Grammar:
    return Grammar._create_from_handle(_ParsedRecipe(recipe))


def _print_if(grammar: Grammar, must_print: bool) -> Grammar:
    if must_print:
        print(grammar)
    return grammar


def _as_pair(separators: Any) -> tuple[str, str] | None:
    return None if separators is None else tuple(separators)


def schema_to_json(schema: Any) -> str:
    """Convert a schema to JSON text. ValueError: it is not a str, a dict, or a pydantic model."""
    if isinstance(schema, str):
        return schema
    if isinstance(schema, dict):
        return json.dumps(schema)
    if isinstance(schema, type) and hasattr(schema, "model_json_schema"):
        return json.dumps(schema.model_json_schema())
    raise ValueError("The schema should be a string or a Pydantic model.")


def tag_to_json(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """Convert the arguments of `from_structural_tag` to a structural tag as JSON text."""
    if len(args) == 1 and not kwargs:
        return _dump_tag(args[0])
    if not args and kwargs.keys() == {"structural_tag"}:
        return _dump_tag(kwargs["structural_tag"])
    legacy_args = args if len(args) == 2 and not kwargs else ()
    if not args and kwargs.keys() == {"tags", "triggers"}:
        legacy_args = (kwargs["tags"], kwargs["triggers"])
    if len(legacy_args) == 2 and isinstance(legacy_args[0], list) and isinstance(legacy_args[1], list):
        from guided.compat.xgrammar.structural_tag import StructuralTag as Model

        return Model.from_legacy_structural_tag(legacy_args[0], legacy_args[1]).model_dump_json()
    raise TypeError("Invalid arguments for from_structural_tag")


def _dump_tag(tag: Any) -> str:
    if isinstance(tag, str):
        return tag
    if isinstance(tag, dict):
        return json.dumps(tag)
    if hasattr(tag, "model_dump_json"):
        return str(tag.model_dump_json())
    raise TypeError("Invalid argument type for from_structural_tag")


def read_named_grammars(parts: Any) -> tuple[tuple[str, str | Recipe], ...]:
    """Check the grammars for `@name` in a Lark grammar, and convert them to recipes."""
    if parts is None:
        return ()
    if not isinstance(parts, dict):
        raise TypeError("named_grammars must be a dictionary")
    out: list[tuple[str, str | Recipe]] = []
    for name, part in parts.items():
        if not isinstance(name, str):
            raise TypeError("named grammar names must be strings")
        if not isinstance(part, str | Grammar):
            raise TypeError("named grammar values must be Grammar instances or Lark strings")
        out.append((name, part._recipe if isinstance(part, Grammar) else part))
    return tuple(out)
