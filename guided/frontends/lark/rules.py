"""Turns Lark's rules into rules of the IR. In: `LoadedGrammar`. Out: a `Grammar` that accepts every way to split an
input into terminals.

Each terminal becomes a separate rule, so its pattern is read once, regardless of how often it is used. Ignored
terminals may come before each terminal or part (`LoadedGrammar.parts`), and at the end (`ignored_tokens.py`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from guided.errors import SpecError, brief
from guided.frontends.common.rule_table import RuleTable
from guided.frontends.regex.algebra import ANY_TEXT, conj, negate, seq
from guided.ir.nodes import ANY_CHAR, EPSILON, Alt, Grammar, MaxTokens, Node, Ref, Region, Repeat, Seq
from guided.limits import Limits

from .ignored_tokens import IgnoredTokens
from .lalr import Item, Rules, find_nullable
from .lazy import find_lazy_contexts
from .loader import LoadedGrammar
from .terminals import build_named_terminal

__all__ = ["build_scannerless_grammar", "describe_origin"]


def build_scannerless_grammar(loaded_grammar: LoadedGrammar, limits: Limits) -> Grammar:
    """See the module docstring.

    Raises:
        SpecError, UnsupportedError, LimitExceeded: see `build_terminal_node` and `IgnoredTokens`.
    """
    table = RuleTable()
    rules: Rules = loaded_grammar.rules
    if loaded_grammar.start not in rules:
        raise SpecError(f"the rule {loaded_grammar.start!r} generates nothing", text=loaded_grammar.text)
    used_names = sorted(
        {name for alternatives in rules.values() for symbols in alternatives for name, is_term in symbols if is_term}
    )
    for name in dict.fromkeys([*used_names, *loaded_grammar.ignored_terminals]):
        node = EPSILON if name in loaded_grammar.parts else build_named_terminal(loaded_grammar, name, limits)
        table.define(_terminal_rule_name(name), describe_origin(loaded_grammar, name), node)
    names = {name: _terminal_rule_name(name) for name in loaded_grammar.ignored_terminals}
    ignored = {rule: None if name in loaded_grammar.parts else table.rules[rule] for name, rule in names.items()}
    gaps = IgnoredTokens(table, ignored, loaded_grammar.skip_once, bool(loaded_grammar.regions))
    lazy_names = frozenset(
        name for name in used_names if name not in loaded_grammar.parts and loaded_grammar.terminals[name].is_lazy
    )
    rules, avoided_names, sources = find_lazy_contexts(rules, loaded_grammar.start, lazy_names)

    def make_item(lr_item: Item, is_first: bool = False) -> Node:
        symbol, is_term = rules[lr_item.rule][lr_item.alternative][lr_item.read]
        if not is_term:
            return Ref(_first_rule_name(symbol) if is_first else _rule_name(symbol))
        if symbol in loaded_grammar.parts:
            return Seq((EPSILON if is_first else gaps.make_optional_gap(), Ref(_terminal_rule_name(symbol))))
        rule = _exclude_lazy_matches(table, loaded_grammar, symbol, avoided_names.get(lr_item, frozenset()))
        max_tokens = loaded_grammar.terminals[symbol].max_tokens
        if is_first:
            return Ref(rule) if max_tokens is None else MaxTokens(Ref(rule), max_tokens)
        return gaps.add_gap_before(rule, max_tokens)

    def make_items(name: str, number: int, begin: int = 0) -> list[Node]:
        return [make_item(Item(name, number, read)) for read in range(begin, len(rules[name][number]))]

    for name, branches in rules.items():
        table.define(
            _rule_name(name),
            describe_origin(loaded_grammar, sources.get(name, name)),
            Alt(tuple(Seq(tuple(make_items(name, n))) for n in range(len(branches)))),
        )
    end = gaps.make_optional_gap() if loaded_grammar.final_skip else EPSILON
    start_node: Node = Seq((Ref(_rule_name(loaded_grammar.start)), end))
    if not loaded_grammar.initial_skip:
        nullable_rules = find_nullable(rules)
        for name, branches in rules.items():  # the rule's nonempty texts, without a gap before them
            alternatives = [
                Seq((make_item(Item(name, n, read), True), *make_items(name, n, read + 1)))
                for n, symbols in enumerate(branches)
                for read in range(len(symbols))
                if all(symbol in nullable_rules for symbol, _ in symbols[:read])
            ]
            table.define(_first_rule_name(name), table.origins[_rule_name(name)], Alt(tuple(alternatives)))
        # The empty text has no gap after it.
        min_count = 0 if loaded_grammar.start in nullable_rules else 1
        start_node = Repeat(Seq((Ref(_first_rule_name(loaded_grammar.start)), end)), min_count, 1)
    start = table.define("start", "", start_node)
    table.regions |= _list_regions(loaded_grammar, rules, sources)
    for name in loaded_grammar.parts.keys() & {
        *used_names,
        *loaded_grammar.ignored_terminals,
    }:  # last, so that the rules of embedded grammars cannot take the names above
        part = loaded_grammar.parts[name]
        table.rules[_terminal_rule_name(name)] = table.embed(part) if isinstance(part, Grammar) else part
    return Grammar(table.rules, start, table.origins, regions=table.regions, schemas=table.schemas)


def _list_regions(loaded_grammar: LoadedGrammar, rules: Rules, sources: Mapping[str, str]) -> dict[str, Region]:
    """The regions of rules that have one. `sources`: see `LazyContexts`."""
    regions = dict[str, Region]()
    for name in rules:
        if (region := loaded_grammar.regions.get(sources.get(name, name))) is not None:
            regions |= {_rule_name(name): region}
            if not loaded_grammar.initial_skip:
                regions |= {_first_rule_name(name): region}
    return regions


def _exclude_lazy_matches(
    table: RuleTable, loaded_grammar: LoadedGrammar, name: str, lazy_names: Collection[str]
) -> str:
    """The name of a rule for the terminal's texts that do not extend over matches of lazy terminals; see `lazy.py`."""
    rule = " without ".join([_terminal_rule_name(name), *sorted(lazy_names)])
    if rule not in table.rules:
        continuation = seq([ANY_CHAR, ANY_TEXT]) if loaded_grammar.terminals[name].is_lazy else ANY_TEXT
        node = table.rules[_terminal_rule_name(name)]
        for each in sorted(lazy_names):
            node = conj(node, negate(seq([table.rules[_terminal_rule_name(each)], continuation])))
        table.define(rule, describe_origin(loaded_grammar, name), node)
    return rule


def _rule_name(name: str) -> str:
    return f"rule {name}"


def _first_rule_name(name: str) -> str:
    return f"first {name}"


def _terminal_rule_name(name: str) -> str:
    return f"terminal {name}"


def describe_origin(loaded_grammar: LoadedGrammar, name: str) -> str:
    """What explanations call a rule or terminal: its name and line, or the pattern of an unnamed terminal.

    A rule that Lark created for a repetition or for a template instance is named after the rule in the grammar.
    """
    if name not in loaded_grammar.lines:
        name = next((rule for rule in _guess_source_names(name) if rule in loaded_grammar.lines), name)
    if line := loaded_grammar.lines.get(name):
        return f"{_format_name(loaded_grammar, name)} (line {line})"
    terminal = loaded_grammar.terminals.get(name)
    return terminal.literal if terminal is not None and terminal.literal else loaded_grammar.sources.original_name(name)


def _guess_source_names(name: str) -> Iterator[str]:
    """The names from which Lark may have created a name such as `__rule_star_0` or `rule{A}`, longest first."""
    bare_name = name.removeprefix("__")
    if bare_name != name:
        yield from (bare_name[:end] for end in range(len(bare_name) - 1, 0, -1) if bare_name[end] == "_")
    yield name.split("{")[0]


def _format_name(loaded_grammar: LoadedGrammar, name: str) -> str:
    """The name, or for a part or an expression its source text, shortened if it is long."""
    terminal = loaded_grammar.terminals.get(name)
    text = loaded_grammar.original_parts.get(
        name, terminal.literal if terminal is not None and terminal.node is not None else ""
    )
    return brief(text) if len(text) > 40 else text or name
