"""llguidance's older grammar compilers. In: a schema, a Lark text or a regular expression. Out: a grammar as text."""

from __future__ import annotations

import json
from typing import Any, Literal, TypeAlias

from guided.compat.llguidance.matcher import LLMatcher, regex_between_slashes
from guided.compat.llguidance.options import JsonCompileOptions
from guided.frontends.gbnf import is_gbnf

__all__ = ["GrammarFormat", "JsonCompiler", "LarkCompiler", "RegexCompiler", "grammar_from", "regex_to_lark"]

GrammarFormat: TypeAlias = Literal[
    "lark", "gbnf", "ebnf", "cfg", "grammar", "json_schema", "json", "regex", "choice", "llguidance"
]


class JsonCompiler:
    """Grammars of JSON Schemas. `guided.compat.llguidance.options` describes the options."""

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
        """The grammar of a schema. ValueError: `check` is set and the schema is invalid."""
        return _validate(LLMatcher.grammar_from_json_schema(schema, overrides=self._options), check)


class LarkCompiler:
    """Grammars of Lark texts."""

    def compile(self, lark: str, check: bool = True) -> str:
        """The grammar of a Lark text. ValueError: `check` is set and the text is invalid."""
        top = {"grammars": [{"name": "lark_grammar", "json_schema": None, "lark_grammar": lark}], "max_tokens": None}
        return _validate(json.dumps(top, separators=(",", ":"), ensure_ascii=False), check)


class RegexCompiler:
    """Grammars of regular expressions."""

    def compile(self, regex: str, check: bool = True) -> str:
        """The grammar of an expression. ValueError: `check` is set and the expression is invalid."""
        return _validate(LLMatcher.grammar_from_regex(regex), check)


def grammar_from(format: GrammarFormat, text: str) -> str:
    """The grammar of a text in one of these formats: "lark"; "gbnf", "ebnf", "cfg" or "grammar" (GBNF if the text looks
    like it, otherwise Lark); "json_schema" or "json"; "regex"; "choice" (a JSON list of strings); "llguidance"
    (returned unchanged).

    Raises:
        ValueError: the format is unknown, or the format requires JSON and the text is not JSON.
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
            choices: Any = json.loads(text) if isinstance(text, str) else text
            return "start: " + " | ".join(json.dumps(choice) for choice in choices)
        case "llguidance":
            return text
    raise ValueError(f"Unknown grammar type: {format}")


def regex_to_lark(regex: str, use_ascii: str | None = None) -> str:
    r"""The expression in a form that can stand between slashes in Lark. `use_ascii` lists which of the classes \d, \w
    and \s are limited to ASCII, together with their complements, for example "dw"; None means none of them."""
    ascii_sets = {"d": "0-9", "w": "0-9a-zA-Z_", "s": r" \t\n\r\f\v"}
    out, at, in_class, text = [], 0, False, regex_between_slashes(regex)
    while at < len(text):
        piece = text[at : at + 2] if text[at] == "\\" else text[at]
        at += len(piece)
        in_class = piece == "[" or (in_class and piece != "]")
        letter = piece[1:].lower()
        if len(piece) == 2 and letter in ascii_sets and letter in (use_ascii or "") and not in_class:
            piece = f"[{'^' if piece[1].isupper() else ''}{ascii_sets[letter]}]"
        out.append(piece)
    return "".join(out)


def _validate(grammar: str, check: bool) -> str:
    if check and (message := LLMatcher.validate_grammar(grammar)):
        raise ValueError(message)
    return grammar
