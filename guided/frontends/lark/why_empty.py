"""Explains why a grammar generates nothing. In: its definitions. Out: an error with the reason and location.

    A: /a/ & /b/                       a terminal matches no text
    sum: sum "+" sum                   a rule always needs itself
    start: A "b"    A: /[ab]+/         with a lexer, a terminal's longest match takes the text of the next terminal

How: find the rules that generate something, from the bottom up. From the start rule, follow the rules that generate
nothing. With a lexer, create a short output of the rules. The first terminal whose longest match in this output exceeds
its own text is the reason. Reasons that occur only in longer outputs are not found. Cost: linear in the rules, for each
of at most `_MAX_ROUNDS` rounds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from guided.errors import SpecError
from guided.frontends.common.regular_texts import TextAutomaton
from guided.ir.nodes import Length
from guided.limits import Limits
from guided.meter import spend

from .lalr import Rules, find_productive, remove_terminals
from .loader import LoadedGrammar
from .terminals import build_named_terminal

__all__ = ["find_empty_reason"]

_MAX_ROUNDS: Final = 50
_MAX_TERMINALS: Final = 1_000  # terminals in the short output


def find_empty_reason(loaded_grammar: LoadedGrammar, lexer: str | None, limits: Limits) -> SpecError | None:
    """See the module docstring. None: no reason was found. `lexer`: "contextual", "basic", or None (no lexer)."""
    rules: Rules = loaded_grammar.rules
    used_names = {
        name
        for alternatives in rules.values()
        for symbols in alternatives
        for name, is_terminal in symbols
        if is_terminal
    }
    languages = {
        name: TextAutomaton(build_named_terminal(loaded_grammar, name, limits))
        for name in sorted(used_names & loaded_grammar.terminals.keys())
    }
    texts = {name: _find_shortest_text(language) for name, language in languages.items()}
    texts |= dict.fromkeys(used_names - languages.keys(), "")
    for name, terminal in loaded_grammar.terminals.items():
        if terminal.max_tokens == 0 and texts.get(name):
            texts[name] = None
    empty_terminals = {name for name, text in texts.items() if text is None}
    rules_without_empty = remove_terminals(rules, empty_terminals)
    productive_names = find_productive(rules_without_empty)
    if loaded_grammar.start not in productive_names:
        return _make_rule_error(loaded_grammar, rules_without_empty, productive_names, empty_terminals)
    if lexer is None:
        return None
    return _find_lexer_error(
        loaded_grammar, rules, languages, {name: text or "" for name, text in texts.items()}, lexer == "basic"
    )


def _make_rule_error(
    loaded_grammar: LoadedGrammar, rules: Rules, productive_names: set[str], empty_terminals: set[str]
) -> SpecError:
    order, seen = [loaded_grammar.start], {loaded_grammar.start}
    for name in order:  # grows during the loop
        spend()
        if name in empty_terminals:
            return _make_terminal_error(loaded_grammar, name)
        for symbol in (symbol for symbols in rules.get(name, ()) for symbol, _ in symbols):
            if symbol in rules and symbol not in productive_names and symbol not in seen:
                seen.add(symbol)
                order.append(symbol)
    last, path = loaded_grammar.start, set[str]()
    while last not in path:
        path.add(last)
        last = next(symbol for symbol, _ in rules[last][0] if symbol in rules and symbol not in productive_names)
    name = loaded_grammar.sources.original_name(last)
    message = f"the specification allows no output at all: the rule {name} always needs itself"
    return loaded_grammar.locate(SpecError(message, hint="add an alternative that does not need the rule itself"), last)


def _make_terminal_error(loaded_grammar: LoadedGrammar, name: str) -> SpecError:
    terminal = loaded_grammar.terminals[name]
    if terminal.max_tokens == 0:
        hint = "max_tokens=0 leaves only the empty text, which the terminal does not match"
    elif isinstance(terminal.node, Length):
        hint = f"max_chars={terminal.node.max} is less than the length of the shortest text"
    elif terminal.node is not None:
        hint = "the two sides of & have no text in common, or ~ leaves none"
    else:
        hint = "look for empty sets, and for lookarounds that contradict the adjacent pattern"
    message = f"the specification allows no output at all: the terminal {terminal.label} matches no text"
    return loaded_grammar.locate(SpecError(message, hint=hint), name)


def _find_lexer_error(
    loaded_grammar: LoadedGrammar,
    rules: Rules,
    languages: Mapping[str, TextAutomaton],
    texts: Mapping[str, str],
    tries_all: bool,
) -> SpecError | None:
    output = _find_short_output(rules, loaded_grammar.start, texts)
    for index, name in enumerate(output[:-1]):
        remaining_text = "".join(texts[each] for each in output[index:])
        for terminal in languages if tries_all else languages.keys() & {name}:
            match_length = languages[terminal].longest_match(remaining_text)
            if match_length > len(texts[name]):
                expected = " and then ".join(loaded_grammar.terminals[each].label for each in output[index : index + 2])
                label = loaded_grammar.terminals[terminal].label
                message = (
                    f"the rules accept no sequence of terminals that the lexer can find: {label} takes all of "
                    f"{remaining_text[:match_length]!r}, where the rules need {expected}"
                )
                hint = f'let {label} exclude the text that follows, or use semantics="scannerless"'
                return loaded_grammar.locate(SpecError(message, hint=hint), terminal)
    return None


def _find_short_output(rules: Rules, start: str, texts: Mapping[str, str]) -> list[str]:
    """The terminals of a short output, not necessarily the shortest."""
    outputs: dict[str, list[str]] = {}
    costs: dict[str, int] = {}
    for _ in range(_MAX_ROUNDS):
        is_changed = False
        for name, alternatives in rules.items():
            for symbols in alternatives:
                if all(is_terminal or symbol in outputs for symbol, is_terminal in symbols):
                    expansions = [[symbol] if is_terminal else outputs[symbol] for symbol, is_terminal in symbols]
                    terminals = [each for expansion in expansions for each in expansion]
                    cost = sum(len(texts[each]) + 1 for each in terminals)
                    if len(terminals) <= _MAX_TERMINALS and cost < costs.get(name, cost + 1):
                        outputs[name], costs[name], is_changed = terminals, cost, True
        if not is_changed:
            break
    return outputs.get(start, [])


def _find_shortest_text(texts: TextAutomaton) -> str | None:
    """A shortest text; None if there is none."""
    predecessors: dict[int, tuple[int, str]] = {texts.start: (-1, "")}
    todo = [texts.start]
    for state in todo:  # grows during the loop
        if texts.accepts(state):
            characters = []
            while state >= 0:
                state, char = predecessors[state]
                characters.append(char)
            return "".join(reversed(characters))
        for low, _, target in texts.edges(state):
            if target not in predecessors:
                predecessors[target] = state, chr(low)
                todo.append(target)
    return None
