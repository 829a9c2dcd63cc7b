"""Explains why a grammar generates nothing. In: the definitions of a text. Out: an error with the reason and location.

    A: /a/ & /b/                       a terminal matches no text
    sum: sum "+" sum                   a rule always needs itself
    start: A "b"    A: /[ab]+/         with a lexer, a terminal's longest match takes the text of the next terminal

How: find the rules that generate something, from the bottom up. Then follow the other rules, from the start rule. For a
lexer, create a short output of the rules. The first terminal whose longest match in this output exceeds its own text is
the reason. Cost: linear in the rules, for each of a few rounds. Reasons that occur only in longer outputs are not
found.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from guided.errors import SpecError
from guided.frontends.common.regular_texts import Texts
from guided.ir.nodes import Length
from guided.limits import Limits

from .lalr import Rules, find_productive, without_terminals
from .loader import LoadedGrammar
from .terminals import node_of

__all__ = ["why_empty"]

_MAX_ROUNDS: Final = 50
_MAX_TERMINALS: Final = 1_000  # terminals in an output


def why_empty(loaded: LoadedGrammar, lexer: str | None, limits: Limits) -> SpecError | None:
    """See the module docstring. None: no reason was found. `lexer`: "contextual", "basic", or None without a lexer."""
    rules: Rules = loaded.rules
    used_names = {
        name
        for alternatives in rules.values()
        for symbols in alternatives
        for name, is_terminal in symbols
        if is_terminal
    }
    languages = {name: Texts(node_of(loaded, name, limits)) for name in sorted(used_names & loaded.terminals.keys())}
    texts = {name: _shortest_text(language) for name, language in languages.items()}
    texts |= dict.fromkeys(used_names - languages.keys(), "")
    for name, terminal in loaded.terminals.items():
        if terminal.max_tokens == 0 and texts.get(name):
            texts[name] = None
    empty_terminals = {name for name, text in texts.items() if text is None}
    rules_without_empty = without_terminals(rules, empty_terminals)
    productive_names = find_productive(rules_without_empty)
    if loaded.start not in productive_names:
        return _rule_error(loaded, rules_without_empty, productive_names, empty_terminals)
    if lexer is None:
        return None
    return _lexer_error(loaded, rules, languages, {name: text or "" for name, text in texts.items()}, lexer == "basic")


def _rule_error(
    loaded: LoadedGrammar, rules: Rules, productive_names: set[str], empty_terminals: set[str]
) -> SpecError:
    order = [loaded.start]
    for name in order:  # grows during the loop
        if name in empty_terminals:
            return _terminal_error(loaded, name)
        order += dict.fromkeys(
            symbol
            for symbols in rules.get(name, ())
            for symbol, _ in symbols
            if symbol in rules and symbol not in productive_names and symbol not in order
        )
    path = [loaded.start]
    while True:
        following = (symbol for symbol, _ in rules[path[-1]][0] if symbol in rules and symbol not in productive_names)
        path.append(next(following))
        if path[-1] in path[:-1]:
            break
    name = loaded.sources.original_name(path[-1])
    message = f"the specification allows no output at all: the rule {name} always needs itself"
    return loaded.located(SpecError(message, hint="add an alternative that does not need the rule itself"), path[-1])


def _terminal_error(loaded: LoadedGrammar, name: str) -> SpecError:
    terminal = loaded.terminals[name]
    if terminal.max_tokens == 0:
        hint = "max_tokens=0 leaves only the empty text, which it does not match"
    elif isinstance(terminal.node, Length):
        hint = f"max_chars={terminal.node.max} is less than the length of the shortest text"
    elif terminal.node is not None:
        hint = "the two sides of & have no text in common, or ~ leaves none"
    else:
        hint = "look for empty sets, and for lookarounds that contradict the adjacent pattern"
    message = f"the specification allows no output at all: the terminal {terminal.label} matches no text"
    return loaded.located(SpecError(message, hint=hint), name)


def _lexer_error(
    loaded: LoadedGrammar, rules: Rules, languages: Mapping[str, Texts], texts: Mapping[str, str], tries_all: bool
) -> SpecError | None:
    output = _shortest_output(rules, loaded.start, texts)
    for at, name in enumerate(output[:-1]):
        rest = "".join(texts[each] for each in output[at:])
        for terminal in languages if tries_all else languages.keys() & {name}:
            match_length = languages[terminal].longest_match(rest)
            if match_length > len(texts[name]):
                expected = " and then ".join(loaded.terminals[each].label for each in output[at : at + 2])
                label = loaded.terminals[terminal].label
                message = (
                    f"the rules accept no sequence of terminals that the lexer can find: {label} takes all of "
                    f"{rest[:match_length]!r}, where the rules need {expected}"
                )
                hint = f'let {label} exclude the text that follows, or use semantics="scannerless"'
                return loaded.located(SpecError(message, hint=hint), terminal)
    return None


def _shortest_output(rules: Rules, start: str, texts: Mapping[str, str]) -> list[str]:
    """The terminals of a short output, not necessarily the shortest."""
    best: dict[str, list[str]] = {}
    cost: dict[str, int] = {}
    for _ in range(_MAX_ROUNDS):
        is_changed = False
        for name, alternatives in rules.items():
            for symbols in alternatives:
                if all(is_terminal or symbol in best for symbol, is_terminal in symbols):
                    parts = [[symbol] if is_terminal else best[symbol] for symbol, is_terminal in symbols]
                    terminals = [each for part in parts for each in part]
                    length = sum(len(texts[each]) + 1 for each in terminals)
                    if len(terminals) <= _MAX_TERMINALS and length < cost.get(name, length + 1):
                        best[name], cost[name], is_changed = terminals, length, True
        if not is_changed:
            break
    return best.get(start, [])


def _shortest_text(texts: Texts) -> str | None:
    """A shortest text; None if there is none."""
    before: dict[int, tuple[int, str]] = {texts.start: (-1, "")}
    todo = [texts.start]
    for at in todo:  # grows during the loop
        if texts.accepts(at):
            characters = []
            while at >= 0:
                at, char = before[at]
                characters.append(char)
            return "".join(reversed(characters))
        for low, _, to in texts.edges(at):
            if to not in before:
                before[to] = at, chr(low)
                todo.append(to)
    return None
