"""llguidance's grammars: a text that is either a Lark grammar, or JSON with one or more grammars. In: such a text and a
tokenizer. Out: a compiled grammar.

    {"grammars": [{"lark_grammar": "start: @b"}, {"name": "b", "json_schema": {...}}]}

guided adds grammars in GBNF, `{"grammars": [{"gbnf_grammar": "root ::= ..."}]}`, which it reads as llama.cpp does.

How: a Lark text is compiled with `semantics="scannerless"`, which accepts every way to divide a text into lexemes,
including llguidance's choice of the longest lexemes. Regular expressions are rewritten from Rust's notation
(`rust_regex.py`). A schema with its own options is compiled as a separate part, and `<[*]>` includes control tokens.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final
from urllib.parse import unquote

from guided.compat.llguidance.options import schema_options
from guided.compat.llguidance.tokenizer import LLTokenizer
from guided.compat.rust_regex import python_regex, without_anchors
from guided.errors import Finding, GuidedError, LimitExceeded, SpecError, UnsupportedError, VocabularyError
from guided.frontends.combinators import Expr, gbnf, json_schema
from guided.frontends.lark.scan import Token, scan, scan_leniently
from guided.limits import Limits
from guided.matching.compiled import CompiledGrammar

__all__ = [
    "Definition",
    "compile_grammar",
    "definitions_of",
    "forces_tokens",
    "has_ignored_text",
    "message_of",
    "named_tokens",
]

_KINDS: Final = ("lark_grammar", "json_schema", "gbnf_grammar")
_NOT_FORCED: Final = re.compile(r'"no_forcing"\s*:\s*true')
_NO_FINAL_SKIP: Final = '\n%llguidance {"allow_final_skip": false}\n'
_START_ONLY: Final = "\n%llguidance {}\n"


@dataclass(frozen=True, slots=True)
class Definition:
    """One grammar of a text.

    Attributes:
        name: the name that `@name` refers to, or "".
        kind: "lark_grammar", "json_schema" or "gbnf_grammar".
        content: the text of the grammar, or the schema.
    """

    name: str
    kind: str
    content: Any


def definitions_of(text: str) -> tuple[Definition, ...]:
    """The grammars in a text. The first one is the grammar of the output.

    Raises:
        SpecError: the text is malformed. UnsupportedError: it sets `max_tokens`.
    """
    if not text.strip():
        raise SpecError("Empty grammar", hint="write start: ...")
    if not text.lstrip().startswith("{"):
        return (Definition("", "lark_grammar", text),)
    try:
        read = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SpecError(f"the grammar is not JSON: {str(error)[:200]}", text=text[:200]) from None
    grammars = read.get("grammars")
    if not isinstance(grammars, list):
        raise SpecError("missing field `grammars`", text=text[:200], hint='write {"grammars": [...]}')
    if not grammars:
        raise SpecError("empty grammars array", text=text[:200])
    if read.get("max_tokens") is not None:
        raise UnsupportedError(
            "max_tokens of a whole grammar is not enforced", pointer="/max_tokens",
            hint="count the tokens in your program, or limit a rule with rule[max_tokens=...]",
        )  # fmt: skip
    return tuple(_definition(grammar, number) for number, grammar in enumerate(grammars))


def _definition(definition: Any, number: int) -> Definition:
    pointer = f"/grammars/{number}"
    if not isinstance(definition, dict):
        raise SpecError("a grammar must be an object", pointer=pointer)
    kinds = [kind for kind in _KINDS if definition.get(kind) is not None]
    if len(kinds) > 1:
        raise SpecError(f"cannot have both {kinds[0]} and {kinds[1]}", pointer=pointer)
    if not kinds:
        raise SpecError(f"a grammar must have one of {', '.join(_KINDS)}", pointer=pointer)
    return Definition(str(definition.get("name") or ""), kinds[0], definition[kinds[0]])


def compile_grammar(text: str, tokenizer: LLTokenizer, limits: Limits, final_skip: bool = True) -> CompiledGrammar:
    """Compile the grammar of a text.

    Args:
        final_skip: whether the output of a Lark grammar may end with ignored text.

    Raises:
        GuidedError: the text or a part of it is invalid or exceeds the limits; see `GrammarCompiler`.
    """
    first, *others = definitions_of(text)
    compiler = tokenizer.compiler(limits)
    if first.kind == "gbnf_grammar":
        return compiler.compile_gbnf(first.content, allow_special_tokens=True)
    if first.kind == "json_schema":
        schema, options = _schema(first.content)
        grammar = compiler.compile_json_schema(schema, **{**options, "unknown_format": "warn"})
        if options["unknown_format"] == "refuse":
            _refuse_formats(schema, grammar.findings)
        return grammar
    parts: dict[str, Any] = {definition.name: _part(definition, tokenizer) for definition in others if definition.name}
    lark = _LarkRewriter(first.content, tokenizer, parts).text()
    lark += "" if final_skip else _NO_FINAL_SKIP
    return compiler.compile_lark(
        lark, semantics="scannerless", grammars=parts, allow_special_tokens=True, **schema_options({})
    )


def _part(definition: Definition, tokenizer: LLTokenizer) -> Any:
    if definition.kind == "json_schema":
        return _schema_part(json.dumps(definition.content))
    if definition.kind == "gbnf_grammar":
        return gbnf(definition.content, allow_special_tokens=True)
    return _LarkRewriter(definition.content, tokenizer, {}).text()


def _schema(content: Any) -> tuple[Any, Any]:
    """A schema without its "x-guidance", and the options in it."""
    if not isinstance(content, dict):
        return content, schema_options({})
    options = content.get("x-guidance")
    if options is not None and not isinstance(options, Mapping):
        raise SpecError("x-guidance must be an object of options", pointer="/x-guidance")
    return {key: value for key, value in content.items() if key != "x-guidance"}, schema_options(options or {})


def _refuse_formats(schema: Any, findings: Sequence[Finding]) -> None:
    """Raise UnsupportedError for a format that is not enforced, unless strings are not allowed at that point anyway."""
    for finding in findings:
        if finding.keyword == "format" and "string" in _types(schema, finding.pointer):
            raise UnsupportedError(finding.reason, pointer=finding.pointer, hint=finding.hint)


def _types(schema: Any, pointer: str) -> Sequence[str]:
    """The types that the `type` next to the keyword at a pointer allows; ["string"] without it, since it then allows
    strings."""
    for part in pointer.split("/")[1:-1]:
        name = unquote(part).replace("~1", "/").replace("~0", "~")
        try:
            schema = schema[int(name)] if isinstance(schema, list) else schema[name]
        except (KeyError, ValueError, IndexError, TypeError):  # the keyword is in another document
            return ("string",)
    type_names = schema.get("type", "string") if isinstance(schema, dict) else "string"
    return [type_names] if isinstance(type_names, str) else type_names


@lru_cache(maxsize=256)
def _schema_part(text: str) -> Expr:
    """A schema as a part. It is cached, so that a grammar with this part is compiled only once."""
    schema, options = _schema(json.loads(text))
    return json_schema(schema, **options)


class _LarkRewriter:
    """Rewrites a Lark text of llguidance in guided's notation; see the module docstring.

    Args:
        parts: collects the schemas with their own options, under the names that the rewritten text uses for them.
    """

    def __init__(self, text: str, tokenizer: LLTokenizer, parts: dict[str, Any]) -> None:
        self._text, self._tokenizer, self._parts = text, tokenizer, parts

    def text(self) -> str:
        """The rewritten text. A malformed text is left unchanged, and the compiler reports the error."""
        try:
            tokens = scan(self._text)
        except SpecError:
            return self._text
        out, at = [], 0
        for token in tokens:
            source = self._rewrite_token(token)
            if source is not None:
                out += [self._text[at : token.start], source]
                at = token.end
        out.append(self._text[at:])
        options = any(token.text in ("%llguidance", "%grammar_options") for token in tokens)
        return "".join(out) + ("" if options else _START_ONLY)

    def _rewrite_token(self, token: Token) -> str | None:
        """The replacement of a token; None if it is left unchanged."""
        if token.kind == "regex":
            end = token.text.rindex("/")
            pattern = token.text[1:end]
            python = python_regex(without_anchors(pattern))
            if "|" in python:
                python = f"(?:{python})"  # otherwise the alternatives would absorb their neighbors in a terminal
            return None if python == pattern else f"/{_escape_newlines(python)}/{token.text[end + 1 :]}"
        if token.kind == "special" and token.text.startswith(("<[*", "<[^")):
            return self._with_control_tokens(token.text)
        if token.text == "%json" and "x-guidance" in token.value:
            name = f"json-{len(self._parts)}"
            self._parts[name] = _schema_part(token.value)
            return f"@{name}"
        if token.text == "%lark":
            inner = _LarkRewriter(token.value, self._tokenizer, self._parts).text()
            return f"%lark {{{inner}}}"
        return None

    def _with_control_tokens(self, source: str) -> str | None:
        """`<[*]>` or `<[^..]>` together with the control tokens, since guided's contain only tokens with text."""
        vocabulary = self._tokenizer.vocabulary
        listed_ids: set[int] = set()
        for piece in source[3:-2].split(",") if source[2] == "^" else ():
            low, _, high = piece.partition("-")
            if not low.isdecimal() or (high and not high.isdecimal()):
                return None
            listed_ids |= set(range(int(low), min(int(high or low), vocabulary.size) + 1))
        unlisted_ids = set(range(vocabulary.size)) - vocabulary.eos_token_ids - listed_ids
        unlisted_ids -= {number for number, token in enumerate(vocabulary.tokens) if token}
        return f"({source} | <[{','.join(map(str, sorted(unlisted_ids)))}]>)" if unlisted_ids else None


def _escape_newlines(pattern: str) -> str:
    """The pattern in a form that can stand between slashes on one line."""
    return pattern.replace("\n", "\\n") if "\n" in pattern else pattern


def message_of(error: GuidedError, text: str = "") -> str:
    """The message of an error. It begins with those words of llguidance's messages that programs search for."""
    if isinstance(error, LimitExceeded):
        return f"initial lexer configuration (grammar) too big: {error}"
    if isinstance(error, UnsupportedError) and error.pointer.endswith("/format"):
        return f"Unknown format: {error}"
    try:
        first = definitions_of(text)[0]
    except (SpecError, UnsupportedError):
        return str(error)
    is_regex = first.name == "regex" or (isinstance(error, SpecError) and "pattern" in error.message)
    return f"invalid regex: {error}" if is_regex and not isinstance(error, VocabularyError) else str(error)


def forces_tokens(text: str) -> bool:
    """Whether forced text must be tokenized as the tokenizer does it, instead of as the model chooses."""
    content = definitions_of(text)[0].content
    return not (isinstance(content, str) and _NOT_FORCED.search(content))


def has_ignored_text(text: str) -> bool:
    """Whether the grammar ignores some text, so that the output may end with it."""
    first = definitions_of(text)[0]
    return first.kind == "lark_grammar" and "%ignore" in first.content


def named_tokens(definitions: Sequence[Definition]) -> list[str]:
    """The names of tokens, such as `<|end|>`, in Lark texts."""
    texts = [
        definition.content
        for definition in definitions
        if definition.kind == "lark_grammar" and isinstance(definition.content, str)
    ]
    return [token.text for text in texts for token in scan_leniently(text) if token.kind == "special"]
