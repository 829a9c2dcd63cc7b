"""Rules as rules of the IR. In: `Loaded`. Out: a `Grammar`, every way to cut a text into terminals counted.

A terminal becomes a rule of its own, so that it is read once however often it is used. After each terminal, and at the
beginning, any number of ignored terminals may stand.
"""

from __future__ import annotations

from guided.errors import SpecError
from guided.ir.nodes import EPSILON, Alt, Grammar, Node, Ref, Repeat, Seq
from guided.limits import Limits

from .loader import Loaded
from .terminals import terminal_node

__all__ = ["origin", "scannerless"]


def scannerless(loaded: Loaded, limits: Limits) -> Grammar:
    """See the head.

    Raises:
        SpecError, UnsupportedError, LimitExceeded: a terminal, see `terminal_node`.
    """
    rules: dict[str, Node] = {}
    origins: dict[str, str] = {}
    used = sorted(
        {name for alternatives in loaded.rules.values() for each in alternatives for name, term in each.symbols if term}
    )
    ignored = [Ref(_terminal_rule(name)) for name in loaded.ignored]
    gap: Node = Repeat(ignored[0] if len(ignored) == 1 else Alt(tuple(ignored)), 0, None) if ignored else EPSILON
    for name in dict.fromkeys([*used, *loaded.ignored]):
        rules[_terminal_rule(name)] = terminal_node(loaded.terminals[name], limits)
        origins[_terminal_rule(name)] = origin(loaded, name)
    for name, alternatives in loaded.rules.items():
        items = []
        for each in alternatives:
            parts: list[Node] = []
            for symbol, is_term in each.symbols:
                parts += [Ref(_terminal_rule(symbol)), gap] if is_term else [Ref(_rule(symbol))]
            items.append(Seq(tuple(part for part in parts if part is not EPSILON)))
        rules[_rule(name)] = items[0] if len(items) == 1 else Alt(tuple(items))
        origins[_rule(name)] = origin(loaded, name)
    if _rule(loaded.start) not in rules:
        raise SpecError(f"the rule {loaded.start!r} generates nothing", text=loaded.text)
    rules["start"] = Seq((gap, Ref(_rule(loaded.start))))
    return Grammar(rules, "start", origins)


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
        return f"{name} (line {line})"
    terminal = loaded.terminals.get(name)
    return terminal.written if terminal is not None and terminal.written else name
