"""Grammars as llguidance takes them: a text that is a Lark grammar, or JSON with one or more grammars. In: such a text
and a tokenizer. Out: a compiled grammar.

    {"grammars": [{"lark_grammar": "start: @b"}, {"name": "b", "json_schema": {...}}]}

A grammar in GBNF is `{"grammars": [{"gbnf_grammar": "root ::= ..."}]}` here, and is read as llama.cpp reads it.

How: a Lark text is compiled with `semantics="scannerless"`, which accepts every way to cut a text into lexemes,
including llguidance's with the longest lexemes. Regular expressions are rewritten from Rust's notation
(`rust_regex.py`). Schemas with their own options become parts, and `<[*]>` includes the control tokens.
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
from guided.frontends.lark.scan import Token, scan, words
from guided.limits import Limits
from guided.matching.compiled import CompiledGrammar

__all__ = ["Definition", "compiled", "definition_of", "forces", "ignores", "message_of", "named_tokens"]

_KINDS: Final = ("lark_grammar", "json_schema", "gbnf_grammar")
_NOT_FORCED: Final = re.compile(r'"no_forcing"\s*:\s*true')
_NO_FINAL_SKIP: Final = '\n%llguidance {"allow_final_skip": false}\n'
_START_ONLY: Final = "\n%llguidance {}\n"


@dataclass(frozen=True, slots=True)
class Definition:
    """A grammar of a text.

    Attributes:
        name: its name, for `@name`; "" if it has none.
        kind: "lark_grammar", "json_schema" or "gbnf_grammar".
        content: the text, or the schema.
    """

    name: str
    kind: str
    content: Any


def definition_of(text: str) -> tuple[Definition, ...]:
    """The grammars of a text. The first one is the grammar of the output.

    Raises:
        SpecError: the text is malformed. UnsupportedError: it limits the number of tokens.
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
            hint="count the tokens, or limit a rule by rule[max_tokens=...]",
        )  # fmt: skip
    return tuple(_definition(each, number) for number, each in enumerate(grammars))


def _definition(given: Any, number: int) -> Definition:
    pointer = f"/grammars/{number}"
    if not isinstance(given, dict):
        raise SpecError("a grammar is an object", pointer=pointer)
    kinds = [kind for kind in _KINDS if given.get(kind) is not None]
    if len(kinds) > 1:
        raise SpecError(f"cannot have both {kinds[0]} and {kinds[1]}", pointer=pointer)
    if not kinds:
        raise SpecError(f"a grammar has one of {', '.join(_KINDS)}", pointer=pointer)
    return Definition(str(given.get("name") or ""), kinds[0], given[kinds[0]])


def compiled(text: str, tokenizer: LLTokenizer, limits: Limits, final_skip: bool = True) -> CompiledGrammar:
    """Compile the grammar of a text.

    Args:
        final_skip: whether ignored text may come at the end of the output of a Lark grammar.

    Raises:
        GuidedError: the text or a part of it is invalid, or exceeds the limits; see `GrammarCompiler`.
    """
    first, *others = definition_of(text)
    compiler = tokenizer.compiler(limits)
    if first.kind == "gbnf_grammar":
        return compiler.compile_gbnf(first.content, allow_special_tokens=True)
    if first.kind == "json_schema":
        schema, options = _schema(first.content)
        found = compiler.compile_json_schema(schema, **{**options, "unknown_format": "warn"})
        if options["unknown_format"] == "refuse":
            _refuse_formats(schema, found.findings)
        return found
    parts: dict[str, Any] = {each.name: _part(each, tokenizer) for each in others if each.name}
    lark = _Rewritten(first.content, tokenizer, parts).text()
    lark += "" if final_skip else _NO_FINAL_SKIP
    return compiler.compile_lark(
        lark, semantics="scannerless", grammars=parts, allow_special_tokens=True, **schema_options({})
    )


def _part(definition: Definition, tokenizer: LLTokenizer) -> Any:
    if definition.kind == "json_schema":
        return _embedded(json.dumps(definition.content))
    if definition.kind == "gbnf_grammar":
        return gbnf(definition.content, allow_special_tokens=True)
    return _Rewritten(definition.content, tokenizer, {}).text()


def _schema(content: Any) -> tuple[Any, Any]:
    """A schema without its options, and the options."""
    if not isinstance(content, dict):
        return content, schema_options({})
    given = content.get("x-guidance")
    if given is not None and not isinstance(given, Mapping):
        raise SpecError("x-guidance is an object of options", pointer="/x-guidance")
    return {key: value for key, value in content.items() if key != "x-guidance"}, schema_options(given or {})


def _refuse_formats(schema: Any, findings: Sequence[Finding]) -> None:
    """Raises UnsupportedError for a format that is not enforced, unless no string is allowed there anyway."""
    for finding in findings:
        if finding.keyword == "format" and "string" in _types(schema, finding.pointer):
            raise UnsupportedError(finding.reason, pointer=finding.pointer, hint=finding.hint)


def _types(schema: Any, pointer: str) -> Sequence[str]:
    """The value of `type` beside the keyword at a pointer; "string" without it, since strings are then allowed."""
    for part in pointer.split("/")[1:-1]:
        name = unquote(part).replace("~1", "/").replace("~0", "~")
        try:
            schema = schema[int(name)] if isinstance(schema, list) else schema[name]
        except (KeyError, ValueError, IndexError, TypeError):  # in another document
            return ("string",)
    named = schema.get("type", "string") if isinstance(schema, dict) else "string"
    return [named] if isinstance(named, str) else named


@lru_cache(maxsize=256)
def _embedded(text: str) -> Expr:
    """A schema as a part. It is cached, so a grammar with it is compiled once."""
    schema, options = _schema(json.loads(text))
    return json_schema(schema, **options)


class _Rewritten:
    """A Lark text of llguidance in the notation of guided; see the module docstring.

    Args:
        parts: collects the schemas with their own options, by the names that the rewritten text uses for them.
    """

    def __init__(self, text: str, tokenizer: LLTokenizer, parts: dict[str, Any]) -> None:
        self._text, self._tokenizer, self._parts = text, tokenizer, parts

    def text(self) -> str:
        """The rewritten text. A malformed text is not changed; the compiler reports the error."""
        try:
            tokens = scan(self._text)
        except SpecError:
            return self._text
        out, at = [], 0
        for token in tokens:
            written = self._rewrite_token(token)
            if written is not None:
                out += [self._text[at : token.start], written]
                at = token.end
        out.append(self._text[at:])
        options = any(token.text in ("%llguidance", "%grammar_options") for token in tokens)
        return "".join(out) + ("" if options else _START_ONLY)

    def _rewrite_token(self, token: Token) -> str | None:
        """The replacement of a token; None: it is not changed."""
        if token.kind == "regex":
            end = token.text.rindex("/")
            pattern = token.text[1:end]
            python = python_regex(without_anchors(pattern))
            if "|" in python:
                python = f"(?:{python})"  # otherwise its neighbors in a terminal would become parts of an alternative
            return None if python == pattern else f"/{_escaped(python)}/{token.text[end + 1 :]}"
        if token.kind == "special" and token.text.startswith(("<[*", "<[^")):
            return self._all_tokens(token.text)
        if token.text == "%json" and "x-guidance" in token.value:
            name = f"json-{len(self._parts)}"
            self._parts[name] = _embedded(token.value)
            return f"@{name}"
        if token.text == "%lark":
            inner = _Rewritten(token.value, self._tokenizer, self._parts).text()
            return f"%lark {{{inner}}}"
        return None

    def _all_tokens(self, written: str) -> str | None:
        """In guided, `<[*]>` and `<[^..]>` contain only tokens with text, so this adds the control tokens."""
        vocabulary = self._tokenizer.vocabulary
        listed: set[int] = set()
        for piece in written[3:-2].split(",") if written[2] == "^" else ():
            low, _, high = piece.partition("-")
            if not low.isdecimal() or (high and not high.isdecimal()):
                return None
            listed |= set(range(int(low), min(int(high or low), vocabulary.size) + 1))
        without = set(range(vocabulary.size)) - vocabulary.eos_token_ids - listed
        without -= {number for number, token in enumerate(vocabulary.tokens) if token}
        return f"({written} | <[{','.join(map(str, sorted(without)))}]>)" if without else None


def _escaped(pattern: str) -> str:
    """A pattern that can be written between slashes on one line."""
    return pattern.replace("\n", "\\n") if "\n" in pattern else pattern


def message_of(error: GuidedError, text: str = "") -> str:
    """The text of an error. It begins with the words of llguidance's messages that programs search for."""
    if isinstance(error, LimitExceeded):
        return f"initial lexer configuration (grammar) too big: {error}"
    if isinstance(error, UnsupportedError) and error.pointer.endswith("/format"):
        return f"Unknown format: {error}"
    try:
        first = definition_of(text)[0]
    except (SpecError, UnsupportedError):
        return str(error)
    is_regex = first.name == "regex" or (isinstance(error, SpecError) and "pattern" in error.message)
    return f"invalid regex: {error}" if is_regex and not isinstance(error, VocabularyError) else str(error)


def forces(text: str) -> bool:
    """Whether forced text is written as the tokenizer spells it, instead of as the model chooses."""
    content = definition_of(text)[0].content
    return not (isinstance(content, str) and _NOT_FORCED.search(content))


def ignores(text: str) -> bool:
    """Whether the output may end with ignored text."""
    first = definition_of(text)[0]
    return first.kind == "lark_grammar" and "%ignore" in first.content


def named_tokens(definitions: Sequence[Definition]) -> list[str]:
    """The tokens of the vocabulary that Lark texts name."""
    texts = [each.content for each in definitions if each.kind == "lark_grammar" and isinstance(each.content, str)]
    return [token.text for text in texts for token in words(text) if token.kind == "special"]
