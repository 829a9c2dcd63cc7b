"""Reads a grammar with Lark's own loader. In: a grammar and the name of its start rule. Out: `LoadedGrammar`.

Lark resolves imports, templates, `%override`, `%extend`, `%declare`, repetitions and terminals that consist of
terminals. The results are rules (lists of alternatives, each a list of symbols) and terminals (one string or one
regular expression each). C++ code reads most grammars instead, with the same result (`native_grammar.py`).

Safety: a grammar may be untrusted. Its length and the size of its expansion are checked before Lark expands it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, NoReturn, TypeVar

from guided.close_names import find_closest_name
from guided.errors import GuidedError, LimitExceeded, SpecError, UnsupportedError
from guided.ir.nodes import Grammar, Node, Region
from guided.limits import Limits

from .bounds import check_bounds, check_stars
from .ebnf_expansion import Symbols, compile_grammar
from .grammar_builder import build_grammar
from .lark_errors import convert_error, get_error_classes
from .native_grammar import LARGEST_WIDTH, NativeGrammar, NativeTerminal
from .scan import is_terminal
from .sources import Sources

__all__ = ["LoadedGrammar", "LoadedTerminal", "convert_native", "load"]

_Error = TypeVar("_Error", bound=GuidedError)
_DEFINITION: Final = re.compile(r"\s*+(?:%\w++\s++)?[?!]*+([A-Za-z_]\w*+)\s*+(?:\{[^}]*\}\s*+)?(?:\.\s*+-?\d++\s*+)?:")
_RANGE: Final = re.compile(r"\[(\\?[^-]+|-)-(.+)\]", re.DOTALL)


@dataclass(frozen=True, slots=True)
class LoadedTerminal:
    """A terminal. `source`: its regular expression for Python's `re`, including flags.

    `value`: the string if `is_string`, otherwise the regular expression without flags. `literal`: the literal in the
    grammar, if the terminal has no name. `label`: its name in error messages.
    """

    name: str
    source: str
    is_string: bool
    priority: int
    value: str
    flags: frozenset[str]
    literal: str
    node: Node | None = None  # its language, if Lark's notation cannot express it
    is_lazy: bool = False  # it ends at its first match, and no other terminal may continue past that point
    max_tokens: int | None = None  # the maximum number of tokens in which it may be written
    label: str = ""
    uses_fullmatch: bool = False  # its texts are defined by `re.fullmatch` rather than `re.match`
    width: tuple[int, int] | None = None  # the minimum and maximum length of its texts, if they are known


@dataclass(frozen=True, slots=True)
class LoadedGrammar:
    """A grammar as Lark reads it.

    `lines`: name of a rule or terminal -> the line that defines it. `parts`: name of a placeholder terminal -> the part
    that it represents (`dialect/parts.py`). `original_parts`: the same parts as written in the grammar.
    `sources`: the locations of all definitions. `initial_skip`, `final_skip`: whether ignored terminals may come first
    or last. `skip_once`: whether a gap is at most one ignored terminal. `regions`: name of a rule -> its capture and
    sampling attributes.
    """

    text: str
    start: str
    rules: dict[str, list[Symbols]]
    terminals: dict[str, LoadedTerminal]
    ignored_terminals: tuple[str, ...]
    lines: dict[str, int]
    sources: Sources
    parts: Mapping[str, Node | Grammar] = field(default_factory=dict)
    original_parts: Mapping[str, str] = field(default_factory=dict)
    initial_skip: bool = True
    final_skip: bool = True
    skip_once: bool = False
    regions: Mapping[str, Region] = field(default_factory=dict)

    def locate(self, error: _Error, name: str) -> _Error:
        """Add the location of a rule's or terminal's definition or pattern to an error about it.

        A location in a terminal's pattern becomes the corresponding location in the grammar.
        """
        terminal, sources = self.terminals.get(name), self.sources
        pattern_span = error.span if terminal is not None and error.text == terminal.source else None
        source, span = sources.texts[0], (0, 0)
        if (definition := sources.definitions.get(name.split("{")[0])) is not None:
            source, span = definition.source, definition.span
            literals = sources.find_pattern_tokens(name) if terminal is not None and terminal.node is None else []
            span = literals[0].span if len(literals) == 1 else span
            if (
                len(literals) > 1
                and pattern_span is not None
                and (broken_pattern := source.find_broken_pattern(literals)) is not None
            ):
                return source.error(error, broken_pattern[1])
        elif terminal is not None and (location := sources.find_literal(terminal.literal)) is not None:
            source, span = location
        literal = source.text[slice(*span)]
        if pattern_span is not None and terminal is not None and literal == f"/{terminal.source}/":
            span = span[0] + 1 + pattern_span[0], span[0] + 1 + max(pattern_span[1], pattern_span[0] + 1)
        return source.error(error, span)


def load(
    text: str, start: str, import_paths: tuple[str, ...], limits: Limits, external_names: frozenset[str] = frozenset()
) -> LoadedGrammar:
    """See the module docstring. `external_names`: terminals that need no pattern: placeholders, and the terminals that
    `postlex` creates.

    Raises:
        SpecError: the text is malformed. UnsupportedError: a terminal has no definition (`%declare`).
        LimitExceeded: the text, a repetition or the number of rules is too large.
    """
    if len(text) > limits.spec_length:
        raise LimitExceeded("spec_length", len(text), limits.spec_length)
    grammar, sources = build_grammar(text, import_paths, limits)
    if start not in {rule for rule, *_ in _list_definitions(grammar)}:
        _refuse_start(text, start, [str(rule) for rule, *_ in _list_definitions(grammar)])
    named_terminals = {str(name) for name, _ in grammar.term_defs}
    for name in (str(name) for name, _, tree, _ in grammar.rule_defs if tree is None):
        _refuse_undefined(name, sources)
    try:
        check_bounds(grammar, sources)
        terminals, rules = compile_grammar(grammar, start, partial(check_stars, grammar, sources))
    except get_error_classes() as error:
        raise convert_error(error, sources) from None
    _check_count(rules, limits)
    for rule in (name for name, is_term in _collect_symbols(rules) if not is_term):
        if rule not in rules:
            usage = re.search(rf"(?<!\w){re.escape(rule)}(?![\w{{]|\s*\{{)", text)
            hint = f"add its arguments: {rule}{{...}}"
            raise SpecError(f"{rule} is a template", text=text, span=usage.span() if usage else (0, 0), hint=hint)
    terminals_by_name = {terminal.name: _convert_terminal(terminal, named_terminals, sources) for terminal in terminals}
    return _make_loaded_grammar(
        text, start, rules, terminals_by_name, tuple(map(str, grammar.ignore)), sources, external_names
    )


def convert_native(
    text: str, start: str, native: NativeGrammar, limits: Limits, external_names: Collection[str] = ()
) -> LoadedGrammar:
    """The `LoadedGrammar` of a grammar that C++ code has read. `external_names`: see `load`.

    Raises:
        UnsupportedError: a terminal has no definition. LimitExceeded: the number of rules is too large.
    """
    _check_count(native.rules, limits)
    terminals = {each[0]: _convert_native_terminal(each, native.sources) for each in native.terminals}
    return _make_loaded_grammar(
        text, start, native.rules, terminals, native.ignored_terminals, native.sources, external_names
    )


def _check_count(rules: Mapping[str, Sequence[Symbols]], limits: Limits) -> None:
    if (count := sum(map(len, rules.values()))) > limits.nodes:
        raise LimitExceeded("nodes", count, limits.nodes)


def _make_loaded_grammar(
    text: str, start: str, rules: dict[str, list[Symbols]], terminals: dict[str, LoadedTerminal],
    ignored: tuple[str, ...], sources: Sources, external_names: Collection[str],
) -> LoadedGrammar:  # fmt: skip
    for name in (*(name for name, is_term in _collect_symbols(rules) if is_term), *ignored):
        if name not in terminals and name not in external_names:
            _refuse_undefined(name, sources)
    return LoadedGrammar(text, start, rules, terminals, ignored, _find_lines(text), sources)


def _collect_symbols(rules: Mapping[str, Iterable[Symbols]]) -> dict[tuple[str, bool], None]:
    """All symbols in the rules, in order, without duplicates."""
    return dict.fromkeys(symbol for alternatives in rules.values() for symbols in alternatives for symbol in symbols)


def _refuse_undefined(name: str, sources: Sources) -> NoReturn:
    kind = "terminal" if is_terminal(name) else "rule"
    reason = f"the {kind} {sources.original_name(name)} is declared, but not defined"
    hint = "define it: guided cannot run a custom lexer" if kind == "terminal" else "define it"
    if re.search("INDENT|DEDENT", name):
        hint = 'for indentation as in Python, pass postlex="python" or your own Indenter'
    source, span = sources.find_usage(name, "")
    raise source.error(UnsupportedError(reason, hint=hint), span)


def _list_definitions(grammar: Any) -> list[tuple[str, Any]]:
    return [(str(name), rest) for name, *rest in grammar.rule_defs]


def _convert_terminal(terminal: Any, named_terminals: Collection[str], sources: Sources) -> LoadedTerminal:
    pattern, name = terminal.pattern, str(terminal.name)
    is_named = name in named_terminals and not name.startswith("__IGNORE_")
    literal = "" if is_named else _restore_literal(str(pattern.value), str(pattern.raw or ""))
    return LoadedTerminal(
        name,
        pattern.to_regexp(),
        pattern.type == "str",
        int(terminal.priority),
        str(pattern.value),
        frozenset(map(str, pattern.flags)),
        literal,
        label=literal or sources.original_name(name),
    )


def _convert_native_terminal(terminal: NativeTerminal, sources: Sources) -> LoadedTerminal:
    name, source, is_string, priority, value, flag, raw, is_named, width = terminal
    literal = "" if is_named and not name.startswith("__IGNORE_") else _restore_literal(value, raw)
    return LoadedTerminal(
        name,
        source,
        is_string,
        priority,
        value,
        frozenset(flag),
        literal,
        label=literal or sources.original_name(name),
        width=None if width is None else (width[0], LARGEST_WIDTH if width[1] is None else width[1]),
    )


def _restore_literal(value: str, raw: str) -> str:
    """A pattern as written in the grammar. Lark keeps the source of strings and regular expressions (`raw`), but turns
    ranges into classes.
    """
    match = None if raw else _RANGE.fullmatch(value)
    return f'"{match[1]}".."{match[2]}"' if match else raw


def _find_lines(text: str) -> dict[str, int]:
    """Name of a rule or terminal -> the line of its first definition, for explanations."""
    out: dict[str, int] = {}
    for number, line in enumerate(text.split("\n"), 1):
        if match := _DEFINITION.match(line):
            out.setdefault(match[1], number)
    return out


def _refuse_start(text: str, start: str, names: list[str]) -> NoReturn:
    close = find_closest_name(start, names)
    rules_hint = f"the rules are {', '.join(names[:8])}" if names else "the grammar has no rules"
    hint = f"did you mean start={close!r}?" if close else f"start= names the start rule; {rules_hint}"
    raise SpecError(f"there is no start rule {start!r}", text=text, hint=hint)
