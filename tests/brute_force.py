"""Languages by brute force, as sets of outputs; and encodings that are small enough for it.

`language(grammar, letters, n)` is the set of all outputs of at most n bytes from `letters`, computed directly from the
docstrings of the IR: a union is a union of sets, `Not` is a difference, and recursion is repeated until nothing is
added. An output is a tuple of bytes. A control token is `~id`, and counts as 1.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import cached_property
from itertools import product

from guided.automaton.reference.substrings import all_substrings
from guided.ir.conditions import AllOf, AnyOf, Condition, Written
from guided.ir.encodings import UTF8, Encoding, Form, Span
from guided.ir.nodes import (
    Alt,
    And,
    Chars,
    Encoded,
    Grammar,
    Length,
    Node,
    Not,
    Permutation,
    Ref,
    Repeat,
    Seq,
    Special,
    Substrings,
    Text,
)

SPECIALS = {"<s>": 0, "<t>": 1}
"""Names of control tokens in drawn grammars, with the ids that `language` uses where none are given."""


def _one(byte: str, value: int = 0) -> tuple[Span, ...]:
    return (Span(ord(byte), ord(byte), value, 1),)


# Every character as in UTF-8. In addition, a and b may be written !a and !b, and é may be written !cb. So `!a` may be
# one character or two.
TOY = Encoding(
    "toy",
    (
        *UTF8.forms,
        Form(((0x61, 0x62),), (_one("!"), (Span(0x61, 0x62, 0x61, 1),))),
        Form(((0xE8, 0xE9),), (_one("!"), _one("c", 0xE8), (Span(0x61, 0x62, 0, 1),))),
    ),
)
# Letters are two hexadecimal digits, in either case: A is 41, é is E9 or e9. Nothing else can be written.
HEX = Encoding(
    "hex",
    (
        Form(
            ((0x20, 0xFF),),
            tuple(
                (Span(0x30, 0x39, 0, step), Span(0x41, 0x46, 10 * step, step), Span(0x61, 0x66, 10 * step, step))
                for step in (16, 1)
            ),
        ),
    ),
)
ENCODINGS = (UTF8, TOY, HEX)


Output = tuple[int, ...]


def spellings(encoding: Encoding, letters: bytes, n: int) -> dict[str, list[bytes]]:
    """The characters that `encoding` can write in `letters` and at most n bytes: character -> all its spellings."""
    found: dict[str, list[bytes]] = {}
    if encoding is UTF8:
        for size in range(1, min(n, 4) + 1):
            for data in product(sorted(set(letters)), repeat=size):
                try:
                    text = bytes(data).decode()
                except UnicodeDecodeError:
                    continue
                if len(text) == 1:
                    found[text] = [bytes(data)]
        return found
    for form in encoding.forms:
        for data in product(sorted(set(letters)), repeat=len(form.digits)) if len(form.digits) <= n else ():
            options = [
                [span.value + (byte - span.low) * span.step for span in spans if span.low <= byte <= span.high]
                for byte, spans in zip(data, form.digits, strict=True)
            ]
            for values in product(*options):
                point = sum(values)
                if any(low <= point <= high for low, high in form.ranges) and not 0xD800 <= point <= 0xDFFF:
                    found.setdefault(chr(point), []).append(bytes(data))
    return found


def _powers(base: set, low: int, high: int | None, one: set, times) -> set:
    """The union of base**low .. base**high; powers of bounded outputs become stationary or empty."""
    if high is not None and high < low:
        return set()
    power, total, count = one, set(), 0
    while True:
        if count >= low:
            total |= power
        if high is not None and count >= high:
            return total
        after, count = times(power, base), count + 1
        if after == power:  # and so are all higher powers
            return total | power
        power = after


class Strings:
    """Strings of code points whose cheapest spelling takes at most n bytes."""

    def __init__(self, rules: Mapping[str, Node], costs: Mapping[str, int], n: int) -> None:
        self.rules, self.costs, self.n = rules, costs, n

    @cached_property
    def every(self) -> set[str]:
        every, fresh = {""}, {""}
        while fresh:
            fresh = self.times(fresh, set(self.costs))
            every |= fresh
        return every

    def cost(self, text: str) -> int:
        return sum(self.costs.get(c, self.n + 1) for c in text)

    def times(self, a: set[str], b: set[str]) -> set[str]:
        return {x + y for x in a for y in b if self.cost(x) + self.cost(y) <= self.n}

    def of(self, node: Node) -> set[str]:
        match node:
            case Chars(ranges):
                chars = {c for c in self.costs if any(low <= ord(c) <= high for low, high in ranges)}
                return self.times({""}, chars)
            case Text(text):
                return self.times({""}, {text})
            case Substrings():
                return self.times({""}, all_substrings(node))
            case Seq(items):
                found = {""}
                for item in items:
                    found = self.times(found, self.of(item))
                return found
            case Alt(items):
                return set().union(*map(self.of, items))
            case Repeat(item, low, high):
                return _powers(self.of(item), low, high, {""}, self.times)
            case And(items):
                return set.intersection(*map(self.of, items)) if items else self.every
            case Not(item):
                return self.every - self.of(item)
            case Length(item, low, high):
                return {text for text in self.of(item) if low <= len(text) and (high is None or len(text) <= high)}
            case Ref(name):
                return self.of(self.rules[name])
        raise AssertionError(node)


class Outputs:
    """Outputs of at most n bytes written in `letters`."""

    def __init__(
        self, grammar: Grammar, letters: bytes, n: int, ids: Mapping[int | str, Collection[int]] | None = None
    ) -> None:
        self.grammar, self.letters, self.n = grammar, letters, n
        self.ids = {name: {id} for name, id in SPECIALS.items()} if ids is None else ids
        self.found: dict[str, set[Output]] = {name: set() for name in grammar.rules}
        self._written: dict[Node, set[Output]] = {}
        self._strings: dict[str, tuple[Strings, dict[str, list[bytes]]]] = {}
        before = None
        while before != self.found:
            before = dict(self.found)
            self.found = {name: self.of(node) for name, node in grammar.rules.items()}

    def times(self, a: set[Output], b: set[Output]) -> set[Output]:
        return {x + y for x in a for y in b if len(x) + len(y) <= self.n}

    def written(self, node: Node, encoding: Encoding) -> set[Output]:
        if encoding.name not in self._strings:
            spelled = spellings(encoding, self.letters, self.n)
            costs = {c: min(map(len, ways)) for c, ways in spelled.items()}
            self._strings[encoding.name] = Strings(self.grammar.rules, costs, self.n), spelled
        strings, spelled = self._strings[encoding.name]
        found: set[Output] = set()
        for text in strings.of(node):
            ways: set[Output] = {()}
            for c in text:
                ways = self.times(ways, {tuple(way) for way in spelled[c]})
            found |= ways
        return found

    def of(self, node: Node) -> set[Output]:
        match node:
            case Chars() | Text() | Substrings() | And() | Not() | Length():
                if node not in self._written:
                    self._written[node] = self.written(node, UTF8)
                return self._written[node]
            case Encoded(item, encoding):
                if node not in self._written:
                    self._written[node] = self.written(item, encoding)
                return self._written[node]
            case Seq(items):
                found: set[Output] = {()}
                for item in items:
                    found = self.times(found, self.of(item))
                return found
            case Alt(items):
                return set().union(*map(self.of, items))
            case Repeat(item, low, high):
                return _powers(self.of(item), low, high, {()}, self.times)
            case Ref(name):
                return self.found[name]
            case Special(token):
                return {(~id,) for id in self.ids[token]} if self.n else set()
            case Permutation():
                return self.permutation(node)
        raise AssertionError(node)

    def permutation(self, node: Permutation) -> set[Output]:
        """Every order of the members, one after the other."""
        separator, items = self.of(node.separator), [self.of(member.item) for member in node.members]
        required = {i for i, member in enumerate(node.members) if member.required}
        total: set[Output] = set()

        def add(order: tuple[int, ...], text: set[Output]) -> None:
            nonlocal total
            if not text:
                return
            whole = required <= set(order) and node.min <= len(order) and (node.max is None or len(order) <= node.max)
            if whole and (node.condition is None or holds(node.condition, set(order))):
                total = total | text
            for i in range(len(node.members)):
                if may_follow(node, order, i):
                    add((*order, i), self.times(self.times(text, separator if order else {()}), items[i]))

        add((), {()})
        return total


def holds(condition: Condition, written: set[int]) -> bool:
    """Whether the condition holds if these members are present."""
    if isinstance(condition, Written):
        return any(member in written for member in condition.members)
    found = [holds(item, written) for item in condition.items]
    return all(found) if isinstance(condition, AllOf) else any(found) == isinstance(condition, AnyOf)


def may_follow(node: Permutation, order: tuple[int, ...], at: int) -> bool:
    """Whether a member may follow the members of `order`, given its slot and the permutation's order."""
    members, slots = node.members, node.slots or tuple(range(len(node.members)))
    if members[at].repeatable:
        return True
    if any(slots[other] == slots[at] for other in order):
        return False
    return not node.ordered or not any(members[other].repeatable or slots[other] > slots[at] for other in order)


def language(
    grammar: Grammar, letters: bytes, n: int, ids: Mapping[int | str, Collection[int]] | None = None
) -> set[Output]:
    """Every output of `grammar` of at most n bytes that is written in `letters`."""
    return Outputs(grammar, letters, n, ids).found[grammar.start]


def fewest_tokens(rest: Output, texts: Iterable[bytes]) -> int | None:
    """The smallest number of tokens that write `rest` (bytes, and control tokens as ~id). None if no tokens do."""
    pieces = {tuple(text) for text in texts}
    best: list[int | None] = [0]
    for end in range(1, len(rest) + 1):
        ways = [
            best[start] + 1
            for start in range(end)
            if best[start] is not None and (rest[start:end] in pieces or (end - start == 1 and rest[start] < 0))
        ]
        best.append(min(ways, default=None))
    return best[-1]
