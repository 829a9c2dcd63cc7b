"""Turns lookarounds into boolean operations: a tree with lookarounds becomes an IR node for the same set of texts.

In: a `Tree`. Out: an IR node whose language is exactly that of the tree. It refuses trees that need too many states.

Problem: a lookaround constrains text outside itself, so the language of a pattern is not composed of the languages of
its parts. The pattern is therefore read from left to right together with its *continuation*, the rest of the pattern up
to the end of the text. With any* for all texts, K for the continuation and L for "the language of":

- lookahead: `L((?=A) K) = L(A any*) & L(K)` and `L((?!A) K) = L(K) - L(A any*)`. For example, `(?!ab).*` is all texts
  that do not begin with ab.
- lookbehind: a condition on the *left context*, which is a state of the automaton in `left_contexts.py`. A part without
  lookarounds is partitioned by the context to which it leads. A lookahead inside a lookbehind leaves a condition on the
  continuation.
- lookaround of one character (anchors, word boundaries): it restricts the first or last character of the neighbouring
  part, so counted repetition stays counted.

The obvious alternative is one automaton for the whole pattern that tracks all lookarounds. It would unroll every count
and multiply the states of all lookarounds, even of those that are never open at the same time.

If a lookaround is inside a repetition or an alternation, the continuation would be recursive or copied. `loops.py`
turns such a part into a list of (language, left context, condition on the following text). The continuation is then
used once for each entry.

Cost: one IR node for each pair of a continuation and a reachable left context. Results that exceed `Limits.nodes` or
`Limits.depth` are refused.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

from guided.errors import LimitExceeded, UnsupportedError
from guided.ir.nodes import EMPTY, EPSILON, Node
from guided.ir.serial import Numbered, serial

from .algebra import ANY_TEXT, Edges, alt, as_chars, conj, measure, negate, run, seq
from .budget import Budget
from .derivatives import ANY_STRING, Terms, TooLarge
from .left_contexts import Contexts
from .loops import Exits, Explorer, Situation
from .tree import Cat, Lookaround, Or, Times, Tree, cat, contains_lookaround, make_alternation

__all__ = ["Continuation", "Lowering", "lower"]

_LEVELS_PER_DEPTH = 8
"""Levels of IR for each level of `Limits.depth`."""


@dataclass(frozen=True, slots=True, eq=False)
class Continuation(Numbered):
    """The rest of a pattern: `tree`, then `next`. Without `next`, it is the end of the pattern.

    `mask` is the set of lookbehind languages that matter from here on. The left contexts at this point are states of
    `Lowering.contexts(mask)`, so languages that no later lookbehind needs are forgotten.
    """

    tree: Tree
    next: Continuation | None
    mask: int


@dataclass(frozen=True, slots=True)
class Lookbehind:
    """A lookbehind holds if, for some i, the text so far is in language `first + i` and the rest is
    in term `after[i]`.
    """

    first: int
    after: tuple[int, ...]


def lower(tree: Tree, text: str, budget: Budget) -> Node:
    """The IR node of the texts that `tree` matches as a whole."""
    if not isinstance(tree, (Lookaround, Cat, Or, Times)):
        return tree
    lowering = Lowering(text, budget)
    try:
        lowering.collect_lookbehinds(tree)
        result = run(lowering.suffix(lowering.continuation(tree, lowering.end(0)), 0))
    except TooLarge:
        raise lowering.refusal() from None
    nodes, depth = measure(result)
    limits = budget.limits
    if nodes > limits.nodes:
        raise LimitExceeded("nodes", nodes, limits.nodes)
    if depth > _LEVELS_PER_DEPTH * limits.depth:
        raise LimitExceeded("depth", depth / _LEVELS_PER_DEPTH, limits.depth)
    return result


def _inside_out(tree: Tree) -> list[Tree]:
    """The nodes of the tree that are not IR nodes, each once, inner nodes first."""
    out: list[Tree] = []
    seen: set[int] = set()

    def visit(tree: Tree) -> Generator[Any, Any, None]:
        if isinstance(tree, (Lookaround, Cat, Or, Times)) and serial(tree) not in seen:
            seen.add(serial(tree))
            for part in tree.items if isinstance(tree, (Cat, Or)) else (tree.item,):
                yield visit(part)
            out.append(tree)

    run(visit(tree))
    return out


class Lowering:
    """Lowers one pattern. Each result is computed once."""

    def __init__(self, text: str, budget: Budget) -> None:
        self.text, self.budget = text, budget
        self.terms = Terms()
        self.edges = Edges()
        self.span = (0, len(text))
        """The part of the pattern that is being lowered, for error messages."""
        self._behinds: dict[int, Lookbehind] = {}
        self._languages: list[int] = []
        self._one_char = 0  # the languages that depend on the last character only
        self._behind_by_item: dict[object, Lookbehind] = {}
        self._masks: dict[int, int] = {}
        self._contexts: dict[int, Contexts] = {}
        self._continuations: dict[tuple[int, int], Continuation] = {}
        self._ends: dict[int, Continuation] = {}
        self._suffixes: dict[tuple[int, int], Node] = {}
        self._exits: dict[tuple[int, Situation, int], Exits] = {}

    def refusal(self) -> UnsupportedError:
        """The error for a part that is valid but needs too many states."""
        return UnsupportedError(
            "the lookarounds, anchors or word boundaries in this part need too many states",
            pointer=f"offset {self.span[0]}",
            hint="use shorter lookarounds and smaller counts, or move them out of the repetition",
            text=self.text,
            span=self.span,
        )

    # --- continuations

    def continuation(self, tree: Tree, after: Continuation) -> Continuation:
        """The continuation that is `tree`, then `after`; one object for each pair."""
        key = (serial(tree), serial(after))
        cached = self._continuations.get(key)
        if cached is None:
            cached = self._continuations[key] = Continuation(tree, after, self.mask(tree) | after.mask)
        return cached

    def end(self, mask: int) -> Continuation:
        """The end of the pattern, where the languages of `mask` still matter."""
        if mask not in self._ends:
            self._ends[mask] = Continuation(EPSILON, None, mask)
        return self._ends[mask]

    def mask(self, tree: Tree) -> int:
        """The set of lookbehind languages that matter inside a tree."""
        if not isinstance(tree, (Lookaround, Cat, Or, Times)):
            return 0
        bits = self._masks.get(serial(tree))
        if bits is None:  # a node that was created during lowering; the masks of its parts are known
            bits = 0
            for part in tree.items if isinstance(tree, (Cat, Or)) else (tree.item,):
                bits |= self.mask(part)
            self._masks[serial(tree)] = bits
        return bits

    def contexts(self, mask: int) -> Contexts:
        """The left contexts for the languages of `mask`."""
        if mask not in self._contexts:
            languages = [language for i, language in enumerate(self._languages) if mask >> i & 1]
            one_char = mask & ~self._one_char == 0
            self._contexts[mask] = Contexts(self.terms, self.edges, self.budget, languages, one_char)
        return self._contexts[mask]

    def project(self, context: int, mask: int, smaller: int) -> int:
        """Convert a left context for `mask` to one for a `smaller` mask."""
        if mask == smaller:
            return context
        state = self.contexts(mask).states[context]
        bits = [i for i in range(mask.bit_length()) if mask >> i & 1]
        substate = tuple(term for i, term in zip(bits, state, strict=True) if smaller >> i & 1)
        return self.contexts(smaller).number[substate]

    # --- lookbehinds

    def collect_lookbehinds(self, tree: Tree) -> None:
        """Find the prefix languages of all lookbehinds, inner ones first."""
        for at in _inside_out(tree):
            if isinstance(at, Lookaround) and not at.ahead:
                self._masks[serial(at)] = self._collect_lookbehind(at)
            else:
                self.mask(at)

    def _collect_lookbehind(self, at: Lookaround) -> int:
        self.span = at.span
        key = as_chars(at.item) or serial(at.item)
        behind = self._behind_by_item.get(key)
        if behind is None:
            if not contains_lookaround(at.item):
                assert not isinstance(at.item, (Lookaround, Cat, Or, Times))
                ways = [(self.terms.read(seq((ANY_TEXT, at.item))), ANY_STRING)]
            else:
                exits = run(self.explore(cat([ANY_TEXT, at.item]), (0, ANY_STRING), 0))
                ways = [(self.terms.read(node), after) for (_, after), node in exits.items()]
            if as_chars(at.item) is not None:
                self._one_char |= 1 << len(self._languages)
            behind = Lookbehind(len(self._languages), tuple(after for _, after in ways))
            self._languages.extend(language for language, _ in ways)
            self._behind_by_item[key] = behind
        self._behinds[serial(at)] = behind
        return ((1 << len(behind.after)) - 1) << behind.first

    def condition(self, at: Lookaround, mask: int, context: int) -> Generator[Any, Any, int]:
        """The term for the rest of the text when `at` is satisfied, in a left context for `mask`."""
        if not at.one_char:
            self.span = at.span
        if at.ahead:
            continuation = self.continuation(at.item, self.continuation(ANY_TEXT, self.end(0)))
            node = yield self.suffix(continuation, self.project(context, mask, continuation.mask))
            term = self.terms.read(node)
        else:
            behind = self._behinds[serial(at)]
            state = self.contexts(mask).states[context]
            skipped = (mask & ((1 << behind.first) - 1)).bit_count()
            states = zip(state[skipped:], behind.after, strict=False)
            term = self.terms.union([after for language, after in states if self.terms.nullable[language]])
        return self.terms.negate(term) if at.negative else term

    def explore(self, tree: Tree, start: Situation, after: int) -> Generator[Any, Any, Exits]:
        """The exits of `tree`: from a left context for its own mask and `after`, to contexts for `after`."""
        key = (serial(tree), start, after)
        if key not in self._exits:
            self._exits[key] = yield Explorer(self).exits(tree, start, after)
        return self._exits[key]

    # --- the rest of the text

    def suffix(self, at: Continuation, context: int) -> Generator[Any, Any, Node]:
        """The IR node of all texts that match the continuation `at`, in a left context for its mask."""
        if at.next is None:
            return EPSILON
        key = (serial(at), context)
        suffix = self._suffixes.get(key)
        if suffix is None:
            suffix = yield self._suffix(at, at.next, context)
            self._suffixes[key] = suffix
            self.budget.spend(1)
        return suffix

    def _suffix(self, at: Continuation, after: Continuation, context: int) -> Generator[Any, Any, Node]:
        tree = at.tree
        result: Node
        match tree:
            case Cat(items):
                rest = after
                for item in reversed(items):
                    rest = self.continuation(item, rest)
                result = yield self.suffix(rest, context)
            case Lookaround():
                result = yield self._look(tree, at, after, context)
            case Or(items) if not tree.one_char:
                branches = []
                for item in items:
                    branch = self.continuation(item, after)
                    branches.append((yield self.suffix(branch, self.project(context, at.mask, branch.mask))))
                result = alt(branches)
            case Times(item, 0, 1):
                result = yield self.suffix(self.continuation(make_alternation([EPSILON, item]), after), context)
            case Or() | Times():
                parts = []
                for (target, condition), node in (yield self.explore(tree, (context, ANY_STRING), after.mask)).items():
                    parts.append((node, self._satisfying(condition, (yield self.suffix(after, target)))))
                result = self._join(parts)
            case _:
                parts = []
                start = self.project(context, at.mask, after.mask)
                for part, target in self.contexts(after.mask).ends(tree, start):
                    parts.append((part, (yield self.suffix(after, target))))
                result = self._join(parts)
        return result

    def _join(self, parts: list[tuple[Node, Node]]) -> Node:
        """The union of the concatenations `part rest`. Parts with the same rest share it."""
        groups: dict[int, tuple[list[Node], Node]] = {}
        for part, rest in parts:
            groups.setdefault(serial(rest), ([], rest))[0].append(part)
        return alt([seq((alt(heads), rest)) for heads, rest in groups.values()])

    def _satisfying(self, condition: int, rest: Node) -> Node:
        """The strings of `rest` that satisfy a condition."""
        one_char = self.terms.next_char_condition(condition)
        if one_char is not None:
            return self.edges.restrict(rest, *one_char, False)
        return conj(rest, self.terms.node(condition))

    def _look(self, at: Lookaround, here: Continuation, after: Continuation, context: int) -> Generator[Any, Any, Node]:
        rest: Node = yield self.suffix(after, self.project(context, here.mask, after.mask))
        if rest is EMPTY:
            return EMPTY
        if not at.ahead or as_chars(at.item) is not None:
            return self._satisfying((yield self.condition(at, here.mask, context)), rest)
        inside = self.continuation(at.item, self.continuation(ANY_TEXT, self.end(0)))
        language = yield self.suffix(inside, self.project(context, here.mask, inside.mask))
        if not isinstance(at.item, (Lookaround, Cat, Or, Times)) and self.edges.nullable(at.item):
            language = ANY_TEXT  # "the empty string, then anything" is everything
        return conj(rest, negate(language) if at.negative else language)
