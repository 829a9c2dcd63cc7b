"""Ends outputs at the end token that a grammar names.

Some models end a call with a token that also ends the output. gpt-oss has the end tokens `<|return|>`, `<|endoftext|>`
and `<|call|>`, and each call ends with `<|call|>`:

    start: message* call        message: ... "<|end|>"        call: ... "<|call|>"

In: a grammar with the language L, and the end tokens. Out: the grammar of the outputs before their end token. These are
the outputs of L without an end token, and each w without an end token for which w + e is in L, for an end token e. As
after any output, the model then writes an end token. An output in which more text follows an end token is dropped.

How: each rule that can generate an end token gets a second rule, its *cut*: the outputs w for which w + e is an output
of the rule. Cutting removes an end token from the last part that is not empty:

    cut(A B C) = A B cut(C), and A cut(B) if C may be empty, and cut(A) if B C may be empty
    cut(e) = the empty text, for an end token e; the cut of any other token or text generates nothing

This is the right quotient by a set of single tokens. The grammar is then the start rule or its cut, and all other end
tokens in it generate nothing.

Why not a case in the matcher: an end token could be an ordinary token whose next state must be accepting. But then a
text whose only continuation is an end token with more text after it would be a dead end, and a mask would need to look
ahead to exclude it. Structural tags alone would be the wrong place, since grammars and compositions name tokens too.

Cost: linear in the nodes. The cuts of a sequence share the items before them: cut(A B C) = A (B cut(C) | cut(B)).
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import replace
from typing import Any

from guided.errors import UnsupportedError, VocabularyError
from guided.frontends.common.nullable import is_nullable, nullable_rules
from guided.frontends.common.rule_table import parts_of, replace_nodes
from guided.frontends.regex.algebra import run
from guided.ir.nodes import (
    EMPTY,
    EPSILON,
    Alt,
    And,
    Dispatch,
    Distinct,
    Encoded,
    Entry,
    Grammar,
    Length,
    MaxTokens,
    Node,
    Not,
    Permutation,
    Ref,
    Repeat,
    Seq,
    Special,
)

__all__ = ["EndTokenNamed", "end_at_tokens"]

_UNCUT = (And, Not, Length, Encoded, MaxTokens, Permutation, Distinct, Entry)
"""Nodes whose outputs are not cut. Most of them cannot contain a control token anyway."""
_MAX_DEPTH = 8  # the nesting of the cuts of a sequence in one rule


class EndTokenNamed(VocabularyError):
    """A well-formed grammar names an end token, so it must be compiled without it."""


def end_at_tokens(grammar: Grammar, without_ends: Callable[[int | str], Node]) -> Grammar:
    """The grammar of the outputs before their end token. Its end tokens are not in it any more.

    Args:
        grammar: well-formed rules without a lexer. Its deferred rules contain no end tokens.
        without_ends: returns a node for the ids of a token that do not end the output: `Special(token)` if none of its
            ids ends it, `EMPTY` if all of them do.

    Raises:
        UnsupportedError: an end token is in a permutation, or in a part whose values must differ.
    """
    return _Cutter(grammar, without_ends).cut_grammar()


class _Cutter:
    def __init__(self, grammar: Grammar, without_ends: Callable[[int | str], Node]) -> None:
        self.grammar = grammar
        self.replacements: dict[int | str, Node] = {}  # of the tokens that are, or may be, an end token
        mentions: dict[str, set[str]] = {}  # rule -> the rules that mention it
        work = []
        for name, root in grammar.rules.items():
            for part in parts_of(root):
                if isinstance(part, Ref):
                    mentions.setdefault(part.name, set()).add(name)
                elif isinstance(part, Special):
                    other_tokens = without_ends(part.token)
                    if other_tokens != part:
                        self.replacements[part.token] = other_tokens
                        work.append(name)
        self.ending_rules = set(work)  # the rules that can generate an end token
        while work:
            new_names = mentions.get(work.pop(), set()) - self.ending_rules
            self.ending_rules |= new_names
            work += new_names
        self.nullable, self.nullable_cache = nullable_rules(grammar.rules), dict[int, bool]()
        self.cut_names: dict[str, str] = {}
        self.taken_names = set(grammar.rules)
        self.new_rules: dict[str, Node] = {}  # of the rule that is being cut

    def cut_grammar(self) -> Grammar:
        """See `end_at_tokens`."""
        for name in self.ending_rules:
            self._check(name)
        rules, origins, regions = dict(self.grammar.rules), dict(self.grammar.origins), dict(self.grammar.regions)
        start = self._new_name("output")
        self.cut_names[self.grammar.start] = self._new_name(self.grammar.start)
        work = [self.grammar.start]
        for name in work:  # grows during the loop
            known_names = len(self.cut_names)
            cut_name = self.cut_names[name]
            rules[cut_name] = run(self._cut(rules[name]))
            work += list(self.cut_names)[known_names:]
            if name in origins:
                origins |= dict.fromkeys((cut_name, *self.new_rules), origins[name])
            if name in regions:
                regions[cut_name] = regions[name]
            rules |= self.new_rules
            self.new_rules.clear()
        rules[start] = Alt((Ref(self.grammar.start), Ref(self.cut_names[self.grammar.start])))
        origins[start] = origins.get(self.grammar.start, "")
        return replace_nodes(
            replace(self.grammar, rules=rules, start=start, origins=origins, regions=regions), self._drop_end_tokens
        )

    def _new_name(self, name: str) -> str:
        number = 1
        new_name = f"{name}, ended" if name in self.taken_names else name
        while new_name in self.taken_names:
            number += 1
            new_name = f"{name}, ended ~{number}"
        self.taken_names.add(new_name)
        return new_name

    def _check(self, rule: str) -> None:
        """Raise UnsupportedError if a part that cannot be cut contains an end token."""
        for part in parts_of(self.grammar.rules[rule]):
            if isinstance(part, _UNCUT) and any(map(self._is_ending, parts_of(part))):
                tokens = ", ".join(map(str, self.replacements))
                raise UnsupportedError(
                    f"{tokens} ends the output, and cannot be in a {type(part).__name__}",
                    pointer=self.grammar.origins.get(rule, rule),
                    hint="put it after this part, or leave it out: it may follow every complete output",
                )

    def _is_ending(self, part: Any) -> bool:
        if isinstance(part, Ref):
            return part.name in self.ending_rules
        return isinstance(part, Special) and part.token in self.replacements

    def _drop_end_tokens(self, node: Any) -> Node | None:
        return self.replacements.get(node.token) if isinstance(node, Special) else None

    def _cut(self, node: Node) -> Generator[Any, Any, Node]:
        """The cut of a node. Yields generators to `run`, which returns their results."""
        match node:
            case Special(token) if token in self.replacements:
                return EPSILON
            case Ref(name) if name in self.ending_rules:
                if name not in self.cut_names:
                    self.cut_names[name] = self._new_name(name)
                return Ref(self.cut_names[name])
            case Alt(items):
                return _choice((yield from self._cut_all(items)))
            case Seq(items):
                return (yield from self._cut_sequence(items))
            case Repeat(item, low, high) if high != 0:
                last_item = yield self._cut(item)
                items_before = Repeat(item, max(low - 1, 0), None if high is None else high - 1)
                return EMPTY if last_item == EMPTY else Seq((items_before, last_item))
            case Dispatch(automaton, exits, items):
                cuts = yield from self._cut_all(items)
                pairs = [(state, cut) for state, cut in zip(exits, cuts, strict=True) if cut != EMPTY]
                # the texts of the automaton itself are outputs, too, since what follows a cut may be empty
                return Dispatch(automaton, tuple([state for state, _ in pairs]), tuple([cut for _, cut in pairs]))
        return EMPTY

    def _cut_all(self, items: tuple[Node, ...]) -> Generator[Any, Any, list[Node]]:
        cuts = list[Node]()
        for item in items:
            cuts.append((yield self._cut(item)))
        return cuts

    def _cut_sequence(self, items: tuple[Node, ...]) -> Generator[Any, Any, Node]:
        """The cut of a sequence: the cut of an item after which all others may be empty."""
        rest: Node = EMPTY  # the cut of the items from `index`
        depth = 0
        for index in reversed(range(len(items))):
            later_cuts = rest if rest == EMPTY else Seq((items[index], rest))
            rest, depth = _choice([(yield self._cut(items[index])), later_cuts]), depth + 1
            if not self._is_nullable(items[index]):
                return rest if rest == EMPTY else Seq((*items[:index], rest))
            if depth % _MAX_DEPTH == 0 and rest != EMPTY:  # deep nesting has a limit
                name = self._new_name(f"cut {len(self.taken_names)}")
                self.new_rules[name], rest = rest, Ref(name)
        return rest

    def _is_nullable(self, node: Node) -> bool:
        return is_nullable(node, self.nullable, self.nullable_cache)


def _choice(cuts: list[Node]) -> Node:
    items = tuple([cut for cut in cuts if cut != EMPTY])
    return items[0] if len(items) == 1 else Alt(items)
