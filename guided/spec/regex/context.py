"""Lookarounds away: a tree with looks becomes an IR node for the same set of whole texts. Exact, or refused.

In: a `Tree`. Out: an IR node.

Reading from the left with a *continuation* (the rest of the pattern up to the end of the text):

- `L((?=A) K) = L(A any*) & L(K)`, `L((?!A) K) = L(K) - L(A any*)`
- a lookbehind is a condition on the *left context*, a state of the automaton in behind.py; a part without looks is
  cut by the context it leads to. A lookahead inside a lookbehind is left as a condition on the continuation.
- at one character (anchors, word boundaries) both are cuts at the first or last character of the neighbouring part

so that counted repetition stays counted. Where a look stands inside a repetition or an alternation the continuation
would be recursive or copied; loops.py turns such a part into a list of `(text, left context, condition on what
follows)`, and the continuation is taken once for each.

Cost: one IR node for each (place in the pattern, left context) that can be reached; results past `Limits.nodes` or
`Limits.depth` are refused.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

from guided.errors import LimitExceeded, UnsupportedError
from guided.grammar.ir import EMPTY, EPSILON, Node
from guided.grammar.serial import Numbered, serial

from .algebra import ANY_TEXT, Edges, alt, as_chars, conj, measure, negate, run, seq
from .behind import Contexts
from .budget import Budget
from .loops import Exits, Explorer, Situation
from .terms import ANYTHING, Terms, TooLarge
from .tree import Cat, Look, Or, Times, Tree, cat, either, has_look

__all__ = ["Cont", "Lowering", "lower"]

_DEPTH = 8
"""Levels of IR for each level of `Limits.depth`."""


@dataclass(frozen=True, slots=True, eq=False)
class Cont(Numbered):
    """A place in the pattern: `tree`, then `next`; without `next`, the end.

    `mask` says which lookbehind languages matter from here on: left contexts at a place are those of
    `Lowering.contexts(mask)`, so what no lookbehind asks about any more is forgotten.
    """

    tree: Tree
    next: Cont | None
    mask: int


@dataclass(frozen=True, slots=True)
class Behind:
    """A lookbehind holds if, for some i, the text so far is in language `first + i` and the rest is in `after[i]`."""

    first: int
    after: tuple[int, ...]


def lower(tree: Tree, text: str, budget: Budget) -> Node:
    """The IR node of the texts that match `tree` as a whole."""
    if not isinstance(tree, (Look, Cat, Or, Times)):
        return tree
    lowering = Lowering(text, budget)
    try:
        lowering.learn(tree)
        result = run(lowering.suffix(lowering.cont(tree, lowering.end(0)), 0))
    except TooLarge:
        raise lowering.refusal() from None
    nodes, depth = measure(result)
    limits = budget.limits
    if nodes > limits.nodes:
        raise LimitExceeded("nodes", nodes, limits.nodes)
    if depth > _DEPTH * limits.depth:
        raise LimitExceeded("depth", depth / _DEPTH, limits.depth)
    return result


def _inside_out(tree: Tree) -> list[Tree]:
    """The tree's own nodes, each after those that it holds; a node that stands in several places once."""
    out: list[Tree] = []
    seen: set[int] = set()

    def visit(tree: Tree) -> Generator[Any, Any, None]:
        if isinstance(tree, (Look, Cat, Or, Times)) and serial(tree) not in seen:
            seen.add(serial(tree))
            for part in tree.items if isinstance(tree, (Cat, Or)) else (tree.item,):
                yield visit(part)
            out.append(tree)

    run(visit(tree))
    return out


class Lowering:
    """The work on one pattern."""

    def __init__(self, text: str, budget: Budget) -> None:
        self.text, self.budget = text, budget
        self.terms = Terms()
        self.edges = Edges()
        self.place = (0, len(text))
        """The part that is being worked on, for errors."""
        self._behinds: dict[int, Behind] = {}
        self._languages: list[int] = []
        self._near = 0  # the languages that ask about the last character only
        self._same: dict[object, Behind] = {}
        self._masks: dict[int, int] = {}
        self._contexts: dict[int, Contexts] = {}
        self._conts: dict[tuple[int, int], Cont] = {}
        self._ends: dict[int, Cont] = {}
        self._suffixes: dict[tuple[int, int], Node] = {}
        self._ways: dict[tuple[int, Situation, int], Exits] = {}

    def refusal(self) -> UnsupportedError:
        """The error for a part that is valid but too hard."""
        return UnsupportedError(
            "the lookarounds, anchors or word boundaries here need too many states",
            pointer=f"offset {self.place[0]}",
            hint="use shorter lookarounds and smaller counts, or move them out of the repetition",
            text=self.text,
            span=self.place,
        )

    # --- places

    def cont(self, tree: Tree, after: Cont) -> Cont:
        """The place `tree`, then `after`; equal places are one object."""
        key = (serial(tree), serial(after))
        found = self._conts.get(key)
        if found is None:
            found = self._conts[key] = Cont(tree, after, self.mask(tree) | after.mask)
        return found

    def end(self, mask: int) -> Cont:
        """The place after everything, where the languages of `mask` still matter."""
        if mask not in self._ends:
            self._ends[mask] = Cont(EPSILON, None, mask)
        return self._ends[mask]

    def mask(self, tree: Tree) -> int:
        """Which lookbehind languages a tree asks about."""
        if not isinstance(tree, (Look, Cat, Or, Times)):
            return 0
        known = self._masks.get(serial(tree))
        if known is None:  # a tree made on the way: its parts are known
            known = 0
            for part in tree.items if isinstance(tree, (Cat, Or)) else (tree.item,):
                known |= self.mask(part)
            self._masks[serial(tree)] = known
        return known

    def contexts(self, mask: int) -> Contexts:
        """The left contexts that tell the languages of `mask` apart."""
        if mask not in self._contexts:
            chosen = [language for i, language in enumerate(self._languages) if mask >> i & 1]
            near = mask & ~self._near == 0
            self._contexts[mask] = Contexts(self.terms, self.edges, self.budget, chosen, near)
        return self._contexts[mask]

    def project(self, context: int, mask: int, smaller: int) -> int:
        """A context of `mask` as one of a `smaller` mask."""
        if mask == smaller:
            return context
        state = self.contexts(mask).states[context]
        bits = [i for i in range(mask.bit_length()) if mask >> i & 1]
        kept = tuple(term for i, term in zip(bits, state, strict=True) if smaller >> i & 1)
        return self.contexts(smaller).number[kept]

    # --- lookbehinds

    def learn(self, tree: Tree) -> None:
        """Find the lookbehinds, and the languages of the texts after which they hold, inner ones first."""
        for at in _inside_out(tree):
            if isinstance(at, Look) and not at.ahead:
                self._masks[serial(at)] = self._learn(at)
            else:
                self.mask(at)

    def _learn(self, at: Look) -> int:
        self.place = at.span
        key = as_chars(at.item) or serial(at.item)
        known = self._same.get(key)
        if known is None:
            if not has_look(at.item):
                assert not isinstance(at.item, (Look, Cat, Or, Times))
                ways = [(self.terms.read(seq((ANY_TEXT, at.item))), ANYTHING)]
            else:
                exits = run(self.explore(cat([ANY_TEXT, at.item]), (0, ANYTHING), 0))
                ways = [(self.terms.read(node), after) for (_, after), node in exits.items()]
            if as_chars(at.item) is not None:
                self._near |= 1 << len(self._languages)
            known = Behind(len(self._languages), tuple(after for _, after in ways))
            self._languages.extend(language for language, _ in ways)
            self._same[key] = known
        self._behinds[serial(at)] = known
        return ((1 << len(known.after)) - 1) << known.first

    def condition(self, at: Look, mask: int, context: int) -> Generator[Any, Any, int]:
        """The term that the rest of the text must be in where the look `at` is tested, in a context of `mask`."""
        if not at.near:
            self.place = at.span
        if at.ahead:
            here = self.cont(at.item, self.cont(ANY_TEXT, self.end(0)))
            node = yield self.suffix(here, self.project(context, mask, here.mask))
            term = self.terms.read(node)
        else:
            known = self._behinds[serial(at)]
            state = self.contexts(mask).states[context]
            skipped = (mask & ((1 << known.first) - 1)).bit_count()
            left = zip(state[skipped:], known.after, strict=False)
            term = self.terms.union([after for language, after in left if self.terms.nullable[language]])
        return self.terms.negate(term) if at.negative else term

    def explore(self, tree: Tree, start: Situation, after: int) -> Generator[Any, Any, Exits]:
        """The ways through `tree`: from a context of its mask and `after` together to contexts of `after`."""
        key = (serial(tree), start, after)
        if key not in self._ways:
            self._ways[key] = yield Explorer(self).ways(tree, start, after)
        return self._ways[key]

    # --- the rest of the text

    def suffix(self, at: Cont, context: int) -> Generator[Any, Any, Node]:
        """The IR node of what may follow, up to the end of the text, at the place `at` in a left context of its."""
        if at.next is None:
            return EPSILON
        key = (serial(at), context)
        known = self._suffixes.get(key)
        if known is None:
            known = yield self._suffix(at, at.next, context)
            self._suffixes[key] = known
            self.budget.spend(1)
        return known

    def _suffix(self, at: Cont, after: Cont, context: int) -> Generator[Any, Any, Node]:
        tree = at.tree
        result: Node
        match tree:
            case Cat(items):
                place = after
                for item in reversed(items):
                    place = self.cont(item, place)
                result = yield self.suffix(place, context)
            case Look():
                result = yield self._look(tree, at, after, context)
            case Or(items) if not tree.near:
                branches = []
                for item in items:
                    place = self.cont(item, after)
                    branches.append((yield self.suffix(place, self.project(context, at.mask, place.mask))))
                result = alt(branches)
            case Times(item, 0, 1):
                result = yield self.suffix(self.cont(either([EPSILON, item]), after), context)
            case Or() | Times():
                parts = []
                for (target, condition), node in (yield self.explore(tree, (context, ANYTHING), after.mask)).items():
                    parts.append((node, self._under(condition, (yield self.suffix(after, target)))))
                result = self._joined(parts)
            case _:
                parts = []
                start = self.project(context, at.mask, after.mask)
                for part, target in self.contexts(after.mask).ends(tree, start):
                    parts.append((part, (yield self.suffix(after, target))))
                result = self._joined(parts)
        return result

    def _joined(self, parts: list[tuple[Node, Node]]) -> Node:
        """The union of `part rest`, with parts that have the same rest taken together."""
        groups: dict[int, tuple[list[Node], Node]] = {}
        for part, rest in parts:
            groups.setdefault(serial(rest), ([], rest))[0].append(part)
        return alt([seq((alt(heads), rest)) for heads, rest in groups.values()])

    def _under(self, condition: int, rest: Node) -> Node:
        """The strings of `rest` that meet a condition."""
        near = self.terms.near(condition)
        if near is not None:
            return self.edges.restrict(rest, *near, False)
        return conj(rest, self.terms.node(condition))

    def _look(self, at: Look, place: Cont, after: Cont, context: int) -> Generator[Any, Any, Node]:
        rest: Node = yield self.suffix(after, self.project(context, place.mask, after.mask))
        if rest is EMPTY:
            return EMPTY
        if not at.ahead or as_chars(at.item) is not None:
            return self._under((yield self.condition(at, place.mask, context)), rest)
        here = self.cont(at.item, self.cont(ANY_TEXT, self.end(0)))
        wanted = yield self.suffix(here, self.project(context, place.mask, here.mask))
        if not isinstance(at.item, (Look, Cat, Or, Times)) and self.edges.nullable(at.item):
            wanted = ANY_TEXT  # what begins with a string that may be empty is everything
        return conj(rest, negate(wanted) if at.negative else wanted)
