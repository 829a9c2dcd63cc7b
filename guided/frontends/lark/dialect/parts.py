"""Resolves the names that a `PlainLark` grammar (`plain.py`) only declares for Lark. In: the grammar as Lark's loader
has read it. Out: this grammar with a node or a grammar for each declared name.

Attributes of a rule whose body is a terminal T:

    lazy          the texts of T that do not begin with a shorter text of T
    suffix=S      the texts of T followed by S that do not begin with a shorter such text
    stop=S        the texts of T that contain no text of S. The rules may require S afterwards, but need not. Unlike
                  llguidance, guided does not remove the text of S from the output
    max_chars=n   at most n characters
    max_tokens=n  at most n tokens (`MaxTokens` in the IR)

Security: a grammar may require tokens of the vocabulary only with permission, because an untrusted grammar could end a
turn.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from guided.errors import Finding, GuidedError, LimitExceeded, SpecError, UnsupportedError
from guided.frontends.common.nullable import is_nullable
from guided.frontends.json_schema import json_schema_to_grammar
from guided.frontends.json_schema.options import JsonSchemaOptions
from guided.frontends.lark.loader import LoadedGrammar, LoadedTerminal
from guided.frontends.lark.scan import Token
from guided.frontends.lark.sources import DefinedName
from guided.frontends.lark.terminals import build_terminal_node
from guided.frontends.regex import parse_regex
from guided.frontends.regex.algebra import alt, seq
from guided.ir.nodes import EMPTY, Ending, Grammar, Length, Node, OtherTokens, Region, Special
from guided.ir.ranges import Ranges
from guided.limits import Limits
from guided.meter import spend

from .attributes import RegionSource, TerminalSource
from .expressions import Expression, decode_string, exclude_text, keep_shortest_matches
from .plain import PlainLark

__all__ = ["Context", "needs_scannerless", "resolve_parts"]

_MAX_IDS: Final = 1_000_000
_WORK_PER_ID: Final = 60  # about 0.6 us and 100 bytes
_ID_RANGE: Final = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?")


@dataclass(frozen=True)
class Context:
    """The named grammars, options and permissions with which a grammar is read.

    Attributes:
        grammars: name -> a Lark grammar, a JSON Schema as a dict, or a specification.
        read_grammar: reads a Lark grammar in this context. The second argument is added to `chain`.
        embed_grammar: returns the IR grammar of another specification.
        chain: the names of the enclosing grammars.
    """

    limits: Limits
    grammars: Mapping[str, Any]
    allow_special_tokens: bool
    options: JsonSchemaOptions
    findings: list[Finding]
    read_grammar: Callable[[str, str], Grammar]
    embed_grammar: Callable[[Any], Grammar]
    chain: tuple[str, ...] = ()


def resolve_parts(plain_grammar: PlainLark, loaded_grammar: LoadedGrammar, context: Context) -> LoadedGrammar:
    """See the module docstring.

    Raises:
        SpecError, UnsupportedError, LimitExceeded: a part is invalid. The error has the location in the grammar.
    """
    terminals = _Terminals(plain_grammar, loaded_grammar.terminals, context.limits)
    terminals_by_name = {
        name: replace(terminal, uses_fullmatch=plain_grammar.uses_fullmatch)
        for name, terminal in loaded_grammar.terminals.items()
    }
    for name, source in plain_grammar.terminals.items():
        text = plain_grammar.source[source.tokens[0].start : source.tokens[-1].end] if source.tokens else ""
        node, is_lazy = terminals.make_node(source, name), source.lazy or source.suffix is not None
        terminals_by_name[name] = LoadedTerminal(
            name, "", False, 0, text, frozenset(), text, node, is_lazy, source.max_tokens, text
        )
    regions = {
        name: _make_region(plain_grammar, plain_grammar.regions[base_name], terminals)
        for name in loaded_grammar.rules
        if (base_name := name.split("{")[0]) in plain_grammar.regions
    }
    sources = loaded_grammar.sources.restore_original(plain_grammar.source, plain_grammar.original_span)
    spans = {
        name: (terminal.tokens[0].start, terminal.tokens[-1].end)
        for name, terminal in plain_grammar.terminals.items()
        if terminal.tokens
    }
    for name, span in (spans | {name: token.span for name, token in plain_grammar.parts.items()}).items():
        sources.definitions[name] = DefinedName(plain_grammar.source[slice(*span)], sources.texts[0], span)
    parts = {name: _resolve_part(plain_grammar.source, token, context) for name, token in plain_grammar.parts.items()}
    original_parts = {
        name: plain_grammar.source[token.start : token.end] for name, token in plain_grammar.parts.items()
    }
    return replace(
        loaded_grammar,
        text=plain_grammar.source,
        terminals=terminals_by_name,
        lines=plain_grammar.lines,
        parts=parts,
        original_parts=original_parts,
        initial_skip=plain_grammar.initial_skip,
        final_skip=plain_grammar.final_skip,
        skip_once=plain_grammar.skip_once,
        regions=regions,
        sources=sources,
    )


def _make_region(plain_grammar: PlainLark, source: RegionSource, terminals: _Terminals) -> Region:
    attributes = source.attributes
    definition = plain_grammar.terminals.get(source.terminal)
    ending = None
    if definition is not None and definition.suffix is not None:
        stop_capture = attributes.get("stop_capture")
        body, suffix = terminals.read_expression(definition.tokens), terminals.read_expression((definition.suffix,))
        ending = Ending(body, suffix, "" if stop_capture is None else decode_string(plain_grammar.source, stop_capture))
    name = attributes.get("capture")
    capture = source.rule.text if name is None else decode_string(plain_grammar.source, name)
    temperature = attributes.get("temperature")
    return Region(
        capture if "capture" in attributes else "", ending, None if temperature is None else float(temperature.text)
    )


def needs_scannerless(loaded_grammar: LoadedGrammar, limits: Limits) -> bool:
    """Whether a lexer cannot be used: a terminal may be empty, or options restrict where ignored terminals may come."""
    if not loaded_grammar.initial_skip or not loaded_grammar.final_skip or loaded_grammar.skip_once:
        return True
    return any(_may_be_empty(terminal, limits) for terminal in loaded_grammar.terminals.values())


def _may_be_empty(terminal: LoadedTerminal, limits: Limits) -> bool:
    if terminal.node is None and (terminal.is_string or (terminal.width is not None and terminal.width[0] > 0)):
        return not terminal.value  # a pattern is never the empty string
    try:
        return is_nullable(build_terminal_node(terminal, limits))
    except (SpecError, UnsupportedError):  # it is reported when the terminal is read for the result
        return False


class _Terminals:
    """Reads the expressions of terminals that are only declared for Lark."""

    def __init__(
        self, plain_grammar: PlainLark, loaded_terminals: Mapping[str, LoadedTerminal], limits: Limits
    ) -> None:
        self.plain_grammar, self.loaded_terminals, self.limits = plain_grammar, loaded_terminals, limits
        self.nodes_by_name: dict[str, Node] = {}
        self.open_names: list[str] = []

    def make_node(self, source: TerminalSource, name: str) -> Node:
        node = self.read_expression(source.tokens)
        if source.suffix is not None:
            node = keep_shortest_matches(seq([node, self.read_expression((source.suffix,))]), name)
        elif source.lazy:
            node = keep_shortest_matches(node, name)
        if source.stop is not None:
            node = exclude_text(node, self.read_expression((source.stop,)))
        return node if source.max_chars is None else Length(node, 0, source.max_chars)

    def read_expression(self, tokens: tuple[Token, ...]) -> Node:
        return Expression(self.plain_grammar.source, tokens, self._resolve_name, self.limits).read()

    def _resolve_name(self, token: Token) -> Node:
        name = token.text
        if name not in self.nodes_by_name:
            if name in self.open_names:
                chain = " -> ".join([*self.open_names[self.open_names.index(name) :], name])
                raise _error(
                    self.plain_grammar.source, f"the terminal {name} contains itself: {chain}", token, "use rules"
                )
            self.open_names.append(name)
            if name in self.plain_grammar.definitions:
                self.nodes_by_name[name] = self.read_expression(self.plain_grammar.definitions[name])
            elif name in self.loaded_terminals:
                self.nodes_by_name[name] = parse_regex(self.loaded_terminals[name].source, limits=self.limits)
            else:
                raise _error(
                    self.plain_grammar.source, f"the terminal {name} is not defined", token, f"define it: {name}: ..."
                )
            self.open_names.pop()
        return self.nodes_by_name[name]


def _resolve_part(source: str, token: Token, context: Context) -> Node | Grammar:
    match token.kind, token.text:
        case "special", _:
            return _make_special(source, token, context)
        case "reference", _:
            return _read_named_grammar(source, token, context)
        case _, "%json" | "%lark" as directive:
            try:
                if directive == "%lark":
                    return context.read_grammar(token.value, "%lark")
                new_findings: list[Finding] = []
                grammar = json_schema_to_grammar(
                    token.value, context.options, limits=context.limits, findings=new_findings
                )
                context.findings.extend(new_findings)
                return grammar
            except (SpecError, UnsupportedError) as error:
                raise _relocate_error(error, source, token) from None
    return EMPTY


def _read_named_grammar(source: str, token: Token, context: Context) -> Grammar:
    name = token.text[1:]
    if name not in context.grammars:
        hint = (
            f"the grammars are {', '.join(context.grammars):.200}" if context.grammars else "pass grammars={name: text}"
        )
        raise _error(source, f"there is no grammar {name!r}", token, hint)
    if token.text in context.chain:
        chain = " -> ".join([*context.chain[context.chain.index(token.text) :], token.text])
        raise _error(source, f"the grammar {name} contains itself: {chain}", token, "write the recursion as rules")
    grammar = context.grammars[name]
    try:
        return context.read_grammar(grammar, token.text) if isinstance(grammar, str) else context.embed_grammar(grammar)
    except GuidedError as error:
        error.add_note(f"in the grammar @{name}")
        raise


def _make_special(source: str, token: Token, context: Context) -> Node:
    inner_text = token.text[1:-1]
    is_list = inner_text.startswith("[") and inner_text.endswith("]")
    is_negated = is_list and inner_text[1] in "*^"
    ranges = _read_id_ranges(source, token, inner_text[1:-1]) if is_list else ()
    if not is_negated and not context.allow_special_tokens:
        raise _error(
            source, "references to tokens by name or id are not allowed in this call", token,
            "put text in quotes to match it literally; allow_special_tokens=True allows control tokens",
        )  # fmt: skip
    references: tuple[int | str, ...] = _list_ids(source, token, ranges) if is_list else (token.text,)
    return OtherTokens(references, 1, 1) if is_negated else alt([Special(reference) for reference in references])


def _read_id_ranges(source: str, token: Token, content: str) -> Ranges:
    """The ids in a token such as `<[1,5-9]>` or, for all other ids, `<[^1,5-9]>`. `content`: without the brackets."""
    if content == "*":
        return ()
    ranges: list[tuple[int, int]] = []
    for piece in content.removeprefix("^").split(","):
        match = _ID_RANGE.fullmatch(piece)
        low, high = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if high < low or high - low > _MAX_IDS:
            hint = "write <[128000]>, <[1,5-9]>, <[^1,5-9]> for all others, or <[*]> for all"
            raise _error(source, f"{piece!r} is not an id or a range of ids", token, hint)
        ranges.append((low, high))
    return tuple(ranges)


def _list_ids(source: str, token: Token, ranges: Ranges) -> tuple[int, ...]:
    """The ids in `ranges`, each of them once. Their number counts as work, because few characters may list many ids."""
    out: list[int] = []
    for low, high in sorted(ranges):
        first = max(low, out[-1] + 1) if out else low
        try:
            spend(_WORK_PER_ID * max(0, high + 1 - first))
        except LimitExceeded as error:
            raise error.with_location(source, token.span) from None
        out.extend(range(first, high + 1))
    return tuple(out)


def _relocate_error(error: SpecError | UnsupportedError, source: str, token: Token) -> SpecError | UnsupportedError:
    """Convert the location of an error in a part to a location in the whole grammar."""
    value_start = source.find(token.value, token.start)
    start, end = error.span if error.text == token.value else (0, len(token.value))
    error.text, error.span = source, (value_start + start, value_start + max(end, start + 1))
    return error


def _error(source: str, message: str, token: Token, hint: str = "") -> SpecError:
    return SpecError(message, text=source, span=token.span, hint=hint)
