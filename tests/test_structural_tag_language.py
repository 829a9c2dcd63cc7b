"""Structural tags compared with an acceptor that implements the meaning of each format, position by position, on random
formats.

`ends(format, text, at, never)` is the set of positions at which a text of the format that begins at `at` may end.
`never`: the strings that free text must not contain because of the surrounding tag.
"""

from __future__ import annotations

import random
import re
from typing import Any

import pytest

from guided.errors import SpecError
from tests.effort import every
from tests.structural_tag_support import accepts, byte_compiler, of_format

Form = dict[str, Any]


def free(text: str, at: int, never: list[str]) -> set[int]:
    """The ends of free text: as far as no string of `never` is complete."""
    return {end for end in range(at, len(text) + 1) if not any(string in text[at:end] for string in never)}


def literal(text: str, at: int, string: str) -> set[int]:
    return {at + len(string)} if text.startswith(string, at) else set()


def ends(form: Form, text: str, at: int, never: list[str]) -> set[int]:
    def one(part: Form, place: int) -> set[int]:
        return ends(part, text, place, never)

    match form["type"]:
        case "const_string":
            return literal(text, at, form["value"])
        case "any_text":
            most = form.get("max_chars")
            found = free(text, at, [*form.get("excludes", []), *never])
            return {end for end in found if most is None or end - at <= most}
        case "regex":
            return {end for end in range(at, len(text) + 1) if re.fullmatch(form["pattern"], text[at:end])}
        case "json_schema":  # only of booleans
            return literal(text, at, "true") | literal(text, at, "false")
        case "sequence":
            places = {at}
            for part in form["elements"]:
                places = {end for place in places for end in one(part, place)}
            return places
        case "or":
            return {end for part in form["elements"] for end in one(part, at)}
        case "optional":
            return {at} | one(form["content"], at)
        case "star":
            return iterated({at}, lambda place: one(form["content"], place))
        case "plus":
            return iterated(one(form["content"], at), lambda place: one(form["content"], place))
        case "repeat":
            places, found = {at}, {at} if form["min"] == 0 else set()
            for count in range(1, (form["max"] if form["max"] >= 0 else form["min"] + len(text) + 2) + 1):
                places = {end for place in places for end in one(form["content"], place)}
                found |= places if count >= form["min"] else set()
            return found
        case "tag":
            return {end for place in literal(text, at, form["begin"]) for end in rest(form, text, place)}
        case "tags_with_separator":
            return separated(form, text, at)
        case "triggered_tags":
            pairs = [
                (
                    trigger,
                    [
                        {**tag, "begin": tag["begin"][len(trigger) :]}
                        for tag in form["tags"]
                        if tag["begin"].startswith(trigger)
                    ],
                )
                for trigger in form["triggers"]
            ]
            dispatched = dispatching(text, pairs, [*form.get("excludes", []), *never])
            direct = {end for tag in form["tags"] for end in ends(tag, text, at, [])}
            return arranged(form, text, at, dispatched, direct, [*form["triggers"], *form.get("excludes", []), *never])
        case "dispatch":
            pairs = [(pattern, [content]) for pattern, content in form["rules"]]
            dispatched = dispatching(text, pairs, form.get("excludes", []))
            flags = {"stop_after_first": not form.get("loop", True)}
            return arranged(flags, text, at, dispatched, set(), [*(p for p, _ in pairs), *form.get("excludes", [])])
    raise AssertionError(form)


def iterated(start: set[int], step: Any) -> set[int]:
    found, new = set(start), set(start)
    while new:
        new = {end for place in new for end in step(place)} - found
        found |= new
    return found


def rest(tag: Form, text: str, at: int) -> set[int]:
    closing = [tag["end"]] if isinstance(tag["end"], str) else tag["end"]
    inside = ends(tag["content"], text, at, [end for end in closing if end])
    return {stop for place in inside for end in closing for stop in literal(text, place, end)}


def separated(form: Form, text: str, at: int) -> set[int]:
    def tag(place: int) -> set[int]:
        return {end for one in form["tags"] for end in ends(one, text, place, [])}

    first = tag(at)
    found = first if form.get("stop_after_first") else iterated(
        first, lambda place: {end for after in literal(text, place, form["separator"]) for end in tag(after)}
    )  # fmt: skip
    return found if form.get("at_least_one") else found | {at}


def dispatching(text: str, pairs: list[tuple[str, list[Form]]], never: list[str]) -> Any:
    """From a position to the ends of free text up to the first trigger, and of the part after the trigger."""
    triggers = [trigger for trigger, _ in pairs]

    def step(at: int) -> set[int]:
        found = set()
        for trigger, contents in pairs:
            for stop in range(at + len(trigger), len(text) + 1):
                read = text[at:stop]
                others = [one for one in triggers if one in read[:-1]]
                if read.endswith(trigger) and not others and not any(string in read for string in never):
                    longest = max((one for one in triggers if read.endswith(one)), key=len)
                    parts = contents if longest == trigger else []
                    found |= {end for content in parts for end in ends(content, text, stop, [])}
        return found

    return step


def arranged(form: Form, text: str, at: int, dispatched: Any, direct: set[int], never: list[str]) -> set[int]:
    least, stop = form.get("at_least_one", False), form.get("stop_after_first", False)
    if stop:
        return direct if least else free(text, at, never) | dispatched(at)
    starts = iterated(direct if least else {at}, dispatched)
    return {end for start in starts for end in free(text, start, never)}


class Drawn:
    """Random formats over a few letters, and texts that are probably near them."""

    def __init__(self, source: int | random.Random) -> None:
        self.random = source if isinstance(source, random.Random) else random.Random(source)

    def word(self, least: int = 1) -> str:
        return "".join(self.random.choice("abé<>") for _ in range(self.random.randint(least, 2)))

    def words(self, most: int) -> list[str]:
        return [self.word() for _ in range(self.random.randint(0, most))]

    def tag(self, begin: str, depth: int) -> Form:
        end = self.word() if self.random.random() < 0.7 else [self.word(), self.word()]
        return {"type": "tag", "begin": begin, "content": self.form(depth - 1), "end": end}

    def form(self, depth: int) -> Form:
        pick = self.random.choice
        if depth <= 0 or self.random.random() < 0.25:
            return pick(
                [
                    {"type": "const_string", "value": self.word(0)},
                    {"type": "any_text"},
                    {"type": "any_text", "excludes": self.words(2)},
                    {"type": "any_text", "excludes": self.words(1), "max_chars": self.random.randint(0, 3)},
                    {"type": "regex", "pattern": pick(["a+", "(ab)*", "[a<]", "é?b"])},
                    {"type": "json_schema", "json_schema": {"type": "boolean"}},
                ]
            )
        flags = {name: True for name in ("at_least_one", "stop_after_first") if self.random.random() < 0.4}
        match self.random.randrange(9):
            case 0 | 1:
                elements = [self.form(depth - 1) for _ in range(self.random.randint(1, 3))]
                return {"type": pick(["sequence", "or"]), "elements": elements}
            case 2:
                return {"type": pick(["optional", "star", "plus"]), "content": self.form(depth - 1)}
            case 3:
                low = self.random.randint(0, 2)
                return {"type": "repeat", "min": low, "max": pick([-1, low, low + 1]), "content": self.form(depth - 1)}
            case 4 | 5:
                return self.tag(self.word(0), depth)
            case 6:
                tags = [self.tag(self.word(), depth) for _ in range(self.random.randint(1, 2))]
                return {"type": "tags_with_separator", "tags": tags, "separator": self.word(0), **flags}
            case 7:
                triggers = pick([["<"], ["<a"], ["<", "b"], ["ab", "<"]])
                tags = [self.tag(trigger + self.word(0), depth) for trigger in triggers]
                return {
                    "type": "triggered_tags",
                    "triggers": triggers,
                    "tags": tags,
                    "excludes": pick([[], ["é"], ["bb"]]),
                    **flags,
                }
        rules = [[pattern, self.form(depth - 1)] for pattern in pick([["<"], ["<a", "b"], ["a>", "é"]])]
        return {
            "type": "dispatch",
            "rules": rules,
            "loop": self.random.random() < 0.6,
            "excludes": pick([[], ["bb"], [">>"]]),
        }

    def text(self, form: Form) -> str:
        """Several strings of the format one after the other, with a few changes."""
        strings = [*re.findall(r"'([ab<>é]+|true)'", str(form)), *"ab<>é", "ab", "true", "false"]
        return "".join(self.random.choice(strings) for _ in range(self.random.randint(0, 5)))


def reads(form: Form, text: str) -> bool:
    return len(text) in ends(form, text, 0, [])


@pytest.mark.parametrize("seed", every(3, range(40)))
def test_random_formats_agree_with_the_acceptor(seed: int) -> None:
    drawn, compiler = Drawn(seed), byte_compiler()
    for _ in range(12):
        form = drawn.form(3)
        texts = sorted({drawn.text(form) for _ in range(40)})
        expected = [reads(form, text) for text in texts]
        try:
            grammar = compiler.compile_structural_tag(of_format(form))
        except SpecError as error:
            assert not any(expected) or "can never be complete" in str(error), form
            continue
        for text, wanted in zip(texts, expected, strict=True):
            assert accepts(grammar, list(text.encode())) == wanted, (form, text)
