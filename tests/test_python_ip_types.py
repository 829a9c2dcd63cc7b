"""IP addresses, interfaces and networks, bare and in pydantic models. The module `ipaddress` is the judge."""

from __future__ import annotations

import fractions
import functools
import ipaddress
import json
import random
from typing import Any

import pydantic
import pytest

from guided import CompiledGrammar, GrammarCompiler, GrammarMatcher, JsonSchemaOptions
from guided.errors import SpecError
from guided.frontends.python_types.value_readers import text_reader, value_of
from guided.matching.sentences import byte_vocabulary, draw_sentence
from tests.effort import draws

COMPILER = GrammarCompiler(byte_vocabulary())
PLAIN = JsonSchemaOptions.for_generation(whitespace="compact").non_defaults()
TYPES: list[Any] = [
    ipaddress.IPv4Interface, ipaddress.IPv6Interface, ipaddress.IPv4Network, ipaddress.IPv6Network,
]  # fmt: skip
EVERYDAY: dict[Any, list[str]] = {
    ipaddress.IPv4Interface: ["10.0.0.1/8", "1.2.3.4"],
    ipaddress.IPv4Network: ["10.0.0.0/8", "192.168.1.0/24", "0.0.0.0/0", "1.2.3.4", "1.2.3.4/32"],
    ipaddress.IPv6Interface: ["2001:db8::1/64", "::1", "fe80::1:2/10", "1:2:3:4:5:6:7:8/128"],
    ipaddress.IPv6Network: [
        "1::/64", "2001:db8::/64", "2001:db8::/48", "2001:DB8::/32", "fe80::/10", "::/0", "::1/128", "::1", "0:0::/0",
        "ced7:b9cd:ccf:d:dbb0:9c7f:eaad:0/112", "2001::1:0:0:0/80", "1:2:3:4:5:6:7::/112", "::ffff:1.2.3.0/120",
        "::5:0/112", "1:2:3:4:5:6:1.2.3.4/128", "0:0:0:0:0:0:0:0/0", "8000::/1",
    ],
}  # fmt: skip


@functools.cache
def compiled(tp: Any, *, in_model: bool) -> CompiledGrammar:
    return COMPILER.compile_type(pydantic.create_model("M", f=(tp, ...)) if in_model else tp, **PLAIN)


def verdicts(tp: Any, texts: list[str]) -> list[tuple[str, bool, bool]]:
    """Texts that guided and `ipaddress` judge differently. Bare types and models have the same texts."""
    out = []
    bare, field = (GrammarMatcher(compiled(tp, in_model=in_model)) for in_model in (False, True))
    for text in texts:
        matcher, in_model = bare.fork(), field.fork()
        is_allowed = matcher.accept_string(f'"{text}"') and matcher.is_accepting()
        assert (in_model.accept_string(f'{{"f":"{text}"}}') and in_model.is_accepting()) == is_allowed
        try:
            is_read = str(value_of(tp, text)) == str(tp(text))
        except SpecError:
            is_read = False
        assert is_read == is_allowed, text
        try:
            tp(text)
        except ValueError:
            is_read = False
        else:
            is_read = True
        if is_allowed != is_read:
            out.append((text, is_allowed, is_read))
    return out


def address_of_6(bits: int, dotted: bool, chance: random.Random) -> str:
    """A random spelling of an IPv6 address."""
    values = [bits >> (112 - 16 * index) & 0xFFFF for index in range(8)]
    groups = [format(value, chance.choice(["x", "X", "04x"])) for value in values]
    if dotted:
        groups[6:] = [str(ipaddress.IPv4Address(bits & 0xFFFFFFFF))]
    zeros = [
        (start, end) for start in range(len(groups)) for end in range(start + 1, len(groups) + 1)
        if not any(values[start:end]) and not (dotted and end == 7)
    ]  # fmt: skip
    if not zeros or chance.random() < 0.2:
        return ":".join(groups)
    start, end = chance.choice(zeros)
    return ":".join(groups[:start]) + "::" + ":".join(groups[end:])


def draw_text(version: int, chance: random.Random) -> str:
    """An address, or a network of which most are correct, with many zeros."""
    size = 32 if version == 4 else 128
    length, bits = chance.randint(0, size), chance.getrandbits(size)
    for start in range(0, size, size // 8):
        bits &= ~(((1 << size // 8) - 1) << start) if chance.random() < 0.5 else -1
    if chance.random() < 0.8:
        bits = bits >> (size - length) << (size - length)
    if chance.random() < 0.3 and length < size:
        bits |= 1 << (size - 1 - length)
    dotted = version == 6 and length > 96 and chance.random() < 0.3
    address = str(ipaddress.IPv4Address(bits)) if version == 4 else address_of_6(bits, dotted, chance)
    return address if chance.random() < 0.05 else f"{address}/{length}"


@pytest.mark.parametrize("tp", TYPES)
def test_texts_are_allowed_if_ipaddress_reads_them(tp: Any) -> None:
    chance, version = random.Random(tp.__name__), 4 if "4" in tp.__name__ else 6
    texts = [draw_text(version, chance) for _ in range(draws(3_000))]
    mutated = [text[:at] + chance.choice("0:./1f") + text[at + 1 :] for text in texts for at in [chance.randrange(9)]]
    plain = [
        text for text in mutated if not text.partition("/")[2].startswith("0") and "." not in text.partition("/")[2]
    ]
    assert verdicts(tp, [*texts, *plain, *EVERYDAY[tp]]) == []
    assert all(tp(text) for text in EVERYDAY[tp])


@pytest.mark.parametrize("tp", TYPES)
def test_what_ipaddress_writes_is_allowed(tp: Any) -> None:
    chance, size = random.Random(tp.__name__), 32 if "4" in tp.__name__ else 128
    written = []
    for length in range(size + 1):
        for _ in range(3):
            bits = chance.getrandbits(size) & chance.getrandbits(size)
            written.append(str(tp((bits >> (size - length) << (size - length), length))))
    assert verdicts(tp, written) == []


@pytest.mark.parametrize("tp", [*TYPES, fractions.Fraction])
def test_generated_texts_are_read(tp: Any) -> None:
    for seed in range(draws(50)):
        text = draw_sentence(compiled(tp, in_model=False), random.Random(seed), 40, any_character=False)
        assert text_reader(tp)(text) == tp(json.loads(text))
        text = draw_sentence(compiled(tp, in_model=True), random.Random(seed), 60, any_character=False)
        value = pydantic.TypeAdapter(tp).validate_python(json.loads(text)["f"])
        assert isinstance(value, tp)


@pytest.mark.parametrize(("tp", "text"), [
    (ipaddress.IPv4Network, "10.0.0.0/255.0.0.0"), (ipaddress.IPv4Network, "10.0.0.0/08"),
    (ipaddress.IPv6Network, "::/00"), (ipaddress.IPv6Network, "fe80::%1/128"), (ipaddress.IPv6Network, "::0.0.0.0/96"),
])  # fmt: skip
def test_other_spellings_are_neither_allowed_nor_read(tp: Any, text: str) -> None:
    matcher = GrammarMatcher(compiled(tp, in_model=False))
    assert not matcher.accept_string(f'"{text}"')
    with pytest.raises(SpecError):
        value_of(tp, text)
