"""Shared by the regex tests: a simple matcher for IR nodes, and generators of patterns and of texts near them."""

from __future__ import annotations

import json
import random
import re
import shutil
import subprocess

from guided.ir.nodes import Alt, And, Automaton, Chars, Length, Node, Not, Repeat, Seq, Text
from guided.ir.ranges import charset

NODE = shutil.which("node")


def matches(node: Node, text: str) -> bool:
    """Whether the complete `text` is in the language, by the definition of each node."""
    known: dict[tuple[int, int], frozenset[int]] = {}

    def ends(node: Node, start: int) -> frozenset[int]:
        key = (id(node), start)
        if key not in known:
            known[key] = frozenset(compute(node, start))
        return known[key]

    def compute(node: Node, start: int) -> set[int] | frozenset[int]:
        match node:
            case Chars(ranges):
                inside = start < len(text) and any(low <= ord(text[start]) <= high for low, high in ranges)
                return {start + 1} if inside else set()
            case Text(value):
                return {start + len(value)} if text.startswith(value, start) else set()
            case Seq(items):
                at = {start}
                for item in items:
                    at = {end for middle in at for end in ends(item, middle)}
                return at
            case Alt(items):
                return {end for item in items for end in ends(item, start)}
            case Repeat(item, low, high):
                at, out, count = {start}, set(), 0
                while at and (high is None or count <= high):
                    if count >= low:
                        if at <= out:
                            break
                        out |= at
                    elif count > len(text) + 1:  # all further rounds are empty
                        return at
                    at = {end for middle in at for end in ends(item, middle)}
                    count += 1
                return out
            case And(items):
                return frozenset(range(start, len(text) + 1)).intersection(*(ends(item, start) for item in items))
            case Not(item):
                return frozenset(range(start, len(text) + 1)) - ends(item, start)
            case Length(item, low, high):
                top = len(text) if high is None else high
                return {end for end in ends(item, start) if low <= end - start <= top}
            case Automaton(states, first):
                out, state = set(), first
                for end in range(start, len(text) + 1):
                    out |= {end} if states[state][0] else set()
                    edges = states[state][1]
                    state = next((to for low, high, to in edges if low <= ord(text[end : end + 1] or "\0") <= high), -1)
                    if state < 0 or end == len(text):
                        break
                return out
            case _:
                raise TypeError(type(node).__name__)

    return len(text) in ends(node, 0)


class Patterns:
    """Random patterns and texts near them, of one dialect."""

    def __init__(self, source: random.Random, dialect: str, *, letters: str = "ab1 -\n") -> None:
        self.random = source
        self.python = dialect == "python"
        self.letters = letters
        self.groups = 0

    def pattern(self, depth: int = 3) -> str:
        """A pattern."""
        self.groups = 0
        flags = ""
        if self.python and self.random.random() < 0.2:
            flags = self.random.choice(["(?i)", "(?m)", "(?s)", "(?a)", "(?x)", "(?im)", "(?ia)"])
        return flags + self.choice(depth)

    def choice(self, depth: int) -> str:
        count = self.random.choice([1, 1, 1, 2, 2, 3])
        return "|".join(self.sequence(depth) for _ in range(count))

    def sequence(self, depth: int) -> str:
        return "".join(self.part(depth) for _ in range(self.random.choice([0, 1, 1, 2, 2, 3, 4])))

    def part(self, depth: int) -> str:
        kind = self.random.random()
        if kind < 0.15:
            return self.anchor()
        if kind < 0.28 and depth > 0:
            return self.look(depth)
        atom = self.atom(depth)
        if self.random.random() < 0.4:
            atom += self.quantifier()
        return atom

    def quantifier(self) -> str:
        r = self.random
        low = r.randint(0, 3)
        most = low + r.randint(0, 2)
        text = r.choice(["*", "+", "?", f"{{{low}}}", f"{{{low},}}", f"{{{low},{most}}}"])
        return text + r.choice(["", "", "", "?", *(["+"] if self.python else [])])

    def letter(self) -> str:
        c = self.random.choice(self.letters)
        return {"\n": "\\n", "-": "\\-" if self.python else "-", " ": "\\x20"}.get(c, c)

    def anchor(self) -> str:
        return self.random.choice(["^", "$", "\\b", "\\B", *(["\\A", "\\Z"] if self.python else [])])

    def look(self, depth: int) -> str:
        opening = self.random.choice(["(?=", "(?!", "(?=", "(?!", "(?<=", "(?<!"])
        inside = self.narrow() if self.python and "<" in opening else self.choice(depth - 1)
        text = f"{opening}{inside})"
        if self.random.random() < 0.1:
            text = f"(?:{text})" + self.quantifier()
        return text

    def narrow(self) -> str:
        """A pattern of fixed width."""
        count = self.random.choice([1, 1, 1, 2])
        width = self.random.choice([0, 1, 1, 1, 2])

        def one() -> str:
            out = ""
            for _ in range(width):
                out += self.random.choice(["", "", "\\b", "^", "$", "(?!b)", "(?<=a)"]) + self.single()
            return out + self.random.choice(["", "", "", "\\b", "$", "(?=a)"])

        return "|".join(one() for _ in range(count))

    def single(self) -> str:
        r = self.random
        return r.choice(
            [self.letter, self.letter, self.letter, self.char_class, lambda: r.choice([".", "\\w", "\\s"])]
        )()

    def char_class(self) -> str:
        r = self.random
        members = "".join(
            r.choice([self.letter(), self.letter(), "\\d", "\\w", "\\W", "\\s", "a-b", "\\S"])
            for _ in range(r.randint(1, 2))
        )
        members = members.replace("--", "-")
        return f"[{r.choice(['', '^'])}{members}]".replace("[-", "[\\-").replace("^-", "^\\-")

    def atom(self, depth: int) -> str:
        r = self.random.random()
        if r < 0.7 or depth <= 0:
            return self.single()
        inside = self.choice(depth - 1)
        openings = ["(", "(?:", "(?:"]
        if self.python:
            openings += ["(?>", "(?i:", "(?-i:", "(?s-m:", "(?m:", "(?a:", f"(?P<g{self.groups}>"]
        else:
            openings += [f"(?<g{self.groups}>"]
        self.groups += 1
        return self.random.choice(openings) + inside + ")"

    def texts(self, node: Node, count: int) -> list[str]:
        """Texts inside and just outside the language of `node`."""
        out = []
        for _ in range(count):
            text = self.walk(node)[:14]
            if self.random.random() < 0.6:
                text = self.change(text)
            out.append(text)
        return out

    def change(self, text: str) -> str:
        """The text with one small change."""
        r = self.random
        at = r.randint(0, len(text))
        kind = r.random()
        if kind < 0.4:
            return text[:at] + r.choice(self.letters) + text[at:]
        if kind < 0.7:
            return text[:at] + text[at + 1 :]
        if kind < 0.85:
            return text[:at] + r.choice(self.letters) + text[at + 1 :]
        return "".join(r.choice(self.letters) for _ in range(r.randint(0, 5)))

    def walk(self, node: Node) -> str:
        """A text that the node probably contains."""
        r = self.random
        match node:
            case Chars(ranges):
                known = [c for c in self.letters if any(low <= ord(c) <= high for low, high in ranges)]
                if known and r.random() < 0.95:
                    return r.choice(known)
                low, high = r.choice(ranges)
                return chr(r.randint(low, high))
            case Text(value):
                return value
            case Seq(items):
                return "".join(self.walk(item) for item in items)
            case Alt(items):
                return self.walk(r.choice(items)) if items else ""
            case Repeat(item, low, high):
                top = low + 2 if high is None else min(high, low + 2)
                return "".join(self.walk(item) for _ in range(min(r.randint(low, top), 6)))
            case And(items):
                return self.walk(r.choice(items))
            case Length(item, _, _):
                return self.walk(item)
            case Automaton(states, state):
                out = ""
                while states[state][1] and len(out) < 14 and not (states[state][0] and r.random() < 0.3):
                    low, high, state = r.choice(states[state][1])
                    known = [c for c in self.letters if low <= ord(c) <= high]
                    out += r.choice(known) if known and r.random() < 0.9 else chr(r.randint(low, high))
                return out
            case _:
                return "".join(r.choice(self.letters) for _ in range(r.randint(0, 4)))


_SCRIPT = """
const lines = require('fs').readFileSync(0, 'utf8').split('\\n');
const out = [];
for (const line of lines) {
  if (!line) continue;
  const [pattern, flags, texts] = JSON.parse(line);
  let regex;
  try { regex = new RegExp(pattern, flags); } catch (error) { out.push(JSON.stringify(String(error))); continue; }
  out.push(JSON.stringify(texts.map((text) => regex.test(text))));
}
process.stdout.write(out.join('\\n'));
"""


def ask_node(cases: list[tuple[str, str, list[str]]]) -> list[list[bool] | str]:
    """For each (pattern, flags, texts): the texts that `RegExp.test` accepts, or the error message."""
    assert NODE is not None
    lines = "\n".join(json.dumps(case) for case in cases)
    done = subprocess.run([NODE, "-e", _SCRIPT], input=lines, capture_output=True, text=True, check=True, timeout=300)
    return [json.loads(line) for line in done.stdout.split("\n")] if cases else []


def scan(node: Node) -> list[tuple[int, int]]:
    """The ranges of a node that matches one character."""
    if isinstance(node, Text):
        return [(ord(node.text), ord(node.text))]
    if isinstance(node, Chars):
        return list(node.ranges)
    assert node == Alt(()), node
    return []


EVERY = [*range(0xD800), *range(0xE000, 0x110000)]
TEXT = "".join(map(chr, EVERY))


def ranges_of(flags: str, one_character: str) -> list[tuple[int, int]]:
    """The characters that `re` matches with a pattern of one character."""
    runs = (match.span() for match in re.finditer(f"{flags}(?:{one_character})+", TEXT))
    return list(charset((EVERY[start], EVERY[end - 1]) for start, end in runs))
