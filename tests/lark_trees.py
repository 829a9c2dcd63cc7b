"""Random grammars in Lark's notation and its extensions, as trees (`tree_grammars.py`) and as text."""

from __future__ import annotations

import json
import random
import re

from tests.tree_grammars import Rules, Tree

NAMED = {"sub": 'start: "b" start | "a"'}
"""The grammars that a text may refer to as @sub."""


def matching(written: str, pattern: str) -> Tree:
    """A leaf whose texts Python's `re` can decide."""
    compiled = re.compile(pattern, re.DOTALL)
    return ("where", written, lambda text: compiled.fullmatch(text) is not None)


def is_nested(text: str) -> bool:
    """The texts of a c b, with any number of pairs of a and b around c."""
    half = len(text) // 2
    return text == "a" * half + "c" + "b" * half


LEAVES: list[Tree] = [
    matching("/a+b?/", "a+b?"), matching("/[^a]/", "[^a]"), matching('"a".."b"', "[ab]"),
    matching('"aB"i', "(?i:ab)"), matching("/[^b](?<!a)/", "[^ab]"), matching("/ab|a/", "a|ab"),
    matching("/a|ab/", "a"), matching("/A/i", "[aA]"), matching("/./", r"[^\n]"),
    matching('%json {"enum": [null, false]}', "null|false"), matching('%json {"type": "boolean"}', "true|false"),
    matching('%regex {"substring_chars": "aba"}', "|a|b|ab|ba|aba"), matching("@sub", "b*a"),
    matching('%regex {"substring_chunks": ["ab", "c"]}', "|ab|c|abc"),
    ("where", '%lark { start: "a" start "b" | C\nC: "c" }', is_nested), ("token", 257), ("token", 258),
    ("others", [257]), ("others", [97, 258]), ("others", []),
]  # fmt: skip
TERMINALS = [
    ("/[abc]+/ & ~/.*bb.*/", "(?!.*bb)[abc]+"), ("~(/a.*/) & /[abc]{1,3}/", "(?!a)[abc]{1,3}"),
    ('"a" | "b" "c"?', "a|bc?"), ('("a" | /b/)+ "c"', "[ab]+c"), ('"a"~1..3', "a{1,3}"), ('"ab"{2}', "abab"),
    ('["a"] "b"', "a?b"), ("/b+/ | OTHER", "b+|c"),
]  # fmt: skip
ATTRIBUTES = [
    ("[max_chars=2]", "/[ab]+/", "[ab]{1,2}"), ('[stop="b"]', "/[abc]+/", "[ac]+"),
    ("[max_chars=3]", "T0 | OTHER", None), ("[capture]", "/a?b/", "a?b"), ('[capture="x"]', '"a" OTHER', "ac"),
    ("[max_tokens=9]", "/c{1,2}/", "c{1,2}"),
]  # fmt: skip


class DrawnLark:
    """Random grammars of one source of chance."""

    def __init__(self, source: random.Random) -> None:
        self.random = source

    def rules(self) -> dict[str, Tree]:
        names = ["start", *self.random.sample(["a", "b_c", "_x1", "d-e"], self.random.randint(0, 3))]
        self.terminals = [self.random.choice(TERMINALS) for _ in range(self.random.randint(1, 3))]
        self.names = names
        rules = {name: self.tree(3) for name in names}
        for name in names[1:]:
            if self.random.random() < 0.2:
                rules[name] = self.attributed()
        return rules

    def attributed(self) -> Tree:
        """A rule with an attribute."""
        attribute, body, pattern = self.random.choice(ATTRIBUTES)
        if pattern is None:  # the first terminal, or another one, of at most three characters
            pattern = f"(?=.{{0,3}}$)(?:{self.terminals[0][1]}|c)"
        return matching(f"{attribute}: {body}", pattern)

    def tree(self, depth: int) -> Tree:
        draw = self.random.random()
        if depth == 0 or draw < 0.35:
            return self.leaf()
        if draw < 0.6:
            return ("seq", [self.tree(depth - 1) for _ in range(self.random.randint(1, 3))])
        if draw < 0.8:
            return ("alt", [self.tree(depth - 1) for _ in range(self.random.randint(1, 3))])
        low = self.random.choice([0, 0, 1, 2])
        return ("repeat", self.tree(depth - 1), low, self.random.choice([None, low, low + 1, low + 2]))

    def leaf(self) -> Tree:
        draw, pick = self.random.random(), self.random.choice
        if draw < 0.4:
            return ("rule", pick(self.names))
        if draw < 0.55:
            return ("text", "".join(pick("abc") for _ in range(self.random.randint(1, 2))))
        if draw < 0.7:
            number = self.random.randrange(len(self.terminals))
            return matching(f"T{number}", self.terminals[number][1])
        return pick(LEAVES)

    def text(self, rules: Rules) -> str:
        """The grammar, with its rules and terminals in any order."""
        lines = []
        for name, tree in rules.items():
            if tree[0] == "where" and tree[1].startswith("["):
                lines.append(name + tree[1])
            else:
                mark = self.random.choice(["", "", "!", *(["?"] if name[0] != "_" else [])])
                lines.append(f"{mark}{name}{self.blank()}:{self.blank()}{self.body(tree)}")
        lines += [f"T{number}{self.blank()}: {written}" for number, (written, _) in enumerate(self.terminals)]
        lines.append('OTHER: "c"')
        self.random.shuffle(lines)
        return "".join(line + self.random.choice(["\n", "\n\n", " // note\n", "\n# note\n"]) for line in lines)

    def blank(self) -> str:
        return self.random.choice(["", " ", " ", "  "])

    def body(self, tree: Tree) -> str:
        """The text of a tree, as alternatives."""
        if tree[0] == "alt":
            bar = self.random.choice([" | ", "|", "\n    | "])
            return bar.join(self.sequence(item) for item in tree[1])
        return self.sequence(tree)

    def sequence(self, tree: Tree) -> str:
        if tree[0] == "seq":
            return " ".join(self.item(item) for item in tree[1])
        return self.item(tree)

    def item(self, tree: Tree) -> str:
        match tree:
            case ("text", word):
                return json.dumps(word)
            case ("rule", name) | ("where", name, _):
                return str(name)
            case ("token", id):
                return self.random.choice([f"<[{id}]>", {257: "<think>", 258: "</think>"}[id]])
            case ("others", ids):
                return f"<[^{','.join(map(str, ids))}]>" if ids else "<[*]>"
            case ("repeat", item, low, high) if item[0] == "repeat":  # Lark allows one at a time
                return f"({self.item(item)}){self.times(low, high)}"
            case ("repeat", item, 0, 1) if self.random.random() < 0.5:
                return f"[{self.body(item)}]"
            case ("repeat", item, low, high):
                return self.item(item) + self.times(low, high)
        return f"({self.body(tree)})"

    def times(self, low: int, high: int | None) -> str:
        short = {(0, None): "*", (1, None): "+", (0, 1): "?"}.get((low, high))
        if short and self.random.random() < 0.8:
            return short
        if low == high:
            return self.random.choice([f"{{{low}}}", f"~{low}"])
        return f"{{{low},}}" if high is None else self.random.choice([f"{{{low},{high}}}", f"~{low}..{high}"])
