"""`Grammar`: a grammar before it is compiled for a tokenizer."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

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
    from_text,
    read_and_warn,
)
from guided.compat.xgrammar.schema_options import SchemaOptions
from guided.compat.xgrammar.serialized import load_serialized
from guided.ir.nodes import Grammar as IR

if TYPE_CHECKING:
    from guided.compat.xgrammar.tokenizer_info import TokenizerInfo

__all__ = ["Grammar", "named_recipes", "schema_text", "tag_text"]


class Grammar(XGRObject):
    """A grammar. `str(grammar)` is EBNF that `from_ebnf` can read, see `recipe.py`."""

    def __str__(self) -> str:
        return self._recipe.text

    @staticmethod
    def from_ebnf(ebnf_string: str, *, root_rule_name: str = "root") -> Grammar:
        """From a grammar in EBNF. RuntimeError: it is malformed; the message has the line and column."""
        return _build_grammar(from_text(ebnf_string, root_rule_name))

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
        """From a JSON Schema: JSON text, a dict, or a pydantic model.

        Args:
            any_whitespace: whether white space is allowed wherever JSON allows it. If not, `indent` and `separators`
                determine it, as for `json.dumps`.
            strict_mode: whether objects and arrays contain only members and items that the schema mentions.
            max_whitespace_cnt: the maximum number of white-space characters in a row.
            print_converted_ebnf: whether to print the text of the grammar.
            any_order: whether properties may come in any order. Required ones must occur, and none may occur twice.

        Raises:
            RuntimeError: the schema is malformed, allows no value, or has a part that cannot be enforced.
            ValueError: the schema is not of one of these kinds.
        """
        options = SchemaOptions(any_whitespace, indent, _pair(separators), strict_mode, max_whitespace_cnt, any_order)
        return _print_if(_build_grammar(JsonSchema(schema_text(schema), options)), print_converted_ebnf)

    @staticmethod
    def from_regex(regex_string: str, *, print_converted_ebnf: bool = False) -> Grammar:
        """From a regular expression, which the whole output must match. RuntimeError: it is malformed."""
        return _print_if(_build_grammar(Regex(regex_string)), print_converted_ebnf)

    @staticmethod
    def from_lark(
        lark_string: str,
        *,
        tokenizer_info: TokenizerInfo | None = None,
        named_grammars: dict[str, Grammar | str] | None = None,
    ) -> Grammar:
        """From a Lark grammar with the start rule `start`.

        Args:
            tokenizer_info: the tokenizer, to check the tokens that the grammar names. Without it, the compiler does so.
            named_grammars: the grammars for `@name`.

        Raises:
            RuntimeError: the grammar is malformed, or names a token that the tokenizer lacks. TypeError:
                `named_grammars` is malformed.
        """
        if tokenizer_info is not None:
            with as_xgrammar(what="Lark"):
                check_tokens(lark_string, tokenizer_info._tokens.ids_of)
        return _build_grammar(Lark(lark_string, named_recipes(named_grammars)))

    @staticmethod
    def from_structural_tag(*args: Any, **kwargs: Any) -> Grammar:
        """From a structural tag: `from_structural_tag(tag)`, or `from_structural_tag(tags, triggers)` (deprecated).

        Raises:
            InvalidJSONError: a text is not JSON. InvalidStructuralTagError: the tag is malformed, or a part of it
                cannot be enforced. TypeError: the arguments are wrong.
        """
        return _build_grammar(StructuralTag(tag_text(args, kwargs)))

    @staticmethod
    def builtin_json_grammar() -> Grammar:
        """The grammar of any JSON object or array, as in xgrammar."""
        return _build_grammar(JsonSchema('{"type": ["object", "array"]}', SchemaOptions()))

    @staticmethod
    def concat(*grammars: Grammar) -> Grammar:
        """A sequence of grammars."""
        return _build_grammar(JoinedGrammars(" ", tuple(grammar._recipe for grammar in grammars)))

    @staticmethod
    def union(*grammars: Grammar) -> Grammar:
        """A choice among grammars."""
        return _build_grammar(JoinedGrammars(" | ", tuple(grammar._recipe for grammar in grammars)))

    def serialize_json(self) -> str:
        """The grammar as JSON: the text of `str(grammar)` and a version."""
        return json.dumps({"grammar": str(self), "__VERSION__": SERIALIZATION_VERSION})

    @staticmethod
    def deserialize_json(json_string: str) -> Grammar:
        """Read the text of `serialize_json`.

        Raises:
            InvalidJSONError, DeserializeVersionError, DeserializeFormatError: see `exception.py`. Texts that xgrammar
                itself wrote raise DeserializeVersionError.
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
    def _parsed_recipe(self) -> _ParsedRecipe:
        handle: _ParsedRecipe = self._handle
        return handle


class _ParsedRecipe:
    """A recipe and its IR, so that the recipe is read only once and its warnings appear only once."""

    __slots__ = ("_ir_with_later_rules", "_whole_ir", "recipe")

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe
        self._ir_with_later_rules = read_and_warn(recipe, later=True)
        self._whole_ir = None if self._ir_with_later_rules.later else self._ir_with_later_rules

    def ir(self, later: bool) -> IR:
        """The grammar. `later`: whether the parts for many tools may be compiled later, when they begin."""
        if later:
            return self._ir_with_later_rules
        if self._whole_ir is None:
            self._whole_ir = self.recipe.read([])
        return self._whole_ir


def _build_grammar(recipe: Recipe) -> Grammar:
    return Grammar._create_from_handle(_ParsedRecipe(recipe))


def _print_if(grammar: Grammar, show: bool) -> Grammar:
    if show:
        print(grammar)
    return grammar


def _pair(separators: Any) -> tuple[str, str] | None:
    return None if separators is None else tuple(separators)


def schema_text(schema: Any) -> str:
    """A schema as JSON text. ValueError: it is not a str, a dict, or a pydantic model."""
    if isinstance(schema, str):
        return schema
    if isinstance(schema, dict):
        return json.dumps(schema)
    if isinstance(schema, type) and hasattr(schema, "model_json_schema"):
        return json.dumps(schema.model_json_schema())
    raise ValueError("The schema should be a string or a Pydantic model.")


def tag_text(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """A structural tag as JSON text, from the arguments of `from_structural_tag`."""
    if len(args) == 1 and not kwargs:
        return _tag_json(args[0])
    if not args and kwargs.keys() == {"structural_tag"}:
        return _tag_json(kwargs["structural_tag"])
    legacy = args if len(args) == 2 and not kwargs else ()
    if not args and kwargs.keys() == {"tags", "triggers"}:
        legacy = (kwargs["tags"], kwargs["triggers"])
    if len(legacy) == 2 and isinstance(legacy[0], list) and isinstance(legacy[1], list):
        from guided.compat.xgrammar.structural_tag import StructuralTag as Model

        return Model.from_legacy_structural_tag(legacy[0], legacy[1]).model_dump_json()
    raise TypeError("Invalid arguments for from_structural_tag")


def _tag_json(tag: Any) -> str:
    if isinstance(tag, str):
        return tag
    if isinstance(tag, dict):
        return json.dumps(tag)
    if hasattr(tag, "model_dump_json"):
        return str(tag.model_dump_json())
    raise TypeError("Invalid argument type for from_structural_tag")


def named_recipes(parts: Any) -> tuple[tuple[str, str | Recipe], ...]:
    """The grammars for `@name` in a Lark grammar."""
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
