"""The front end for structural tags: xgrammar's JSON format for text with constrained parts, and vLLM's older one.

    {"type": "structural_tag", "format": {
        "type": "triggered_tags", "triggers": ["<tool>"],
        "tags": [{"begin": "<tool>", "content": {"type": "json_schema", "json_schema": {...}}, "end": "</tool>"}]}}

How: `formats.py` lists the formats and their fields, `reader.py` reads and checks them, `lower.py` defines their
meaning, and `arguments.py` writes the arguments of calls in styles other than JSON. `styles/` contains data files that
describe how families of models write tool calls and reasoning. `tool_styles.py` turns these descriptions into
structural tags, and `calls.py` reads the calls back.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from guided.errors import Finding, LimitExceeded, SpecError, UnsupportedError, brief
from guided.frontends.combinators import Expr, ReadPart, copy_schema
from guided.frontends.common.plain_values import to_plain
from guided.frontends.composition import expr_to_grammar
from guided.frontends.json_schema.documents.source_spans import locate
from guided.frontends.json_schema.options import DEFAULTS, JsonSchemaOptions
from guided.frontends.lark import read_lark
from guided.frontends.structural_tag.embedded import ReadLark
from guided.frontends.structural_tag.lower import Lowering
from guided.frontends.structural_tag.reader import read_structural_tag
from guided.ir.nodes import Grammar
from guided.keywords import keywords_checked, read_items
from guided.limits import Limits
from guided.meter import limit_compilation

__all__ = ["structural_tag", "structural_tag_to_grammar"]


def structural_tag_to_grammar(
    spec: str | Mapping[str, Any],
    options: JsonSchemaOptions = DEFAULTS,
    *,
    allow_special_tokens: bool = False,
    special_tokens: Collection[str] = (),
    end_tokens: Collection[str] = (),
    limits: Limits | None = None,
    findings: list[Finding] | None = None,
    require_values: bool = True,
    defer: bool = False,
    read_lark: ReadLark = read_lark,
) -> Grammar:
    """The grammar of a structural tag, which is JSON text, or a dict as returned by `json.loads`.

    Args:
        options: the options for JSON Schemas.
        allow_special_tokens: whether the structural tag may require control tokens in the output. Set it to False for
            untrusted input. Tags may always name tokens to exclude.
        special_tokens: names of control tokens; in a string of the structural tag, such a name stands for the token.
        end_tokens: those of these names that end an output; they do not occur in deferred rules.
        findings: receives the keywords that are read but not enforced. Without it, they cause a warning.
        require_values: if a GBNF grammar in the structural tag allows nothing, raise an error that explains why.
        read_lark: reads the Lark grammars in the structural tag.
        defer: if there are many schemas, compile those without errors or warnings only when a matcher reaches them.

    Raises:
        SpecError: the structural tag is malformed, or names a token without permission.
        UnsupportedError: a part is not supported. LimitExceeded: it is too long, nests too deeply or has a part that is
            too large.
    """
    limits, spec = Limits() if limits is None else limits, to_plain(spec)
    defer = defer and limits.are_at_least_default  # a part might exceed smaller limits, which must be reported now
    try:
        with limit_compilation(limits, work=False):
            parsed = read_structural_tag(spec, limits)
            lowering = Lowering(
                limits, special_tokens, end_tokens, allow_special_tokens, require_values, options, read_lark
            )
            grammar = expr_to_grammar(lowering.part(parsed), limits, findings, options=options, defer=defer)
        return replace(grammar, origins={**grammar.origins, grammar.start: parsed.pointer})
    except RecursionError:
        raise LimitExceeded("depth", limits.depth + 1, limits.depth) from None
    except (SpecError, UnsupportedError) as error:
        if isinstance(spec, str) and not error.text and (error.pointer == "" or error.pointer.startswith("/")):
            error.text, error.span = spec, locate(spec, error.pointer)
        raise


@keywords_checked()
def structural_tag(
    spec: str | Mapping[str, Any], *, allow_special_tokens: bool = False, special_tokens: Collection[str] = ()
) -> Expr:
    """A structural tag as a part of a specification; see `GrammarCompiler.compile_structural_tag`.

    `special_tokens`: the names that stand for control tokens in its strings; a part cannot look them up in a
        vocabulary.
    """
    if not isinstance(spec, str | Mapping):
        raise SpecError(
            f"a structural tag is an object or JSON text, not {brief(spec)}",
            hint='write {"type": "structural_tag", "format": {...}}',
        )
    names, own_spec = frozenset(read_items("special_tokens", special_tokens)), copy_schema(spec)

    def read(limits: Limits, default_options: JsonSchemaOptions, findings: list[Finding]) -> Grammar:
        return structural_tag_to_grammar(
            own_spec,
            default_options,
            allow_special_tokens=allow_special_tokens,
            special_tokens=names,
            limits=limits,
            findings=findings,
        )

    return ReadPart(read, "structural_tag", spec)
