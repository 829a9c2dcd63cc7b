"""What the tests of GBNF share: grammars as trees, their text, and what they generate, by the definition.

A grammar is a mapping from names to trees. A tree is one of

    ("text", "ab")   ("class", [("a", "c")], negated)   ("any",)   ("rule", name)
    ("seq", [..])   ("alt", [..])   ("repeat", tree, low, high or None)   ("tags", [(tag, name)], excludes, loop)
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

Tree = tuple[Any, ...]
Rules = Mapping[str, Tree]


def accepts(rules: Rules, text: str, root: str = "root") -> bool:
    """Whether the grammar generates the text.

    For each rule and each position: where it may end. These sets grow until they change no more, so recursion on the
    left, and rules that need only themselves, are no special case.
    """
    ends: dict[tuple[str, int], set[int]] = {(name, at): set() for name in rules for at in range(len(text) + 1)}

    def of(tree: Tree, at: int) -> set[int]:
        match tree:
            case ("text", word):
                return {at + len(word)} if text.startswith(word, at) else set()
            case ("class", ranges, negated):
                inside = at < len(text) and any(low <= text[at] <= high for low, high in ranges)
                return {at + 1} if at < len(text) and inside != negated else set()
            case ("any",):
                return {at + 1} if at < len(text) else set()
            case ("rule", name):
                return set(ends[name, at])
            case ("seq", items):
                places = {at}
                for item in items:
                    places = {end for place in places for end in of(item, place)}
                return places
            case ("alt", items):
                return {end for item in items for end in of(item, at)}
            case ("repeat", item, low, high):
                places, found, count = {at}, set[int](), 0
                while places and (high is None or count <= high) and count <= low + len(text) + 1:
                    found |= places if count >= low else set()
                    places = {end for place in places for end in of(item, place)}
                    count += 1
                return found
            case ("tags", tags, excludes, loop):
                found, starts = set[int](), {at}
                while starts:
                    free = {(start, end) for start in starts for end in range(start, len(text) + 1)}
                    strings = [*excludes, *(tag for tag, _ in tags)]
                    plain = {end for start, end in free if not any(string in text[start:end] for string in strings)}
                    found |= plain if loop or starts == {at} else set()
                    after = {
                        end
                        for start in starts
                        for tag, name in tags
                        for stop in range(start, len(text) + 1)
                        if first_is(text[start:stop], tag, [tag for tag, _ in tags], excludes)
                        for end in ends[name, stop]
                    }
                    if not loop:
                        return found | after
                    starts = after - starts if after != starts else set()
                return found
        raise AssertionError(tree)

    while True:
        before = sum(map(len, ends.values()))
        for name, tree in rules.items():
            for at in range(len(text) + 1):
                ends[name, at] |= of(tree, at)
        if sum(map(len, ends.values())) == before:
            return len(text) in ends[root, 0]


def first_is(text: str, tag: str, tags: list[str], excludes: list[str]) -> bool:
    """Whether the text ends with the tag, and nothing is complete in it before. No tag begins another one here."""
    before = text[:-1]
    return (
        text.endswith(tag)
        and not any(string in text for string in excludes)
        and not any(other in before for other in tags)
        and tag == max((other for other in tags if text.endswith(other)), key=len)
    )


def generates_something(rules: Rules, root: str = "root") -> bool:
    """Whether the grammar generates any text."""
    productive: set[str] = set()

    def of(tree: Tree) -> bool:
        match tree:
            case ("rule", name):
                return name in productive
            case ("seq", items):
                return all(map(of, items))
            case ("alt", items):
                return any(map(of, items))
            case ("repeat", item, low, _):
                return low == 0 or of(item)
        return True

    for _ in rules:
        productive |= {name for name, tree in rules.items() if of(tree)}
    return root in productive


class Drawn:
    """Random grammars, and their text with random blanks, comments, line ends and escapes."""

    def __init__(self, seed: int, letters: str = "abé") -> None:
        self.random = random.Random(seed)
        self.letters = letters

    def rules(self) -> dict[str, Tree]:
        names = ["root", *self.random.sample(["a", "b-c", "x1", "d"], self.random.randint(0, 3))]
        self.names = names
        return {name: self.tree(3) for name in names}

    def tree(self, depth: int) -> Tree:
        draw = self.random.random()
        if depth == 0 or draw < 0.35:
            return self.leaf()
        if draw < 0.6:
            return ("seq", [self.tree(depth - 1) for _ in range(self.random.randint(0, 3))])
        if draw < 0.8:
            return ("alt", [self.tree(depth - 1) for _ in range(self.random.randint(1, 3))])
        low = self.random.choice([0, 0, 1, 2])
        return ("repeat", self.tree(depth - 1), low, self.random.choice([None, low, low + 1, low + 2]))

    def leaf(self) -> Tree:
        draw = self.random.random()
        letter = self.random.choice
        if draw < 0.45:
            return ("rule", letter(self.names))
        if draw < 0.8:
            return ("text", "".join(letter(self.letters) for _ in range(self.random.randint(0, 2))))
        if draw < 0.95:
            picked = sorted(letter(self.letters) for _ in range(self.random.randint(1, 2)))
            return ("class", [(picked[0], picked[-1])], self.random.random() < 0.3)
        return ("any",)

    def text(self, rules: Rules) -> str:
        out = ""
        for name, tree in rules.items():
            out += f"{name}{self.blank()}::={self.blank()}{self.written(tree, False)}"
            out += letter_of(self.random, ["\n", "\r\n", " # more\n", "\n\n", '  \n# "a" ::= (\n'])
        return out

    def blank(self) -> str:
        return letter_of(self.random, ["", " ", " ", "\t"])

    def gap(self, nested: bool) -> str:
        return letter_of(self.random, [" ", "  ", "\t", *(["\n", " # note\n  ", "\r\n"] if nested else [])])

    def written(self, tree: Tree, nested: bool) -> str:
        """The text of a tree, as an alternative list."""
        match tree:
            case ("alt", items):
                bar = f"{self.gap(nested)}|{self.gap(True)}"
                return bar.join(self.sequence(item, nested) for item in items)
        return self.sequence(tree, nested)

    def sequence(self, tree: Tree, nested: bool) -> str:
        match tree:
            case ("seq", items) if items:
                return self.gap(nested).join(self.item(item, nested) for item in items)
        return self.item(tree, nested)

    def item(self, tree: Tree, nested: bool) -> str:
        match tree:
            case ("text", word):
                return '"' + "".join(map(self.char, word)) + '"'
            case ("class", ranges, negated):
                inside = "".join(
                    self.char(low) if low == high else f"{self.char(low)}-{self.char(high)}" for low, high in ranges
                )
                return f"[{'^' if negated else ''}{inside}]"
            case ("any",):
                return "."
            case ("rule", name):
                return str(name)
            case ("repeat", item, low, high):
                return self.item(item, nested) + self.blank() + self.times(low, high)
            case ("tags", tags, excludes, loop):
                listed = "".join(f'("{tag}", {name}), ' for tag, name in tags)
                never = "".join(f'"{text}", ' for text in excludes)
                return f"TagDispatch({listed}excludes=({never}), loop_after_dispatch={str(loop).lower()})"
            case ("seq", []):
                return letter_of(self.random, ["()", '""', "( )"])
        return f"({self.gap(True)}{self.written(tree, True)}{self.gap(True)})"

    def times(self, low: int, high: int | None) -> str:
        short = {(0, None): "*", (1, None): "+", (0, 1): "?"}.get((low, high))
        bounds = f"{low}" if low == high else f"{low},{'' if high is None else high}"
        return (
            short
            if short and self.random.random() < 0.7
            else letter_of(self.random, [f"{{{bounds}}}", f"{{ {bounds} }}"])
        )

    def char(self, char: str) -> str:
        code = ord(char)
        return letter_of(
            self.random, [char, char, f"\\x{code:02x}" if code < 256 else char, f"\\u{code:04X}", f"\\U{code:08x}"]
        )


def letter_of(source: random.Random, texts: list[str]) -> str:
    return source.choice(texts)
