"""llguidance's older grammar compilers. In: a schema, a Lark grammar or a regular expression. Out: a grammar string."""

from __future__ import annotations

import json
from typing import Any, Literal, TypeAlias

from guided.compat.llguidance.matcher import LLMatcher, escape_for_slashes, load_json
from guided.compat.llguidance.options import JsonCompileOptions
from guided.errors import brief
from guided.frontends.gbnf import is_gbnf

__all__ = ["GrammarFormat", "JsonCompiler", "LarkCompiler", "RegexCompiler", "grammar_from", "regex_to_lark"]

GrammarFormat: TypeAlias = Literal[
    "lark", "gbnf", "ebnf", "cfg", "grammar", "json_schema", "json", "regex", "choice", "llguidance"
]


class JsonCompiler:
    """Converts JSON Schemas to grammars. `guided.compat.llguidance.options` describes the options."""

    def __init__(
        self,
        separators: tuple[str, str] | None = None,
        whitespace_flexible: bool = False,
        coerce_one_of: bool = False,
        whitespace_pattern: str | None = None,
        json_allowed_escapes: str | None = None,
        json_allow_general_unicode_escapes: bool = False,
    ) -> None:
        item, key = separators or (",", ":")
        self._options = JsonCompileOptions(
            item_separator=item, key_separator=key, whitespace_flexible=whitespace_flexible,
            whitespace_pattern=whitespace_pattern, coerce_one_of=coerce_one_of, lenient=False,
            json_allowed_escapes=json_allowed_escapes,
            json_allow_general_unicode_escapes=json_allow_general_unicode_escapes,
        )  # fmt: skip

    def compile(self, schema: str, check: bool = True) -> str:
        """Convert a schema. ValueError: `check` is set and the schema is invalid."""
        return _validate(LLMatcher.grammar_from_json_schema(schema, overrides=self._options), check)


class LarkCompiler:
    """Converts Lark grammars to llguidance's JSON form."""

    def compile(self, lark: str, check: bool = True) -> str:
        """Convert a Lark grammar. ValueError: `check` is set and the grammar is invalid."""
        document = {
            "grammars": [{"name": "lark_grammar", "json_schema": None, "lark_grammar": lark}],
            "max_tokens": None,
        }
        return _validate(json.dumps(document, separators=(",", ":"), ensure_ascii=False), check)


class RegexCompiler:
    """Converts regular expressions to grammars."""

    def compile(self, regex: str, check: bool = True) -> str:
        """Convert a regular expression. ValueError: `check` is set and the expression is invalid."""
        return _validate(LLMatcher.grammar_from_regex(regex), check)


def grammar_from(format: GrammarFormat, text: str) -> str:
    """Convert a specification to a grammar. `format` is "lark"; "gbnf", "ebnf", "cfg" or "grammar" (GBNF if the text
    looks like it, otherwise Lark); "json_schema" or "json"; "regex"; "choice" (a JSON list of strings); or "llguidance"
    (returned unchanged).

    Raises:
        ValueError: the format is unknown, or the format requires JSON and the text is not JSON, or the choices are not
            strings.
    """
    match format:
        case "lark":
            return LLMatcher.grammar_from_lark(text)
        case "gbnf" | "ebnf" | "cfg" | "grammar":
            return json.dumps({"grammars": [{"gbnf_grammar": text}]}) if is_gbnf(text) else text
        case "json_schema" | "json":
            return LLMatcher.grammar_from_json_schema(text)
        case "regex":
            return LLMatcher.grammar_from_regex(text)
        case "choice":
            choices: Any = load_json(text) if isinstance(text, str) else list(text)
            if not isinstance(choices, list) or not all(isinstance(choice, str) for choice in choices):
                raise ValueError(f"choices must be a JSON list of strings, not {brief(choices)}")
            return "start: " + " | ".join(json.dumps(choice) for choice in choices)
        case "llguidance":
            return text
    raise ValueError(f"Unknown grammar type: {format}")


def regex_to_lark(regex: str, use_ascii: str | None = None) -> str:
    r"""Escape a regular expression so that it can be written between slashes in Lark. `use_ascii` lists which of the
    classes \d, \w and \s, and their complements, are limited to ASCII, for example "dw"; None means none of them."""
    ascii_sets = {"d": "0-9", "w": "0-9a-zA-Z_", "s": r" \t\n\r\f\v"}
    out, index, in_class, text = [], 0, False, escape_for_slashes(regex)
    while index < len(text):
        unit = text[index : index + 2] if text[index] == "\\" else text[index]
        index += len(unit)
        in_class = unit == "[" or (in_class and unit != "]")
        letter = unit[1:].lower()
        if len(unit) == 2 and letter in ascii_sets and letter in (use_ascii or "") and not in_class:
            unit = f"[{'^' if unit[1].isupper() else ''}{ascii_sets[letter]}]"
        out.append(unit)
    return "".join(out)


def _validate(grammar: str, check: bool) -> str:
    if check and (message := LLMatcher.validate_grammar(grammar)):
        raise ValueError(message)
    return grammar
