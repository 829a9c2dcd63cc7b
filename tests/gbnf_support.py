"""Random grammars of GBNF as trees (`tree_grammars.py`), and their text."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping

from tests.tree_grammars import Rules, Tree

PATTERNS = ["a+", "(ab|c)*", "[^a]", ".", "a{1,2}b?", "(?!a).", "(?=.b)[a-c]{2}", "|b", "[^]"]
"""Of ECMA-262, and of Python's re but for the last one, which is any character."""


def regex(pattern: str) -> Tree:
    """The macro of a pattern."""
    compiled = re.compile(pattern.replace("[^]", "."), re.DOTALL)
    return ("where", f'Regex("{pattern}")', lambda text: compiled.fullmatch(text) is not None)


class Drawn:
    """Random grammars, and their text with random blanks, comments, line ends and escapes.

    `tokens`: the ids that xgrammar's macros and the token forms may name, and their names; without them, there are none
    of either.
    """

    def __init__(
        self, source: int | random.Random, letters: str = "abé", tokens: Mapping[int, str] | None = None
    ) -> None:
        self.random = source if isinstance(source, random.Random) else random.Random(source)
        self.letters, self.tokens = letters, tokens

    def rules(self) -> dict[str, Tree]:
        names = ["root", *self.random.sample(["a", "b-c", "x1", "d"], self.random.randint(0, 3))]
        self.names = names
        return {name: self.bounded() if self.tokens and self.random.random() < 0.15 else self.tree(3) for name in names}

    def bounded(self) -> Tree:
        """A rule with an option, which must be regular."""
        plain = Drawn(self.random, self.letters)
        plain.names = []
        return ("bounded", plain.tree(2), self.random.randint(0, 3))

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
        if self.tokens and self.random.random() < 0.4:
            return self.macro(self.tokens)
        draw = self.random.random()
        letter = self.random.choice
        if draw < 0.45 and self.names:
            return ("rule", letter(self.names))
        if draw < 0.8:
            return ("text", "".join(letter(self.letters) for _ in range(self.random.randint(0, 2))))
        if draw < 0.95:
            picked = sorted(letter(self.letters) for _ in range(self.random.randint(1, 2)))
            return ("class", [(picked[0], picked[-1])], self.random.random() < 0.3)
        return ("any",)

    def macro(self, tokens: Mapping[int, str]) -> Tree:
        pick, loop = self.random.choice, self.random.random() < 0.6
        match self.random.randrange(6):
            case 0:
                return ("token", pick([*tokens]))
            case 1:
                return ("others", self.random.sample([*tokens], self.random.randint(1, 2)))
            case 2:
                ids = self.random.sample([*tokens], self.random.randint(0, 3))
                of_tag = self.random.randint(0, len(ids))
                return ("token tags", [(id, pick(self.names)) for id in ids[:of_tag]], ids[of_tag:], loop)
            case 3:
                return self.tags(loop)
        return regex(pick(PATTERNS))

    def tags(self, loop: bool) -> Tree:
        """Tags and excluded texts, none of which contains another one except at its end."""
        words: list[str] = []
        for _ in range(self.random.randint(0, 4)):
            word = "".join(self.random.choice(self.letters) for _ in range(self.random.randint(1, 3)))
            if not any(one in word[:-1] or word in one[:-1] or one == word for one in words):
                words.append(word)
        of_tag = self.random.randint(0, len(words))
        tags, excludes = words[:of_tag], words[of_tag:]
        tags = [tag for tag in tags if not any(tag.endswith(never) for never in excludes)]
        return ("tags", [(tag, self.random.choice(self.names)) for tag in tags], excludes, loop)

    def text(self, rules: Rules) -> str:
        out = ""
        for name, tree in rules.items():
            option = ""
            if tree[0] == "bounded":
                option, tree = self.random.choice(["[max_chars={0}]", "[ max_chars = {0} ]"]).format(tree[2]), tree[1]
            out += f"{name}{option}{self.blank()}::={self.blank()}{self.written(tree, False)}"
            out += letter_of(self.random, ["\n", "\r\n", " # more\n", "\n\n", '  \n# "a" ::= (\n'])
        return out

    def blank(self) -> str:
        return letter_of(self.random, ["", " ", " ", "\t"])

    def gap(self, nested: bool) -> str:
        return letter_of(self.random, [" ", "  ", "\t", *(["\n", " # note\n  ", "\r\n"] if nested else [])])

    def written(self, tree: Tree, nested: bool) -> str:
        """The text of a tree, as a list of alternatives."""
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
            case ("token tags", tags, excludes, loop):
                listed = "".join(f"({id}, {name}), " for id, name in tags)
                never = ", ".join(map(str, excludes))
                return f"TokenTagDispatch({listed}excludes=({never}), loop_after_dispatch={str(loop).lower()})"
            case ("token", id):
                return letter_of(self.random, [self.named(id), f"<[{id}]>", f"Token({id})"])
            case ("others", ids):
                listed = f"ExcludeToken({', '.join(map(str, ids))})"
                return listed if len(ids) > 1 else letter_of(self.random, [listed, "!" + self.named(ids[0])])
            case ("where", written, _):
                return str(written)
            case ("seq", []):
                return letter_of(self.random, ["()", '""', "( )"])
        return f"({self.gap(True)}{self.written(tree, True)}{self.gap(True)})"

    def named(self, id: int) -> str:
        name = (self.tokens or {}).get(id, "")
        return name if name.startswith("<") else f"<[{id}]>"

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
