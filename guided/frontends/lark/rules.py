"""Turns Lark's rules into rules of the IR. In: `LoadedGrammar`. Out: a `Grammar` that accepts every way to split a text
into terminals.

Each terminal becomes a separate rule, so it is read once, regardless of how often it is used. Ignored terminals may
come before each terminal or part, and at the end (`ignored_tokens.py`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from guided.errors import SpecError, brief
from guided.frontends.common.rule_table import RuleTable
from guided.frontends.regex.algebra import ANY_TEXT, conj, negate, seq
from guided.ir.nodes import ANY_CHAR, EPSILON, Alt, Grammar, MaxTokens, Node, Ref, Repeat, Seq
from guided.limits import Limits

from .ignored_tokens import IgnoredTokens
from .lalr import Item, find_nullable
from .lazy import avoided_lazy_terminals
from .loader import LoadedGrammar
from .terminals import node_of

__all__ = ["origin", "scannerless_grammar"]


def scannerless_grammar(loaded: LoadedGrammar, limits: Limits) -> Grammar:
    """See the module docstring.

    Raises:
        SpecError, UnsupportedError, LimitExceeded: see `terminal_node`, and `IgnoredTokens`.
    """
    table, rules = RuleTable(), loaded.rules
    if loaded.start not in rules:
        raise SpecError(f"the rule {loaded.start!r} generates nothing", text=loaded.text)
    used_names = sorted(
        {name for alternatives in rules.values() for symbols in alternatives for name, is_term in symbols if is_term}
    )
    for name in dict.fromkeys([*used_names, *loaded.ignored]):
        node = EPSILON if name in loaded.parts else node_of(loaded, name, limits)
        table.define(_terminal_rule(name), origin(loaded, name), node)
    names = {name: _terminal_rule(name) for name in loaded.ignored}
    ignored = {rule: None if name in loaded.parts else table.rules[rule] for name, rule in names.items()}
    gaps = IgnoredTokens(table, ignored, loaded.skip_once, bool(loaded.regions))
    lazy = frozenset(name for name in used_names if name not in loaded.parts and loaded.terminals[name].is_lazy)
    avoided = avoided_lazy_terminals(rules, loaded.start, lazy)

    def item(lr_item: Item, is_first: bool = False) -> Node:
        symbol, is_term = rules[lr_item.rule][lr_item.alternative][lr_item.read]
        if not is_term:
            return Ref(_first_rule(symbol) if is_first else _rule(symbol))
        if symbol in loaded.parts:
            return Seq((EPSILON if is_first else gaps.optional_gap(), Ref(_terminal_rule(symbol))))
        rule = _without_lazy_matches(table, loaded, symbol, avoided.get(lr_item, frozenset()))
        max_tokens = loaded.terminals[symbol].max_tokens
        if is_first:
            return Ref(rule) if max_tokens is None else MaxTokens(Ref(rule), max_tokens)
        return gaps.with_gap_before(rule, max_tokens)

    def items(name: str, number: int, begin: int = 0) -> list[Node]:
        return [item(Item(name, number, read)) for read in range(begin, len(rules[name][number]))]

    for name, branches in rules.items():
        table.define(
            _rule(name), origin(loaded, name), Alt(tuple(Seq(tuple(items(name, n))) for n in range(len(branches))))
        )
    end = gaps.optional_gap() if loaded.final_skip else EPSILON
    whole: Node = Seq((Ref(_rule(loaded.start)), end))
    if not loaded.initial_skip:
        nullable_rules = find_nullable(rules)
        for name, branches in rules.items():  # the rule's nonempty texts, without a gap before them
            alternatives = [
                Seq((item(Item(name, n, at), True), *items(name, n, at + 1)))
                for n, symbols in enumerate(branches)
                for at in range(len(symbols))
                if all(symbol in nullable_rules for symbol, _ in symbols[:at])
            ]
            table.define(_first_rule(name), origin(loaded, name), Alt(tuple(alternatives)))
        # the empty text has no gap after it
        whole = Repeat(Seq((Ref(_first_rule(loaded.start)), end)), 0 if loaded.start in nullable_rules else 1, 1)
    start = table.define("start", "", whole)
    for name, region in loaded.regions.items():
        table.regions |= {rule: region for rule in (_rule(name), _first_rule(name)) if rule in table.rules}
    for name in loaded.parts.keys() & {
        *used_names,
        *loaded.ignored,
    }:  # last, so that their rules cannot take the names above
        part = loaded.parts[name]
        table.rules[_terminal_rule(name)] = table.embed(part) if isinstance(part, Grammar) else part
    return Grammar(table.rules, start, table.origins, regions=table.regions, schemas=table.schemas)


def _without_lazy_matches(table: RuleTable, loaded: LoadedGrammar, name: str, lazy: Collection[str]) -> str:
    """The rule of a terminal that does not extend over matches of lazy ones; see `lazy.py`."""
    rule = " without ".join([_terminal_rule(name), *sorted(lazy)])
    if rule not in table.rules:
        continuation = seq([ANY_CHAR, ANY_TEXT]) if loaded.terminals[name].is_lazy else ANY_TEXT
        node = table.rules[_terminal_rule(name)]
        for each in sorted(lazy):
            node = conj(node, negate(seq([table.rules[_terminal_rule(each)], continuation])))
        table.define(rule, origin(loaded, name), node)
    return rule


def _rule(name: str) -> str:
    return f"rule {name}"


def _first_rule(name: str) -> str:
    return f"first {name}"


def _terminal_rule(name: str) -> str:
    return f"terminal {name}"


def origin(loaded: LoadedGrammar, name: str) -> str:
    """The name of a rule or terminal in explanations: its name and line, or the pattern of an unnamed terminal.

    A rule that Lark created for a repetition or for the arguments of a template is named after its original rule.
    """
    if name not in loaded.lines:
        name = next((rule for rule in _source_names(name) if rule in loaded.lines), name)
    if line := loaded.lines.get(name):
        return f"{_display_name(loaded, name)} (line {line})"
    terminal = loaded.terminals.get(name)
    return terminal.literal if terminal is not None and terminal.literal else loaded.sources.original_name(name)


def _source_names(name: str) -> Iterator[str]:
    """The names from which Lark may have created a name such as `__rule_star_0` or `rule{A}`, longest first."""
    bare_name = name.removeprefix("__")
    if bare_name != name:
        yield from (bare_name[:at] for at in range(len(bare_name) - 1, 0, -1) if bare_name[at] == "_")
    yield name.split("{")[0]


def _display_name(loaded: LoadedGrammar, name: str) -> str:
    """A name as written in the text; long expressions are shortened."""
    terminal = loaded.terminals.get(name)
    text = loaded.original_parts.get(
        name, terminal.literal if terminal is not None and terminal.node is not None else ""
    )
    return brief(text) if len(text) > 40 else text or name
