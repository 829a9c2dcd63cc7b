"""Compiles llguidance's grammars. In: a string, which is a Lark grammar or JSON with one or more grammars, and a
tokenizer. Out: a compiled grammar.

    {"grammars": [{"lark_grammar": "start: @b"}, {"name": "b", "json_schema": {...}}]}

guided adds grammars in GBNF, `{"grammars": [{"gbnf_grammar": "root ::= ..."}]}`, which it reads as llama.cpp does.

How: a Lark grammar is compiled with `semantics="scannerless"`, which accepts every split of a text into lexemes,
including llguidance's split into the longest lexemes. Regular expressions are rewritten from Rust's notation
(`rust_syntax.py`). A schema with its own options is compiled as a separate part, and `<[*]>` includes control tokens.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import count
from typing import Any, Final
from urllib.parse import unquote

from guided.compat.llguidance.options import schema_options
from guided.compat.llguidance.tokenizer import LLTokenizer
from guided.compat.rust_anchors import strip_anchors
from guided.errors import Finding, GuidedError, LimitExceeded, SpecError, UnsupportedError, VocabularyError, brief
from guided.frontends.combinators import Expr, gbnf, json_schema
from guided.frontends.lark.scan import Token, scan, scan_leniently
from guided.frontends.regex.rust_syntax import to_python_regex
from guided.limits import Limits
from guided.matching.compiled import CompiledGrammar

__all__ = [
    "Definition",
    "compile_grammar",
    "find_token_names",
    "forces_tokens",
    "format_error",
    "has_ignored_text",
    "read_definitions",
]

_KINDS: Final = ("lark_grammar", "json_schema", "gbnf_grammar")
_NO_FORCING: Final = re.compile(r'"no_forcing"\s*:\s*true')
_MAX_DIGITS: Final = 9
"""The maximum number of digits of a token's id."""
_NO_FINAL_SKIP: Final = '\n%llguidance {"allow_final_skip": false}\n'
_LLGUIDANCE_DIRECTIVE: Final = "\n%llguidance {}\n"


@dataclass(frozen=True, slots=True)
class Definition:
    """One grammar in a grammar string.

    Attributes:
        name: the name that `@name` refers to, or "".
        kind: "lark_grammar", "json_schema" or "gbnf_grammar".
        content: the grammar as a string, or the schema.
    """

    name: str
    kind: str
    content: Any


def read_definitions(text: str) -> tuple[Definition, ...]:
    """Read the grammars in a grammar string. The first one is the grammar of the output.

    Raises:
        SpecError: the string is malformed. UnsupportedError: it sets `max_tokens`.
    """
    if not text.strip():
        raise SpecError("Empty grammar", hint="write start: ...")
    if not text.lstrip().startswith("{"):
        return (Definition("", "lark_grammar", text),)
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SpecError(f"the grammar is not JSON: {str(error)[:200]}", text=text[:200]) from None
    grammars = document.get("grammars")
    if not isinstance(grammars, list):
        raise SpecError("missing field `grammars`", text=text[:200], hint='write {"grammars": [...]}')
    if not grammars:
        raise SpecError("empty grammars array", text=text[:200])
    if document.get("max_tokens") is not None:
        raise UnsupportedError(
            "max_tokens of a whole grammar is not enforced", pointer="/max_tokens",
            hint="count the tokens in your program, or limit a rule with rule[max_tokens=...]",
        )  # fmt: skip
    return tuple(_read_definition(grammar, number) for number, grammar in enumerate(grammars))


def _read_definition(definition: Any, number: int) -> Definition:
    pointer = f"/grammars/{number}"
    if not isinstance(definition, dict):
        raise SpecError("a grammar must be an object", pointer=pointer)
    kinds = [kind for kind in _KINDS if definition.get(kind) is not None]
    if len(kinds) > 1:
        raise SpecError(f"cannot have both {kinds[0]} and {kinds[1]}", pointer=pointer)
    if not kinds:
        raise SpecError(f"a grammar must have one of {', '.join(_KINDS)}", pointer=pointer)
    kind, content = kinds[0], definition[kinds[0]]
    if kind != "json_schema" and not isinstance(content, str):
        raise SpecError(f"{kind} must be a string, not {brief(content)}", pointer=f"{pointer}/{kind}")
    return Definition(str(definition.get("name") or ""), kind, content)


def compile_grammar(text: str, tokenizer: LLTokenizer, limits: Limits, final_skip: bool = True) -> CompiledGrammar:
    """Compile a grammar string.

    Args:
        final_skip: whether the output of a Lark grammar may end with ignored text.

    Raises:
        GuidedError: the string or a part of it is invalid or exceeds the limits; see `GrammarCompiler`.
    """
    first, *others = read_definitions(text)
    compiler = tokenizer.get_compiler(limits)
    if first.kind == "gbnf_grammar":
        return compiler.compile_gbnf(first.content, allow_special_tokens=True)
    if first.kind == "json_schema":
        schema, options = _split_options(first.content)
        grammar = compiler.compile_json_schema(schema, **{**options, "unknown_format": "warn"})
        if options["unknown_format"] == "refuse":
            _refuse_formats(schema, grammar.findings)
        return grammar
    named_definitions = [definition for definition in others if definition.name]
    # Reserve the names, since schemas in Lark texts must get other names.
    parts: dict[str, Any] = {definition.name: None for definition in named_definitions}
    for definition in named_definitions:
        parts[definition.name] = _make_part(definition, tokenizer, limits, parts)
    lark = _LarkRewriter(first.content, tokenizer, limits, parts).rewrite()
    lark += "" if final_skip else _NO_FINAL_SKIP
    return compiler.compile_lark(
        lark, semantics="scannerless", grammars=parts, allow_special_tokens=True, **schema_options({})
    )


def _make_part(definition: Definition, tokenizer: LLTokenizer, limits: Limits, parts: dict[str, Any]) -> Any:
    if definition.kind == "json_schema":
        return _make_schema_part(json.dumps(definition.content))
    if definition.kind == "gbnf_grammar":
        return gbnf(definition.content, allow_special_tokens=True)
    return _LarkRewriter(definition.content, tokenizer, limits, parts).rewrite()


def _split_options(content: Any) -> tuple[Any, Any]:
    """Split a schema into the schema without its "x-guidance", and the options in "x-guidance"."""
    if not isinstance(content, dict):
        return content, schema_options({})
    options = content.get("x-guidance")
    if options is not None and not isinstance(options, Mapping):
        raise SpecError("x-guidance must be an object of options", pointer="/x-guidance")
    return {key: value for key, value in content.items() if key != "x-guidance"}, schema_options(options or {})


def _refuse_formats(schema: Any, findings: Sequence[Finding]) -> None:
    """Raise UnsupportedError for the first format that is not enforced and whose schema allows strings."""
    for finding in findings:
        if finding.keyword == "format" and "string" in _types_around(schema, finding.pointer):
            raise UnsupportedError(finding.reason, pointer=finding.pointer, hint=finding.hint)


def _types_around(schema: Any, pointer: str) -> Sequence[str]:
    """The types that `type` allows in the schema around the keyword at a pointer. Without `type`, strings are allowed,
    so the result is ["string"]."""
    for key in pointer.split("/")[1:-1]:
        name = unquote(key).replace("~1", "/").replace("~0", "~")
        try:
            schema = schema[int(name)] if isinstance(schema, list) else schema[name]
        except (KeyError, ValueError, IndexError, TypeError):  # the keyword is in another document
            return ("string",)
    type_names = schema.get("type", "string") if isinstance(schema, dict) else "string"
    return [type_names] if isinstance(type_names, str) else type_names


@lru_cache(maxsize=256)
def _make_schema_part(text: str) -> Expr:
    """A schema as a part of a grammar.

    Cached, because the compiler's cache recognises a part by its identity: equal texts must give the same object.
    """
    schema, options = _split_options(json.loads(text))
    return json_schema(schema, **options)


class _LarkRewriter:
    """Rewrites a Lark grammar from llguidance's dialect to guided's; see the module docstring.

    Args:
        parts: collects the schemas with their own options, under the names that the rewritten grammar uses for them.
    """

    def __init__(self, text: str, tokenizer: LLTokenizer, limits: Limits, parts: dict[str, Any]) -> None:
        self._text, self._tokenizer, self._limits, self._parts = text, tokenizer, limits, parts

    def rewrite(self) -> str:
        """Return the rewritten grammar. A malformed grammar is returned unchanged, and the compiler reports the
        error."""
        try:
            tokens = scan(self._text)
        except SpecError:
            return self._text
        out, pos = [], 0
        for token in tokens:
            replacement = self._rewrite_token(token)
            if replacement is not None:
                out += [self._text[pos : token.start], replacement]
                pos = token.end
        out.append(self._text[pos:])
        has_directive = any(token.text in ("%llguidance", "%grammar_options") for token in tokens)
        return "".join(out) + ("" if has_directive else _LLGUIDANCE_DIRECTIVE)

    def _rewrite_token(self, token: Token) -> str | None:
        """The replacement of a token; None if it is left unchanged."""
        if token.kind == "regex":
            end = token.text.rindex("/")
            pattern = token.text[1:end]
            python_pattern = to_python_regex(strip_anchors(pattern), self._limits)
            if "|" in python_pattern:
                python_pattern = f"(?:{python_pattern})"  # without it, a choice would absorb its neighbours
            return None if python_pattern == pattern else f"/{_escape_newlines(python_pattern)}/{token.text[end + 1 :]}"
        if token.kind == "special" and token.text.startswith(("<[*", "<[^")):
            return self._add_control_tokens(token.text)
        if token.text == "%json" and "x-guidance" in token.value:
            name = next(name for number in count(len(self._parts)) if (name := f"json-{number}") not in self._parts)
            self._parts[name] = _make_schema_part(token.value)
            return f"@{name}"
        if token.text == "%lark":
            rewritten_text = _LarkRewriter(token.value, self._tokenizer, self._limits, self._parts).rewrite()
            return f"%lark {{{rewritten_text}}}"
        return None

    def _add_control_tokens(self, source: str) -> str | None:
        """Add the control tokens to `<[*]>` or `<[^..]>`, which in guided contain no control tokens. None: the
        source is malformed, or there is nothing to add."""
        ranges: list[tuple[int, int]] = []
        for piece in source[3:-2].split(",") if source[2] == "^" else ():
            low, _, high = piece.partition("-")
            if not low.isdecimal() or (high and not high.isdecimal()) or max(len(low), len(high)) > _MAX_DIGITS:
                return None
            ranges.append((int(low), int(high or low)))
        unlisted_ids = _remove_ranges(self._tokenizer.control_ids, ranges)
        return f"({source} | <[{_format_ids(unlisted_ids)}]>)" if unlisted_ids else None


def _remove_ranges(ids: Sequence[int], ranges: list[tuple[int, int]]) -> list[int]:
    """The ids, in ascending order, that are in none of the ranges."""
    ranges.sort()
    out, index, last_excluded = [], 0, -1
    for token_id in ids:
        while index < len(ranges) and ranges[index][0] <= token_id:
            last_excluded = max(last_excluded, ranges[index][1])
            index += 1
        if token_id > last_excluded:
            out.append(token_id)
    return out


def _format_ids(ids: Sequence[int]) -> str:
    """Ids in ascending order, as in `1,5-9`."""
    ranges: list[list[int]] = []
    for token_id in ids:
        if ranges and token_id == ranges[-1][1] + 1:
            ranges[-1][1] = token_id
        else:
            ranges.append([token_id, token_id])
    return ",".join(f"{low}-{high}" if high > low else str(low) for low, high in ranges)


def _escape_newlines(pattern: str) -> str:
    """The pattern with escaped newlines, so that it can be written between slashes on one line."""
    return pattern.replace("\n", "\\n") if "\n" in pattern else pattern


def format_error(error: GuidedError, text: str = "") -> str:
    """Format an error. The message begins with the words of llguidance's message that programs search for."""
    if isinstance(error, LimitExceeded):
        return f"initial lexer configuration (grammar) too big: {error}"
    if isinstance(error, UnsupportedError) and error.pointer.endswith("/format"):
        return f"Unknown format: {error}"
    try:
        first = read_definitions(text)[0]
    except (SpecError, UnsupportedError):
        return str(error)
    is_regex = first.name == "regex" or (isinstance(error, SpecError) and "pattern" in error.message)
    return f"invalid regex: {error}" if is_regex and not isinstance(error, VocabularyError) else str(error)


def forces_tokens(text: str) -> bool:
    """Whether the tokenizer, not the model, chooses the tokens of forced text."""
    content = read_definitions(text)[0].content
    return not (isinstance(content, str) and _NO_FORCING.search(content))


def has_ignored_text(text: str) -> bool:
    """Whether the grammar ignores some text, so that the output may end with ignored text."""
    first = read_definitions(text)[0]
    return first.kind == "lark_grammar" and "%ignore" in first.content


def find_token_names(definitions: Sequence[Definition]) -> list[str]:
    """Find the names of tokens, such as `<|end|>`, in Lark grammars."""
    texts = [
        definition.content
        for definition in definitions
        if definition.kind == "lark_grammar" and isinstance(definition.content, str)
    ]
    return [token.text for text in texts for token in scan_leniently(text) if token.kind == "special"]
