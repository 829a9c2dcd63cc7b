"""Inspects a specification without a model. In: the fields of a request. Out: data for an answer.

| function | answers |
|---|---|
| `check` | whether it compiles, or where and why it fails; lint findings; its size and shortest text |
| `explain` | what may follow a prefix, and why a text or a token may not |
| `sample` | random sentences |

These functions block. `guided.Limits` and the maximum values of request fields bound their cost.
"""

from __future__ import annotations

import random
import secrets
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from time import perf_counter
from typing import Annotated, Any, Final

from pydantic import Field

from guided.engine import Engine
from guided.errors import GuidedError, LimitExceeded, fields_of
from guided.frontends.json_schema.documents.source_spans import locate
from guided.matching import CompiledGrammar, GrammarCompiler, GrammarMatcher
from guided.matching.constraint import compile_constraint
from guided.matching.explain.error_location import error_location_of
from guided.matching.explain.lint_findings import lint_findings_of
from guided.matching.explain.next_texts import next_texts
from guided.matching.least_tokens import least_tokens
from guided.matching.sentences import byte_vocabulary, sentence
from guided.meter import metered
from guided.server.http.errors import RequestError, body_of, status_of
from guided.server.openai.requests import Specified
from guided.server.openai.structured import Structured
from guided.server.preparing import bounded, in_time

__all__ = ["CheckRequest", "ExplainRequest", "SampleRequest", "accepted", "check", "explain", "grammar_of", "sample"]

LONGEST: Final = 64 << 10
"""Characters or tokens of a prefix."""
_MOST_ALLOWED: Final = 1000
_SHOWN: Final = 2000  # characters of the shortest text
_SECONDS: Final = 10.0  # for the sentences of one request
_Id = Annotated[int, Field(ge=0, strict=True)]


class CheckRequest(Specified):
    """A specification. `remarks`: say what may go wrong in generation, too."""

    remarks: bool = True


class ExplainRequest(Specified):
    """What may follow `prefix`, a text or token ids; why `text`, or the token with the id `token`, may or may not.
    `most`: how many allowed tokens are listed."""

    prefix: str | Annotated[list[_Id], Field(fail_fast=True)] = Field("", max_length=LONGEST)
    text: Annotated[str, Field(max_length=LONGEST)] | None = None
    token: _Id | None = None
    most: Annotated[int, Field(ge=0, le=_MOST_ALLOWED, strict=True)] = 100


class SampleRequest(Specified):
    """`n` sentences of at most `max_length` bytes. `any_character`: not only the usual ones."""

    n: Annotated[int, Field(ge=1, le=100, strict=True)] = 5
    seed: Annotated[int, Field(ge=0, strict=True)] | None = None
    max_length: Annotated[int, Field(ge=0, le=4096, strict=True)] = 200
    any_character: bool = False


def needed(asked: Structured) -> Structured:
    """The specification. Raises RequestError if the request has none."""
    if asked.constraint is None:
        raise RequestError("give a specification, such as json_schema, regex, lark, gbnf or grammar")
    return asked


def compiled(compiler: GrammarCompiler, asked: Structured, seconds: float) -> CompiledGrammar | None:
    """Compile a specification as for generation, in at most `seconds`. None: any text is allowed.

    Raises:
        CompileTimeout: the time is over. Also whatever `compile_constraint` raises.
    """
    with in_time(seconds):
        own = bounded(compiler, seconds)
        return compile_constraint(own, asked.constraint, dict(asked.options))  # type: ignore[arg-type]


def grammar_of(compiler: GrammarCompiler, asked: Structured, seconds: float) -> CompiledGrammar | None:
    """As `compiled`, but raises RequestError, which names the field of the specification."""
    try:
        return compiled(compiler, asked, seconds)
    except GuidedError as error:
        told = body_of(error, asked.param or None)["error"]
        raise RequestError(told["message"], param=told["param"], code=told["code"], status=status_of(error)) from error


def check(engine: Engine, request: CheckRequest, *, allow_special_tokens: bool, seconds: float) -> dict[str, Any]:
    """Whether a specification compiles; see the head.

    Raises:
        RequestError: the request holds no specification. Errors inside a specification are part of the answer.
    """
    given = {name: getattr(request, name) for name in Specified.model_fields}
    try:
        asked = needed(request.asked(allow_special_tokens=allow_special_tokens))
    except RequestError as error:
        if not isinstance(error.__cause__, GuidedError):
            raise
        return _refused(error.__cause__, error.param, error.__cause__.text)
    except GuidedError as error:
        return _refused(error, *_only_text(given))
    begin = perf_counter()
    try:
        grammar = compiled(engine.compiler, asked, seconds)
    except GuidedError as error:
        source = asked.source if isinstance(asked.source, str) else ""
        return _refused(error, asked.param, source) | {"kind": asked.kind}
    assert grammar is not None
    took = perf_counter() - begin
    shortest = GrammarMatcher(grammar).explain()
    text = shortest.completion.decode(errors="backslashreplace")
    least = least_tokens(GrammarMatcher(grammar))
    return {
        "valid": True,
        "kind": asked.kind,
        "error": None,
        "findings": [asdict(finding) for finding in grammar.findings],
        "remarks": _remarks(grammar, asked) if request.remarks else None,
        "shortest": text[:_SHOWN],
        "min_tokens": least.count - 1,
        "min_tokens_is_exact": least.is_exact,
        "size": {"positions": grammar.native.positions, "compile_ms": round(took * 1e3, 3)},
        "warnings": list(asked.warnings.values()),
    }


def _refused(error: GuidedError, param: str | None, source: str) -> dict[str, Any]:
    """Why a specification is refused, with the location in `source`, the text that the client sent."""
    fields = fields_of(error)
    pointer, span, place = fields.get("pointer", ""), None, None
    if source and error.text == source and not error.file:
        span = error.span
    elif source and pointer:  # of JSON that was parsed before, or whose part was parsed separately
        with suppress(ValueError, RecursionError):
            span = locate(source, pointer)
    if span is not None:
        start = min(span[0], len(source))
        line, column = source.count("\n", 0, start) + 1, start - source.rfind("\n", 0, start)
        place = {"line": line, "column": column, "span": list(span)}
    told = {"type": fields["type"], "message": fields["message"], "hint": error.hint, "pointer": pointer}
    return {"valid": False, "kind": "", "error": told | {"place": place, "param": param}}


def _only_text(given: Mapping[str, Any]) -> tuple[str | None, str]:
    """The only field given, and its text."""
    name = next((name for name, value in given.items() if value is not None), None)
    value = given.get(name or "")
    return name, value if isinstance(value, str) else ""


def _remarks(grammar: CompiledGrammar, asked: Structured) -> list[dict[str, Any]] | None:
    """The lint findings; None: the specification is too large to lint."""
    try:
        return [asdict(each) for each in lint_findings_of(grammar, asked.kind, asked.source, {})]
    except (GuidedError, RecursionError):
        return None


def accepted(grammar: CompiledGrammar, prefix: str | list[int]) -> GrammarMatcher:
    """A matcher that has read a prefix.

    Raises:
        RequestError: the specification does not allow the prefix; the message says where.
    """
    matcher = GrammarMatcher(grammar)
    if isinstance(prefix, str):
        if not matcher.accept_string(prefix):
            raise RequestError(
                f"the prefix is not allowed\n{error_location_of(grammar, prefix.encode())}", param="prefix"
            )
        return matcher
    for at, token in enumerate(prefix):
        if token >= grammar.vocabulary.size or not matcher.accept_token(token):
            reason = matcher.explain(token).reason if token < grammar.vocabulary.size else "there is no such token"
            raise RequestError(f"token {at}, with the id {token}, is not allowed: {reason}", param=f"tokens.{at}")
    return matcher


def explain(engine: Engine, request: ExplainRequest, *, allow_special_tokens: bool, seconds: float) -> dict[str, Any]:
    """What may follow a prefix; see the head.

    Raises:
        RequestError, GuidedError: the specification, the prefix or the token is invalid.
    """
    if request.text is not None and request.token is not None:
        raise RequestError("text and token both ask what may follow: give one", param="token")
    vocabulary = engine.vocabulary
    if request.token is not None and request.token >= vocabulary.size:
        raise RequestError(f"token is an id from 0 to {vocabulary.size - 1}", param="token")
    grammar = grammar_of(engine.compiler, needed(request.asked(allow_special_tokens=allow_special_tokens)), seconds)
    assert grammar is not None
    matcher = accepted(grammar, request.prefix)
    if isinstance(request.prefix, str):
        prefix = request.prefix.encode()
    else:
        prefix = b"".join(vocabulary.token_bytes(token) or b"" for token in request.prefix)
    found = next_texts(matcher, prefix, request.token if request.text is None else request.text.encode())
    return found.fields(request.most) | {"allowed": len(found.allowed)}


def sample(request: SampleRequest, *, seconds: float) -> dict[str, Any]:
    """Random sentences over the byte vocabulary.

    Raises:
        RequestError: no sentence is short enough, or sampling takes too long.
        GuidedError: the specification is invalid.
    """
    asked = needed(request.asked(allow_special_tokens=False))
    grammar = grammar_of(GrammarCompiler(byte_vocabulary()), asked, seconds)
    assert grammar is not None
    shortest = GrammarMatcher(grammar).min_tokens_to_finish() - 1
    if shortest > request.max_length:
        message = f"the shortest text has {shortest} bytes: give max_length={shortest} at least"
        raise RequestError(message, param="max_length")
    seed = secrets.randbits(32) if request.seed is None else request.seed
    generator, texts = random.Random(seed), list[str]()
    try:
        with metered(_SECONDS):
            for _ in range(request.n):
                texts.append(sentence(grammar, generator, request.max_length, request.any_character))
    except LimitExceeded as error:
        if error.limit != "seconds":
            raise
        message = f"{_SECONDS:g} seconds were enough for {len(texts)} of {request.n} texts: ask for fewer"
        raise RequestError(message, param="n") from None
    return {"seed": seed, "texts": texts}
