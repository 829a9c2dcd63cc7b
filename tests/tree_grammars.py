"""Grammars as trees, and the texts that they generate, by definition. The tests of several notations share them.

A grammar is a mapping from names to trees. A tree is one of

    ("text", "ab")   ("class", [("a", "c")], negated)   ("any",)   ("rule", name)   ("where", written, judge)
    ("seq", [..])   ("alt", [..])   ("repeat", tree, low, high or None)   ("bounded", tree, characters)
    ("tags", [(tag, name)], excludes, loop)   ("token tags", [(id, name)], excludes, loop)   ("token", id)
    ("others", ids)

`written` is the spelling, in a notation, of the texts for which `judge` is true. In a text, a token without text is one
character, `chr(0xD800 + id)`, which no other text contains. Every other character is the token of its code.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Any

Tree = tuple[Any, ...]
Rules = Mapping[str, Tree]

CONTROL = 0xD800


def is_control(char: str) -> bool:
    """Whether the character stands for a token without a text."""
    return CONTROL <= ord(char) < 0xE000


def id_of(char: str) -> int:
    """The token for which a character stands: a byte, or a token without text."""
    return ord(char) - CONTROL if is_control(char) else ord(char)


def accepts(rules: Rules, text: str, root: str = "root") -> bool:
    """Whether the grammar generates the text.

    For each rule and each position, it computes where the rule may end. These sets grow until nothing changes, so
    left recursion, and rules that refer only to themselves, are not special cases.
    """
    derivation = _Derivation(text, rules)
    while True:
        before = sum(map(len, derivation.ends.values()))
        for name, tree in rules.items():
            for at in range(len(text) + 1):
                derivation.ends[name, at] |= derivation.of(tree, at)
        if sum(map(len, derivation.ends.values())) == before:
            return len(text) in derivation.ends[root, 0]


class _Derivation:
    """The known ends of the rules: `ends` of a rule that begins at a position."""

    def __init__(self, text: str, rules: Rules) -> None:
        self.text = text
        self.ends: dict[tuple[str, int], set[int]] = {
            (name, at): set() for name in rules for at in range(len(text) + 1)
        }

    def of(self, tree: Tree, at: int) -> set[int]:
        """The possible ends of a tree that begins at this position."""
        text = self.text
        match tree:
            case ("text", word):
                return {at + len(word)} if text.startswith(word, at) else set()
            case ("class", ranges, negated):
                return self.one(at, lambda char: any(low <= char <= high for low, high in ranges) != negated)
            case ("any",):
                return self.one(at, lambda char: True)
            case ("where", _, judge):
                return {end for end in self.plain_ends(at) if judge(text[at:end])}
            case ("token", id):
                return {at + 1} if at < len(text) and id_of(text[at]) == id else set()
            case ("others", ids):
                return self.one(at, lambda char: id_of(char) not in ids)
            case ("rule", name):
                return set(self.ends[name, at])
            case ("seq", items):
                places = {at}
                for item in items:
                    places = {end for place in places for end in self.of(item, place)}
                return places
            case ("alt", items):
                return {end for item in items for end in self.of(item, at)}
            case ("repeat", item, low, high):
                places, found, count = {at}, set[int](), 0
                while places and (high is None or count <= high) and count <= low + len(text) + 1:
                    found |= places if count >= low else set()
                    places = {end for place in places for end in self.of(item, place)}
                    count += 1
                return found
            case ("bounded", item, most):
                return {end for end in self.of(item, at) if end - at <= most}
            case ("token tags", tags, excludes, loop):
                free: Tree = ("repeat", ("others", {*excludes, *(id for id, _ in tags)}), 0, None)
                calls = ("alt", [("seq", [free, ("token", id), ("rule", name)]) for id, name in tags])
                return self.of(("seq", [("repeat", calls, 0, None), free]) if loop else ("alt", [calls, free]), at)
            case ("tags", tags, excludes, loop):
                return self.dispatched(tags, excludes, loop, at)
        raise AssertionError(tree)

    def one(self, at: int, taken: Callable[[str], bool]) -> set[int]:
        """The end of one character with text."""
        text = self.text
        return {at + 1} if at < len(text) and not is_control(text[at]) and taken(text[at]) else set()

    def plain_ends(self, at: int) -> range:
        """The length of the text up to the next token without text."""
        text = self.text
        return range(at, next((end for end in range(at, len(text)) if is_control(text[end])), len(text)) + 1)

    def dispatched(self, tags: list[tuple[str, str]], excludes: list[str], loop: bool, at: int) -> set[int]:
        """The ends of free text and tags, each with its rule."""
        found, starts = set[int](), {at}
        names = [tag for tag, _ in tags]
        while starts:
            free = {(start, end) for start in starts for end in self.plain_ends(start)}
            plain = {end for start, end in free if not any(word in self.text[start:end] for word in excludes + names)}
            found |= plain if loop or starts == {at} else set()
            after = {
                end
                for start, stop in free
                for tag, name in tags
                if first_is(self.text[start:stop], tag, names, excludes)
                for end in self.ends[name, stop]
            }
            if not loop:
                return found | after
            starts = after - starts if after != starts else set()
        return found


def first_is(text: str, tag: str, tags: list[str], excludes: list[str]) -> bool:
    """Whether the text ends with the tag, and contains no earlier complete tag. No tag begins another one here."""
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
            case ("bounded", item, most):  # it refers to no rule
                words = (word for size in range(most + 1) for word in itertools.product("abcz", repeat=size))
                return any(accepts({"root": item}, "".join(word)) for word in words)
        return True

    for _ in rules:
        productive |= {name for name, tree in rules.items() if of(tree)}
    return root in productive
