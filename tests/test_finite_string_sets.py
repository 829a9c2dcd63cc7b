"""Entries that are one of a few strings: many optional members in any order, enumerations whose values must differ."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Iterator
from typing import Any

import pytest

from guided.frontends.json_schema.compile import json_schema_to_grammar
from guided.frontends.json_schema.options import JsonSchemaOptions
from guided.ir.nodes import Distinct, Permutation
from guided.matching import GrammarCompiler, GrammarMatcher
from guided.vocabulary import Vocabulary
from tests.core_support import mask_of
from tests.json_schema_support import byte_compiler

NAMES = [first + second + last for first in "abcde" for second in "kmpr" for last in ("", "x", "xy", "z")]
VALUES: dict[str, Any] = {"": 0, "x": True, "xy": "s", "z": None}


def kind(name: str) -> str:
    return name[2:]


def members(**more: Any) -> dict[str, Any]:
    types = {"": "integer", "x": "boolean", "xy": "string", "z": "null"}
    properties = {name: {"type": types[kind(name)]} for name in NAMES}
    return {"type": "object", "properties": properties, "additionalProperties": False, **more}


def accepts(schema: dict[str, Any], text: str) -> bool:
    matcher = GrammarMatcher(byte_compiler().compile_json_schema(schema, property_order="any"))
    return matcher.accept_string(text.encode()) and matcher.is_accepting()


def spelled(name: str, rng: random.Random) -> str:
    return "".join(f"\\u{ord(c):04x}" if rng.random() < 0.2 else c for c in name)


@pytest.mark.parametrize("required", [[], ["ak", "bmx"]])
def test_many_optional_members_in_any_order(required: list[str]) -> None:
    schema, rng = members(required=required), random.Random(len(required))
    for size in (0, 1, 5, 30, len(NAMES)):
        names = rng.sample(NAMES, size)
        names += [name for name in required if name not in names]
        parts = [f'"{spelled(name, rng)}": {json.dumps(VALUES[kind(name)])}' for name in rng.sample(names, len(names))]
        assert accepts(schema, "{" + ", ".join(parts) + "}")
        for name in required:
            assert not accepts(
                schema, "{" + ", ".join(p for p in parts if json.loads(f"{{{p}}}").keys() != {name}) + "}"
            )
        if parts:
            again = rng.choice(parts)
            assert not accepts(schema, "{" + ", ".join([*parts, again]) + "}")
            assert not accepts(schema, "{" + ", ".join([*parts, '"other": 0']) + "}")
            at = rng.randrange(len(parts))
            parts[at] = parts[at].rpartition(":")[0] + ": []"
            assert not accepts(schema, "{" + ", ".join(parts) + "}")


@pytest.mark.parametrize(("least", "most"), [(0, 3), (1, None), (2, None), (2, 3), (79, None), (80, 80)])
def test_how_many_optional_members(least: int, most: int | None) -> None:
    schema = members(minProperties=least, **({} if most is None else {"maxProperties": most}), required=["ak"])
    others = random.Random(5).sample([name for name in NAMES if name != "ak"], len(NAMES) - 1)
    for count in {1, 2, 3, 4, 78, 79, 80}:
        text = json.dumps({name: VALUES[kind(name)] for name in [*others[: count - 1], "ak"]})
        assert accepts(schema, text) == (least <= count and (most is None or count <= most)), count


def test_many_optional_members_are_entries_where_that_is_exact() -> None:
    """Names that need escapes, and a minimum number of members that may have no values, keep the permutation."""

    def node(schema: dict[str, Any]) -> object:
        grammar = json_schema_to_grammar(schema, JsonSchemaOptions(property_order="any", surrounding_whitespace=False))
        return grammar.rules["#"]

    assert isinstance(node(members()), Distinct)
    assert isinstance(node(members(required=NAMES[:10])), Distinct)
    for other in (
        members(required=NAMES[:20]),
        members(minProperties=2),
        {**members(), "properties": members()["properties"] | {'"': {}}},
    ):
        assert not isinstance(node(other), Distinct) and "Permutation" in repr(node(other)), Permutation


@pytest.mark.parametrize("budget", [None, 100_000, 1500])
def test_when_all_members_are_written_the_object_ends(budget: int | None) -> None:
    """Masks equal those of a walk of the vocabulary, also with an ample budget."""
    matcher = GrammarMatcher(
        byte_compiler().compile_json_schema(members(), property_order="any", whitespace="compact", escapes="minimal")
    )
    text = json.dumps({name: VALUES[kind(name)] for name in NAMES}, separators=(",", ":"))
    for at, byte in enumerate(text.encode()):
        mask = mask_of(matcher, None if budget is None else budget - at)
        assert mask == tuple(matcher._walk_mask())
        assert byte in mask
        assert matcher.accept_token(byte)
        if at == len(text) - 2:
            assert mask_of(matcher) == (ord("}"),)


LONGER = [f"{n:03}-a longer word that is one of few" for n in range(120)]
NEW = [f"word {n}" for n in range(600)]
PLENTY: dict[str, tuple[dict[str, Any], Any]] = {
    "enumeration": ({"type": "array", "uniqueItems": True, "items": {"enum": LONGER}}, LONGER),
    "members": (members(), {name: VALUES[kind(name)] for name in NAMES}),
    "strings": ({"type": "array", "uniqueItems": True, "items": {"type": "string"}}, NEW),
    "names": ({"type": "object", "additionalProperties": {"type": "integer"}}, dict.fromkeys(NEW, 1)),
}


@pytest.mark.parametrize("name", PLENTY)
def test_plenty_of_budget_follows_nothing(name: str) -> None:
    """However many of the values are present, the budget adds no states."""
    schema, values = PLENTY[name]
    made = []
    for budget in (None, 1 << 20):
        compiler = GrammarCompiler(byte_compiler().vocabulary, cache_bytes=0)
        matcher = GrammarMatcher(compiler.compile_json_schema(schema, property_order="any"))
        for byte in json.dumps(values).encode():
            mask_of(matcher, budget)
            assert matcher.accept_token(byte)
        made.append(matcher.configurations)
    assert made[1] <= made[0]


WORDS = {
    "shared beginnings": (["ab", "abc", "abcd", "b", "ba", "c"], []),
    "shared ends": (["one", "none", "gone", "bone"], ["none"]),
    "what is shortest was written": (["a", "abcdef", "abcxyz", "bbbbbbbbb"], ["a"]),
    "past ASCII": (["\u00e9", "\u00e8a", "e", "\U0001f600", "\U0001f601"], ["\u00e9"]),
}


def all_arrays(words: list[str], before: list[str], least: int) -> Iterator[bytes]:
    for n in range(max(0, least - len(before)), len(words) + 1):
        for some in itertools.permutations(words, n):
            yield json.dumps([*before, *some], separators=(",", ":"), ensure_ascii=False).encode()


@pytest.mark.parametrize("least", [0, 3])
@pytest.mark.parametrize("name", WORDS)
def test_budgets_of_few_strings_are_exact(name: str, least: int) -> None:
    """In a vocabulary of bytes: the smallest number and each mask under a budget, compared with all arrays, written
    out.
    """
    words, before = WORDS[name]
    rest = [word for word in words if word not in before]
    texts = list(all_arrays(rest, before, max(least, len(before))))
    grammar = byte_compiler().compile_json_schema(
        {
            "type": "array",
            "uniqueItems": True,
            "items": {"enum": words},
            "prefixItems": [{"const": word} for word in before],
            "minItems": max(least, len(before)),
        },
        whitespace="compact",
        escapes="minimal",
    )
    rng = random.Random(name)
    for _ in range(8):
        matcher, written, left = GrammarMatcher(grammar), b"", texts
        while written not in left:
            needed = min(map(len, left)) - len(written) + 1
            assert matcher.min_tokens_to_finish() == needed
            for budget in (needed, needed + 1, needed + 3, 1000):
                fitting = [text for text in left if len(text) - len(written) < budget]
                assert set(mask_of(matcher, budget)) == {text[len(written)] for text in fitting}, (written, budget)
            going_on = sorted({text[len(written)] for text in left} - {ord("]")}) or [ord("]")]
            byte = rng.choice(going_on)
            assert matcher.accept_token(byte)
            written += bytes([byte])
            left = [text for text in left if text.startswith(written)]


@pytest.mark.parametrize("name", WORDS)
def test_a_budget_leads_to_an_end_however_strings_are_spelled(name: str) -> None:
    """With tokens of several bytes and any spelling: every output that a budget allows ends within the budget."""
    words, before = WORDS[name]
    texts = [text for word in words for text in (f'"{word}"', f',"{word}', json.dumps(word), word)]
    tokens = sorted({t.encode()[at : at + n] for t in texts for at in range(len(t.encode())) for n in (2, 3, 4)})
    vocabulary = Vocabulary([*(bytes([byte]) for byte in range(256)), *tokens, None], eos_token_ids=[256 + len(tokens)])
    prefix = [{"const": word} for word in before]
    schema = {"type": "array", "uniqueItems": True, "items": {"enum": words}, "prefixItems": prefix, "minItems": 3}
    grammar = GrammarCompiler(vocabulary, cache_bytes=0).compile_json_schema(schema)
    rng = random.Random(name)
    for _ in range(40):
        matcher = GrammarMatcher(grammar)
        budget = matcher.min_tokens_to_finish() + rng.randrange(12)
        while not matcher.is_terminated():
            allowed = mask_of(matcher, budget)
            assert allowed and set(allowed) <= set(matcher._walk_mask())
            assert matcher.accept_token(rng.choice(allowed))
            budget -= 1
        assert budget >= 0
