"""Inspects a specification without a model. In: the fields of a request. Out: the data of the answer.

| function | what it reports |
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
from guided.matching.explain.lint_findings import lint_specification
from guided.matching.explain.next_texts import explain_next
from guided.matching.least_tokens import count_min_tokens
from guided.matching.sentences import byte_vocabulary, draw_sentence
from guided.meter import limit_work
from guided.server.http.errors import RequestError, find_status, make_error_body
from guided.server.openai.requests import ConstraintFields
from guided.server.openai.structured import StructuredOutput
from guided.server.preparing import report_timeout, with_time_limit

__all__ = [
    "CheckRequest",
    "ExplainRequest",
    "SampleRequest",
    "accept_prefix",
    "check",
    "compile_or_refuse",
    "explain",
    "sample",
]

MAX_LENGTH: Final = 64 << 10
"""The maximum length of a prefix, in characters or tokens."""
_MAX_ALLOWED: Final = 1000
_MAX_SHOWN_LENGTH: Final = 2000  # characters of the shortest text
_SAMPLING_SECONDS: Final = 10.0  # time limit for all sentences of one request
_Id = Annotated[int, Field(ge=0, strict=True)]


class CheckRequest(ConstraintFields):
    """A specification. `remarks`: whether to lint it as well."""

    remarks: bool = True


class ExplainRequest(ConstraintFields):
    """What may follow `prefix`, a string or token ids, and why `text` or the token `token` may or may not follow it.

    `most`: the maximum number of allowed tokens to list.
    """

    prefix: str | Annotated[list[_Id], Field(fail_fast=True)] = Field("", max_length=MAX_LENGTH)
    text: Annotated[str, Field(max_length=MAX_LENGTH)] | None = None
    token: _Id | None = None
    most: Annotated[int, Field(ge=0, le=_MAX_ALLOWED, strict=True)] = 100


class SampleRequest(ConstraintFields):
    """`n` sentences of at most `max_length` bytes. `any_character`: use all characters, not only printable ASCII."""

    n: Annotated[int, Field(ge=1, le=100, strict=True)] = 5
    seed: Annotated[int, Field(ge=0, strict=True)] | None = None
    max_length: Annotated[int, Field(ge=0, le=4096, strict=True)] = 200
    any_character: bool = False


def require_specification(specification: StructuredOutput) -> StructuredOutput:
    """Return the specification. Raises RequestError if the request has none."""
    if specification.constraint is None:
        raise RequestError("give a specification, such as json_schema, regex, lark, gbnf or grammar")
    return specification


def compile_in_time(
    compiler: GrammarCompiler, specification: StructuredOutput, seconds: float
) -> CompiledGrammar | None:
    """Compile a specification as for generation, in at most `seconds`. None if it allows any text.

    Raises:
        CompileTimeout: it takes longer. GuidedError: the errors of `compile_constraint`.
    """
    with report_timeout(seconds):
        limited_compiler = with_time_limit(compiler, seconds)
        options: Any = dict(specification.options)
        return compile_constraint(limited_compiler, specification.constraint, options)


def compile_or_refuse(
    compiler: GrammarCompiler, specification: StructuredOutput, seconds: float
) -> CompiledGrammar | None:
    """Like `compile_in_time`, but raises RequestError with the field that contains the specification."""
    try:
        return compile_in_time(compiler, specification, seconds)
    except GuidedError as error:
        error_body = make_error_body(error, specification.param or None)["error"]
        raise RequestError(
            error_body["message"], param=error_body["param"], code=error_body["code"], status=find_status(error)
        ) from error


def check(engine: Engine, request: CheckRequest, *, allow_special_tokens: bool, seconds: float) -> dict[str, Any]:
    """Whether a specification compiles; see the module docstring.

    Raises:
        RequestError: the request has no specification. Errors inside a specification do not raise: the answer contains
            them.
    """
    fields = {name: getattr(request, name) for name in ConstraintFields.model_fields}
    try:
        specification = require_specification(request.structured_output(allow_special_tokens=allow_special_tokens))
    except RequestError as error:
        if not isinstance(error.__cause__, GuidedError):
            raise
        return _make_error_answer(error.__cause__, error.param, error.__cause__.text)
    except GuidedError as error:
        return _make_error_answer(error, *_find_first_field(fields))
    start_time = perf_counter()
    try:
        grammar = compile_in_time(engine.compiler, specification, seconds)
    except GuidedError as error:
        source = specification.source if isinstance(specification.source, str) else ""
        return _make_error_answer(error, specification.param, source) | {"kind": specification.kind}
    assert grammar is not None
    compile_seconds = perf_counter() - start_time
    shortest_text = GrammarMatcher(grammar).explain().completion.decode(errors="backslashreplace")
    min_tokens = count_min_tokens(GrammarMatcher(grammar))
    return {
        "valid": True,
        "kind": specification.kind,
        "error": None,
        "findings": [asdict(finding) for finding in grammar.findings],
        "remarks": _find_lint_findings(grammar, specification) if request.remarks else None,
        "shortest": shortest_text[:_MAX_SHOWN_LENGTH],
        "min_tokens": min_tokens.count - 1,
        "min_tokens_is_exact": min_tokens.is_exact,
        "size": {"positions": grammar.native.positions, "compile_ms": round(compile_seconds * 1e3, 3)},
        "warnings": list(specification.warnings.values()),
    }


def _make_error_answer(error: GuidedError, param: str | None, source: str) -> dict[str, Any]:
    """The answer for an invalid specification. `source`: the text that the client sent, to locate the error in it."""
    fields = fields_of(error)
    pointer, span, location = fields.get("pointer", ""), None, None
    if source and error.text == source and not error.file:
        span = error.span
    elif source and pointer:  # the client sent JSON, and the error refers to the parsed value or to a part of it
        with suppress(ValueError, RecursionError):
            span = locate(source, pointer)
    if span is not None:
        start = min(span[0], len(source))
        line, column = source.count("\n", 0, start) + 1, start - source.rfind("\n", 0, start)
        location = {"line": line, "column": column, "span": list(span)}
    error_fields = {"type": fields["type"], "message": fields["message"], "hint": error.hint, "pointer": pointer}
    return {"valid": False, "kind": "", "error": error_fields | {"place": location, "param": param}}


def _find_first_field(fields: Mapping[str, Any]) -> tuple[str | None, str]:
    """The first field that has a value, and the value if it is a string."""
    name = next((name for name, value in fields.items() if value is not None), None)
    value = fields.get(name or "")
    return name, value if isinstance(value, str) else ""


def _find_lint_findings(grammar: CompiledGrammar, specification: StructuredOutput) -> list[dict[str, Any]] | None:
    """The lint findings; None if the specification is too large to lint."""
    try:
        return [
            asdict(finding) for finding in lint_specification(grammar, specification.kind, specification.source, {})
        ]
    except (GuidedError, RecursionError):
        return None


def accept_prefix(grammar: CompiledGrammar, prefix: str | list[int], param: str) -> GrammarMatcher:
    """A matcher that has accepted a prefix.

    Raises:
        RequestError: the specification does not allow the prefix. The message says where it fails.
    """
    matcher = GrammarMatcher(grammar)
    if isinstance(prefix, str):
        if not matcher.accept_string(prefix):
            raise RequestError(f"the prefix is not allowed\n{error_location_of(grammar, prefix.encode())}", param=param)
        return matcher
    for index, token in enumerate(prefix):
        if token >= grammar.vocabulary.size or not matcher.accept_token(token):
            reason = matcher.explain(token).reason if token < grammar.vocabulary.size else "there is no such token"
            raise RequestError(
                f"token {index}, with the id {token}, is not allowed: {reason}", param=f"{param}.{index}"
            )
    return matcher


def explain(engine: Engine, request: ExplainRequest, *, allow_special_tokens: bool, seconds: float) -> dict[str, Any]:
    """What may follow a prefix; see the module docstring.

    Raises:
        RequestError, GuidedError: the specification, the prefix or the token is invalid.
    """
    if request.text is not None and request.token is not None:
        raise RequestError("give text or token, not both", param="token")
    vocabulary = engine.vocabulary
    if request.token is not None and request.token >= vocabulary.size:
        raise RequestError(f"token must be an id from 0 to {vocabulary.size - 1}", param="token")
    grammar = compile_or_refuse(
        engine.compiler,
        require_specification(request.structured_output(allow_special_tokens=allow_special_tokens)),
        seconds,
    )
    assert grammar is not None
    matcher = accept_prefix(grammar, request.prefix, "prefix")
    if isinstance(request.prefix, str):
        prefix = request.prefix.encode()
    else:
        prefix = b"".join(vocabulary.token_bytes(token) or b"" for token in request.prefix)
    next_step = explain_next(matcher, prefix, request.token if request.text is None else request.text.encode())
    return next_step.fields(request.most) | {"allowed": len(next_step.allowed)}


def sample(request: SampleRequest, *, seconds: float) -> dict[str, Any]:
    """Random sentences over the byte vocabulary.

    Raises:
        RequestError, GuidedError: the specification is invalid.
        RequestError: no sentence is short enough, or sampling takes too long.
    """
    specification = require_specification(request.structured_output(allow_special_tokens=False))
    grammar = compile_or_refuse(GrammarCompiler(byte_vocabulary()), specification, seconds)
    assert grammar is not None
    min_length = GrammarMatcher(grammar).min_tokens_to_finish() - 1
    if min_length > request.max_length:
        message = f"the shortest text has {min_length} bytes: set max_length to {min_length} or more"
        raise RequestError(message, param="max_length")
    seed = secrets.randbits(32) if request.seed is None else request.seed
    generator, texts = random.Random(seed), list[str]()
    try:
        with limit_work(_SAMPLING_SECONDS):
            for _ in range(request.n):
                texts.append(draw_sentence(grammar, generator, request.max_length, request.any_character))
    except LimitExceeded as error:
        if error.limit != "seconds":
            raise
        message = (
            f"only {len(texts)} of {request.n} texts were generated within {_SAMPLING_SECONDS:g} seconds: request fewer"
        )
        raise RequestError(message, param="n") from None
    return {"seed": seed, "texts": texts}
