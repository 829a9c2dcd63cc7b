"""Rules as rules of the IR. In: `Loaded`. Out: a `Grammar`, every way to cut a text into terminals counted.

A terminal becomes a rule of its own, so that it is read once however often it is used. After each terminal or part, and
at the beginning, any number of ignored terminals may stand.
"""

from __future__ import annotations

from collections.abc import Collection

from guided.errors import SpecError, brief
from guided.ir.nodes import ANY_CHAR, EPSILON, Alt, Grammar, MaxTokens, Node, Ref, Repeat, Seq
from guided.ir.regions import Region
from guided.limits import Limits
from guided.spec.regex.algebra import ANY_TEXT, conj, negate, seq
from guided.spec.rule_table import RuleTable

from .lalr import Place
from .lazy import kept_from
from .loader import Loaded
from .terminals import terminal_node

__all__ = ["origin", "scannerless"]


def scannerless(loaded: Loaded, limits: Limits) -> Grammar:
    """See the head.

    Raises:
        SpecError, UnsupportedError, LimitExceeded: a terminal, see `terminal_node`.
    """
    table = RuleTable()
    used = sorted(
        {name for alternatives in loaded.rules.values() for each in alternatives for name, term in each.symbols if term}
    )
    ignored = [Ref(_terminal_rule(name)) for name in loaded.ignored]
    most = 1 if loaded.skip_once else None
    gap: Node = Repeat(ignored[0] if len(ignored) == 1 else Alt(tuple(ignored)), 0, most) if ignored else EPSILON
    if loaded.regions and gap is not EPSILON:  # what is skipped belongs to no capture whose end it is
        name = table.define("ignored", "", gap)
        table.regions[name], gap = Region(ignored=True), Ref(name)
    for name in dict.fromkeys([*used, *loaded.ignored]):
        node = EPSILON if name in loaded.parts else terminal_node(loaded.terminals[name], limits)
        table.define(_terminal_rule(name), origin(loaded, name), node)
    lazy = frozenset(name for name in used if name not in loaded.parts and loaded.terminals[name].is_lazy)
    symbols_of = {name: [each.symbols for each in alternatives] for name, alternatives in loaded.rules.items()}
    kept = kept_from(symbols_of, loaded.start, lazy)
    for name, alternatives in symbols_of.items():
        items = []
        for number, symbols in enumerate(alternatives):
            parts: list[Node] = []
            for read, (symbol, is_term) in enumerate(symbols):
                if is_term:
                    limiting = kept.get(Place(name, number, read), frozenset()) if symbol not in loaded.parts else ()
                    parts += [Ref(_counted(table, loaded, symbol, _limited(table, loaded, symbol, limiting))), gap]
                else:
                    parts.append(Ref(_rule(symbol)))
            items.append(Seq(tuple(part for part in parts if part is not EPSILON)))
        table.define(_rule(name), origin(loaded, name), items[0] if len(items) == 1 else Alt(tuple(items)))
    if _rule(loaded.start) not in table.rules:
        raise SpecError(f"the rule {loaded.start!r} generates nothing", text=loaded.text)
    first = gap if loaded.initial_skip else EPSILON
    start = table.define("start", "", Seq((first, Ref(_rule(loaded.start)))))
    table.regions |= {_rule(name): region for name, region in loaded.regions.items()}
    for name in loaded.parts.keys() & {*used, *loaded.ignored}:  # last: their rules must not take the names of these
        part = loaded.parts[name]
        table.rules[_terminal_rule(name)] = table.embed(part) if isinstance(part, Grammar) else part
    return Grammar(table.rules, start, table.origins, regions=table.regions)


def _limited(table: RuleTable, loaded: Loaded, name: str, lazy: Collection[str]) -> str:
    """The rule of a terminal that does not run over matches of lazy ones; see `lazy.py`."""
    rule = " without ".join([_terminal_rule(name), *sorted(lazy)])
    if rule not in table.rules:
        more = seq([ANY_CHAR, ANY_TEXT]) if loaded.terminals[name].is_lazy else ANY_TEXT
        node = table.rules[_terminal_rule(name)]
        for each in sorted(lazy):
            node = conj(node, negate(seq([table.rules[_terminal_rule(each)], more])))
        table.define(rule, origin(loaded, name), node)
    return rule


def _counted(table: RuleTable, loaded: Loaded, name: str, rule: str) -> str:
    """The rule of a terminal with its limit of tokens, if it has one."""
    most = loaded.terminals[name].max_tokens if name in loaded.terminals else None
    if most is None:
        return rule
    if f"{rule} in tokens" not in table.rules:
        table.define(f"{rule} in tokens", origin(loaded, name), MaxTokens(Ref(rule), most))
    return f"{rule} in tokens"


def _rule(name: str) -> str:
    return f"rule {name}"


def _terminal_rule(name: str) -> str:
    return f"terminal {name}"


def origin(loaded: Loaded, name: str) -> str:
    """What explanations say of a rule or terminal: its name and line; a terminal without a name is its pattern.

    A rule that Lark made for a repetition or for the arguments of a template stands for the rule that it was made for.
    """
    made_for = [rule for rule in loaded.lines if name.startswith((f"__{rule}_", f"{rule}{{"))]
    if name not in loaded.lines and made_for:
        name = max(made_for, key=len)
    if line := loaded.lines.get(name):
        return f"{_written(loaded, name)} (line {line})"
    terminal = loaded.terminals.get(name)
    return terminal.written if terminal is not None and terminal.written else name


def _written(loaded: Loaded, name: str) -> str:
    """A name as the text has it; what is longer than a name is shortened."""
    terminal = loaded.terminals.get(name)
    written = loaded.written.get(name, terminal.written if terminal is not None and terminal.node is not None else "")
    return brief(written) if len(written) > 40 else written or name
